"""Exceptions from the tables: data with a reason, which must really fail."""

import pytest


def marks(
    reason: str | None, raises: type[Exception] = AssertionError
) -> list[pytest.MarkDecorator]:
    """What marks a property that something lacks for this reason; nothing without one."""
    if reason is None:
        return []
    return [pytest.mark.xfail(reason=reason, raises=raises, strict=True)]
