"""Texts from outside, without the characters that a reader or a terminal should not meet."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Control characters, lone surrogates and non-characters break XML and JSON; characters that turn
# the direction of writing can make a name look like another. Neither belongs in a report, a log or
# a terminal.
_UNSHOWABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_REPLACEMENT = "\ufffd"


def make_showable(text: str) -> str:
    """The text with a replacement sign for each character that no reader should meet.

    Examples:
        >>> make_showable("a" + chr(0) + "b") == "a" + chr(0xFFFD) + "b"
        True
    """
    return _UNSHOWABLE.sub(_REPLACEMENT, text)


def make_all_showable(value: Any) -> Any:
    """`make_showable` for every text within settings of any depth."""
    if isinstance(value, str):
        return make_showable(value)
    if isinstance(value, Mapping):
        return {make_showable(str(key)): make_all_showable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [make_all_showable(item) for item in value]
    return value
