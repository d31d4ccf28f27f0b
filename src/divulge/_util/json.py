"""What JSON and TOML files hold: its type, and a reader that takes nothing doubtful."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
else:
    JSON = Any  # what checks types at run time knows none that contain themselves

Settings = Mapping[str, JSON]
"""Values by name, such as the settings of an attack."""


def read_strict_json(raw: bytes) -> JSON:
    """The value in a file of JSON that every reader reads alike.

    Raises:
        ValueError: it is no JSON in UTF-8, a key stands twice in one object, a number is not finite
            or too large for one, or it is nested too deeply.

    Examples:
        >>> read_strict_json(b'{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ValueError: the key 'a' stands twice
    """
    try:
        return json.loads(  # type: ignore[no-any-return]
            raw.decode("utf-8"),
            object_pairs_hook=_take_pairs,
            parse_float=_read_float,
            parse_constant=_refuse_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _take_pairs(pairs: list[tuple[str, JSON]]) -> Mapping[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice")
    return found


def _read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no finite number")
