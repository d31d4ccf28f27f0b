"""Write a prompt about each record."""

import re
from collections.abc import Mapping
from typing import Any

from divulge.errors import TargetError, did_you_mean
from divulge.targets.json_records import to_rows

_PLACE = re.compile(r"\{([^{}]+)\}")


def write_prompts(prompt: str | None, x: Any) -> list[str]:
    """The prompt of each record: ``{record}`` is a text, or the cells; ``{name}`` is a column."""
    columns, values = to_rows(x)
    prompts = []
    for value in values:
        cells = dict(zip(columns, value, strict=True)) if columns else {}
        whole = ", ".join(map(_as_text, value)) if isinstance(value, list) else _as_text(value)
        prompts.append(_fill(prompt or "{record}", {"record": whole} | cells))
    return prompts


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


def _fill(prompt: str, cells: Mapping[str, Any]) -> str:
    # In one pass: braces within a record stay what they are.
    def put(match: re.Match[str]) -> str:
        if match[1] not in cells:
            raise TargetError(
                f"expected a column of the records in the prompt, got {match[0]}: "
                f"{did_you_mean(match[1], cells)}"
            )
        return _as_text(cells[match[1]])

    return _PLACE.sub(put, prompt)
