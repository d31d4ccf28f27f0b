"""What JSON and TOML files hold, and a parser that refuses an object with a key that stands twice.

Of two values of one key parsers take the last without a word; others, and people, see the first.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise RepeatedKey(f"the key {twice[:80]!r} stands twice in one object")
    return found
