"""Texts of others without the keys that we sent them, however they write them."""

import base64
import contextlib
import html
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from divulge._util import credentials

MASK: Final = "***"

_LONGEST_TEXT = 2**16  # characters; nobody is shown more of a text than a few hundred
_ROUNDS = 3  # how often a text may have been escaped

_ESCAPE = re.compile(
    r"%[0-9A-Fa-f]{2}"
    r"|\\u\{[0-9A-Fa-f]{1,6}\}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\x[0-9A-Fa-f]{2}|\\[0-7]{3}"
    r"|\\."
    r"|&#[xX]?[0-9A-Fa-f]{1,8};?|&[A-Za-z]{2,8};"
    r"|=[0-9A-F]{2}",
    re.DOTALL,
)


class _Letter(NamedTuple):
    """A letter or digit of a text, and where in it this is written."""

    text: str
    start: int
    end: int


class Redactor:
    """Replaces keys in texts: whole ones, and pieces of them.

    A piece is a run of 8 letters and digits of a key, or of half of a key that is shorter than 16,
    but of 4 at least. Capital and small letters are alike, and everything but letters and digits
    is passed over, so a key is also seen where it was cut into pieces by spaces, quotes or line
    breaks. It is seen as it is; with characters escaped as in URLs, JSON, HTML, Python, JavaScript
    or quoted-printable, up to three times over; in base64, also behind or before other text as in
    ``user:password``; in hexadecimal; and backwards. With a key of fewer than four letters and
    digits no text is shown at all: whatever holds it would.

    Args:
        keys: what was sent and must not be shown.

    Examples:
        >>> Redactor(["s3cret-of-mine"]).redact("no access for s3cret%2Dof%2Dmine")
        'no access for ***'
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._pieces: dict[int, set[str]] = {}
        self._shows_nothing = False
        for key in set(keys):
            letters = _squash(key)
            self._shows_nothing |= len(letters) < 4
            length = min(8, max(4, len(letters) // 2))
            for form in map(_squash, _forms(key)):
                pieces = (form[k : k + length] for k in range(len(form) - length + 1))
                self._pieces.setdefault(length, set()).update(pieces)

    def __repr__(self) -> str:
        return "Redactor()"

    def redact(self, text: str) -> str:
        """The text, or its first 65,536 characters, with ``***`` in place of keys.

        Redact before a text is cut or formatted: of a key that was cut less may be left than a
        piece.
        """
        if self._shows_nothing:
            return MASK if text else ""
        if not self._pieces:
            return text
        text = text[:_LONGEST_TEXT]
        letters = [_Letter(letter, k, k + 1) for k, letter in enumerate(text)]
        spans: list[tuple[int, int]] = []
        for _ in range(_ROUNDS + 1):
            spans.extend(self._search(letters))
            before, letters = letters, _unescape(letters)
            if len(before) == len(letters):
                break
        return _mask(text, spans)

    def _search(self, letters: list[_Letter]) -> Iterator[tuple[int, int]]:
        """The parts of the text that hold pieces of keys."""
        solid = [
            _Letter(folded, letter.start, letter.end)
            for letter in letters
            if letter.text.isalnum()
            for folded in letter.text.casefold()
        ]
        squashed = "".join(letter.text for letter in solid)
        for length, pieces in self._pieces.items():
            for k in range(len(squashed) - length + 1):
                if squashed[k : k + length] in pieces:
                    yield solid[k].start, solid[k + length - 1].end


def redact_foreign(text: str, url: str = "") -> str:
    """A text of a library that reads keys from the environment by itself, for a message.

    URLs stand in it without user info and query. What variables with names for keys hold, and
    what stands in the user info and query of other variables, is replaced where it has 8 or more
    letters and digits.

    Args:
        text: the message of an error.
        url: where the library sent something, if it was told so; its keys are replaced as well.
    """
    secrets = [credentials.keys_in_url(url)]
    for name, value in os.environ.items():
        secrets.append([value] if credentials.is_key_like(name) else credentials.keys_in_url(value))
    keys = [key for some in secrets for key in some if sum(map(str.isalnum, key)) >= 8]
    return Redactor(keys).redact(credentials.hide_in_urls(text))


def _squash(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _forms(key: str) -> Iterator[str]:
    """A key as others may write it; what differs in other characters than letters is left out."""
    raw = key.encode("utf-8", "surrogatepass")
    yield from (key, key[::-1], raw.decode("latin-1"), raw.hex())
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        # the first and the last character may hold bits of what stands around the key
        yield coded[(before * 8 + 5) // 6 : len(coded) - ((before + len(raw)) % 3 > 0)]
    padded = key + "=" * (-len(key) % 4)
    with contextlib.suppress(ValueError):  # a key may be in base64 itself, as "user:password" is
        yield base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")


def _unescape(letters: list[_Letter]) -> list[_Letter]:
    """The letters, each escaped one as what it stands for."""
    text = "".join(letter.text for letter in letters)
    plain_letters, end = [], 0
    for match in _ESCAPE.finditer(text):
        plain_letters.extend(letters[end : match.start()])
        start, end = match.span()
        plain = _meaning(match[0])
        plain_letters.append(_Letter(plain, letters[start].start, letters[end - 1].end))
    return [*plain_letters, *letters[end:]]


_CONTROLS = dict(zip("nrtbfv", "\n\r\t\b\f\v", strict=True))


def _meaning(escaped: str) -> str:
    """The character that an escaped one stands for."""
    if escaped[0] == "&":
        plain = html.unescape(escaped)
        return plain if len(plain) == 1 else " "
    if escaped[0] in "%=":
        return chr(int(escaped[1:], 16))
    if len(escaped) == 2:
        return _CONTROLS.get(escaped[1], escaped[1])
    if escaped[1].isdigit():
        return chr(int(escaped[1:], 8))
    number = int(escaped[2:].strip("{}"), 16)
    return chr(number) if number <= 0x10FFFF else " "


def _mask(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with each span, and each group of spans that touch, replaced."""
    parts: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start > end or not parts:
            parts.extend([text[end:start], MASK])
        end = max(end, stop)
    return "".join([*parts, text[end:]])
