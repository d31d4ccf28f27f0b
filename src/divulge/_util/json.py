"""What JSON and TOML files hold, and parsers that refuse what readers may read differently.

Of two values of one key parsers take the last without a word; others, and people, see the first.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
else:
    JSON = Any  # what checks types at run time knows none that contain themselves

Settings = Mapping[str, JSON]
"""Values by name, such as the settings of an attack."""


class RepeatedKey(ValueError):
    """A key stands twice in one object."""


def parse_json(raw: bytes | str) -> Any:
    """The value that a JSON document stands for.

    Raises:
        ValueError: it is no JSON; `RepeatedKey` where a key stands twice in one object.
        RecursionError: it is nested too deeply.

    Examples:
        >>> parse_json('{"label": 0, "label": 1}')
        Traceback (most recent call last):
        ...
        divulge._util.json.RepeatedKey: the key 'label' stands twice in one object
    """
    return json.loads(raw, object_pairs_hook=_unique)


def parse_strict_json(raw: bytes) -> JSON:
    """The value in a file of JSON whose numbers every reader reads alike, too.

    Raises:
        ValueError: it is no JSON in UTF-8, a key stands twice in one object, a number is not finite
            or too large for one, or it is nested too deeply.

    Examples:
        >>> parse_strict_json(b'[NaN]')
        Traceback (most recent call last):
        ...
        ValueError: NaN is no finite number
    """
    try:
        value: JSON = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=_parse_finite,
            parse_constant=_refuse_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def refuse_repeated_keys(raw: bytes | str) -> None:
    """Refuse a JSON document, which another parser reads, if a key stands twice in an object.

    Raises:
        RepeatedKey: it does. What is no JSON at all is left to the other parser.
    """
    try:
        # numbers as texts: one of many digits is an error here, and none elsewhere
        json.loads(raw, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except RepeatedKey:
        raise
    except (ValueError, RecursionError):
        return


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise RepeatedKey(f"the key {twice[:80]!r} stands twice in one object")
    return members


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no finite number")
