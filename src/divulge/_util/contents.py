"""Texts that may hold contents of records, for messages: with their form and without the contents.

A digit becomes 9 and a letter x; signs and spaces stay, for they are what is wrong with a cell that
is no number or no date.
"""

import builtins
import re
import unicodedata
from collections.abc import Iterable, Iterator
from types import CodeType, TracebackType
from typing import Any, Final

from divulge._util.redaction import redact_foreign

MISSING: Final = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""Cells that are missing, as pandas takes them unless it is told otherwise."""

PLAIN_WORDS: Final = frozenset(
    (*(word.lower() for word in MISSING), "nat", "nil", "missing", "unknown", "true", "false",
     "yes", "no", "inf", "+inf", "-inf", "infinity", "-infinity", "now", "today")
)  # fmt: skip
"""Words for a gap, a truth value or a limit, in lower case: they tell nothing about a record."""

_EXPONENT = re.compile(r"(?<=[0-9.])[eE](?=[+-]?[0-9])")
_FIGURE = re.compile(r"\d+(?:[.:/-]\d+|,\d{3}(?!\d))*(?:[eE][+-]?\d+)?")
"""A number, a date, a time, or a version."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){2,}")
_QUOTED = re.compile(
    r"(?:(?<!\w)|(?<=\bb))(?P<sign>['\"])"  # bytes too; no apostrophe
    r"(?P<text>(?:\\.|(?!(?P=sign)(?!\w))[^\\])*)(?P=sign)(?P<type> object)?",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W_]+")
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_MANY_DIGITS = 4  # a number of so many says which record it is from; sizes and positions have fewer
_PHRASE = 3  # words in a row that a text of others has from a longer text of ours
_SHORT, _LONG = 3, 8  # letters of words that mean nothing alone, and of those that may be cut


def mask(text: str) -> str:
    """The form of a text: 9 for each digit, x for each letter, and all signs.

    Examples:
        >>> mask("Ann Smith 1961-02-03"), mask("-1,234.5e7"), mask("N/A")
        ('xxx xxxxx 9999-99-99', '-9,999.9e9', 'N/A')
    """
    if text.strip().lower() in PLAIN_WORDS:
        return text
    exponents = {match.start() for match in _EXPONENT.finditer(text)}
    return "".join(sign if k in exponents else _mask_sign(sign) for k, sign in enumerate(text))


def mask_numbers(text: str) -> str:
    """A text with 9 for each digit of numbers of four digits or more; versions stay.

    Examples:
        >>> mask_numbers("row 17 of 120: 7319314.159, born 1961-02-03, NumPy 1.26.4")
        'row 17 of 120: 9999999.999, born 9999-99-99, NumPy 1.26.4'
    """
    return _FIGURE.sub(lambda match: _mask_figure(match[0]), text)


def mask_sent(text: str, sent: Iterable[Any]) -> str:
    """A text of others without what it repeats of the cells that they were sent.

    Numbers of one digit stay, since sizes and positions are such too; so do short words outside of
    quotes, and the keys of JSON.

    Args:
        text: theirs; pass no more of it than is shown.
        sent: numbers, texts, truth values, None, and lists of them.

    Examples:
        >>> mask_sent('bad value 31 of "Ann" in column age', [[31.0, "Ann"]])
        'bad value 99 of "xxx" in column age'
    """
    numbers: set[float] = set()
    phrases: set[tuple[str, ...]] = set()
    words: set[str] = set()
    for cell in _flatten(sent):
        if isinstance(cell, str):
            spoken = _words(cell)
            words.update(spoken)
            size = min(len(spoken), _PHRASE)
            phrases.update(tuple(spoken[k : k + size]) for k in range(len(spoken) - size + 1))
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            numbers.add(abs(cell))
    text = _UNICODE.sub(lambda match: chr(int(match[1], 16)), text)
    text = _QUOTED.sub(lambda match: _mask_words(match, words), text)
    text = _mask_phrases(text, phrases, words)
    return _NUMBER.sub(lambda match: _mask_if_sent(match[0], numbers), text)


def quote_error(error: BaseException) -> str:
    """What an error of foreign code says, without keys and without contents of records.

    Numbers of four digits or more and quoted texts are masked. Quoted names of types, and texts
    that stand in the code that raised the error, stay: they come from no record. The error itself
    is left as it is; raise ``from`` it.
    """
    text = str(error)
    if isinstance(error, KeyError) and len(error.args) == 1 and _QUOTED.search(str(error.args[0])):
        text = str(error.args[0])  # a sentence, such as of pandas, which Python quotes as a whole
    known = {*dir(builtins), *_texts_of_code(error.__traceback__)}
    return mask_numbers(_QUOTED.sub(lambda match: _mask_quoted(match, known), redact_foreign(text)))


def _mask_sign(sign: str) -> str:
    if sign.isdigit():
        return "9"
    # a symbol such as an emoji may be a content too; those of mathematics and money are signs
    return sign if unicodedata.category(sign) in _SIGNS else "x"


_SIGNS: Final = frozenset(
    ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "Zs", "Zl", "Zp", "Cc", "Cf")
)


def _mask_figure(figure: str) -> str:
    digits = sum(map(str.isdigit, figure))
    return figure if digits < _MANY_DIGITS or _VERSION.fullmatch(figure) else mask(figure)


def _mask_if_sent(number: str, sent: set[float]) -> str:
    return mask(number) if len(number) > 1 and float(number) in sent else number


def _mask_words(quoted: re.Match[str], sent: set[str]) -> str:
    own = _words(quoted["text"])
    is_key = re.search(r"[{,]\s*$", quoted.string[: quoted.start()]) and re.match(
        r"\s*:", quoted.string[quoted.end() :]
    )
    if is_key or not own or not sent.issuperset(own[:-1]):
        return quoted[0]
    last = own[-1]  # may be cut
    if last not in sent and not (len(own) > 1 and _begins(last, sent)):
        return quoted[0]
    return _in_quotes(quoted)


def _mask_phrases(text: str, phrases: set[tuple[str, ...]], words: set[str]) -> str:
    matches = list(_WORD.finditer(text))
    hidden: set[int] = set()
    for k, word in enumerate(matches):
        for size in range(1, _PHRASE + 1):
            phrase = tuple(part[0].casefold() for part in matches[k : k + size])
            if phrase in phrases and (len(phrase) > 1 or _means_something(phrase[0])):
                hidden.update(range(word.start(), matches[k + len(phrase) - 1].end()))
        after_hidden = k > 0 and matches[k - 1].start() in hidden
        if (after_hidden or len(word[0]) >= _LONG) and _begins(word[0].casefold(), words):
            hidden.update(range(*word.span()))
    return "".join(_mask_sign(sign) if k in hidden else sign for k, sign in enumerate(text))


def _begins(word: str, words: set[str]) -> bool:
    return any(longer.startswith(word) for longer in words)


def _means_something(word: str) -> bool:
    return len(word) >= _SHORT and not word.isdigit() and word not in PLAIN_WORDS


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _mask_quoted(match: re.Match[str], known: set[str]) -> str:
    is_type = match["type"] and match["text"].replace(".", "").isidentifier()
    if is_type or match["text"] in known:
        return match[0]
    return _in_quotes(match)


def _in_quotes(match: re.Match[str]) -> str:
    return f"{match['sign']}{mask(match['text'])}{match['sign']}{match['type'] or ''}"


def _texts_of_code(place: TracebackType | None) -> Iterator[str]:
    """Names and texts in the code of all functions that an error went through."""
    while place is not None:
        code = place.tb_frame.f_code
        yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
        yield from (constant for constant in _flatten(code.co_consts) if isinstance(constant, str))
        place = place.tb_next


def _flatten(cells: Any) -> Iterator[Any]:
    if isinstance(cells, str | bytes | CodeType) or not isinstance(cells, Iterable):
        yield cells
        return
    for cell in cells.values() if isinstance(cells, dict) else cells:
        yield from _flatten(cell)
