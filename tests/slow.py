"""Parameters of tests that take long."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """These parameters of a test, marked as `slow`: a sister of theirs is quick."""
    return pytest.param(*values, marks=pytest.mark.slow)


def thin(every: int, parameters: Iterable[Any]) -> list[Any]:
    """Of parameters that differ in degree, one in so many is quick, and the others are `slow`."""
    return [
        one if k % every == 0 else slow(*one) if type(one) is tuple else slow(one)
        for k, one in enumerate(parameters)
    ]
