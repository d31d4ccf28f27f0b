"""TOML files are read into frozen settings here, and every mistake becomes a helpful message.

Reading is pure: it loads no data and runs no code of the user.
"""

import datetime as dt
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic

from divulge._util import untrusted
from divulge._util.credentials import NOT_SHOWN, hides_key
from divulge._util.json import JSON, Settings
from divulge.errors import SpecError, did_you_mean

MAX_DEPTH = 20
"""Levels of tables and lists within each other; deeper ones would exhaust the stack."""


class Section(pydantic.BaseModel):
    """A section of settings: frozen, and without any other keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        shown = type(self).model_fields
        for name, value in super().__repr_args__():
            if name is None or name not in shown or NOT_SHOWN not in shown[name].metadata:
                yield name, value


def read_toml(path: Path) -> dict[str, JSON]:
    """Read a TOML file.

    Raises:
        SpecError: the file is missing, too large or not TOML; or holds a number that is not
            finite, or tables within tables without end.
    """
    try:
        raw = untrusted.read_file(path, untrusted.MAX_TEXT_BYTES, SpecError)
    except SpecError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise SpecError(f"{error}, or write one with `divulge init`") from error
    try:
        table = tomllib.loads(raw.decode("utf-8-sig"))  # editors of Windows write a mark
    except RecursionError as error:
        raise _depth_error(str(path)) from error
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise SpecError(f"expected TOML in {path}, got something else: {error}") from error
    check_finite(table, str(path), ())
    return table


def read_pairs(pairs: Iterable[str]) -> dict[str, JSON]:
    """Settings written as ``key=value`` on a command line, with values as in TOML.

    Raises:
        SpecError: one is something else, or a key stands there twice.

    Examples:
        >>> read_pairs(["power=2.0", "signal='margin'"])
        {'power': 2.0, 'signal': 'margin'}
    """
    settings: dict[str, JSON] = {}
    for pair in pairs:
        try:
            setting = tomllib.loads(pair)
        except ValueError:
            setting = {}
        if len(setting) != 1 or setting.keys() & settings.keys():
            raise SpecError(
                f"expected settings as key=value, each once, got {pair!r}: write a value as in "
                "TOML, with texts in quotes: \"signal='margin'\""
            )
        settings |= setting
    check_finite(settings, "settings", ())
    return settings


A = TypeVar("A")

S = TypeVar("S", bound=Section)


def validate_section(model: type[S], table: dict[str, JSON], where: str) -> S:
    """Turn a table of a TOML file into settings of one kind.

    Args:
        model: the kind of settings.
        table: the keys and values of the file.
        where: the file, or a place in it, for messages.

    Raises:
        SpecError: a key is unknown or missing, or a value is of the wrong kind, nan or infinite.
    """
    check_finite(table, where, ())
    try:
        # by way of JSON, where a list may stand for a tuple while other types stay strict
        return model.model_validate_json(pydantic.TypeAdapter(Any).dump_json(table))
    except pydantic.ValidationError as error:
        problems = (_explain(item, where, model) for item in error.errors())
        raise SpecError("\n".join(problems)) from error


def check_finite(value: Any, where: str, place: tuple[str, ...]) -> None:
    """Refuse nan, infinity and dates: JSON lacks them, so they would become null and text.

    Raises:
        SpecError: a number is not finite, there is a date, or something stands too deep; names its
            place.
    """
    if len(place) > MAX_DEPTH:
        raise _depth_error(where)
    if isinstance(value, dict):
        for key, item in value.items():
            check_finite(item, where, (*place, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            check_finite(item, where, (*place, str(number)))
    elif isinstance(value, dt.date | dt.time):
        name = ".".join(place)
        raise SpecError(f"{where}: expected no date for {name!r}, got {value}: put it in quotes")
    elif isinstance(value, float) and not math.isfinite(value):
        name = ".".join(place)
        raise SpecError(f"{where}: expected a finite number for {name!r}, got {value}: correct it")


def _depth_error(where: str) -> SpecError:
    return SpecError(
        f"expected settings of at most {MAX_DEPTH} levels in {where}, got tables or lists within "
        "each other beyond that: no setting is so deep"
    )


def check_keys(table: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse keys that are not known, all at once.

    Raises:
        SpecError: names each, and the nearest known one.
    """
    problems = [_explain_unknown(key, known, where, key) for key in table if key not in known]
    if problems:
        raise SpecError("\n".join(problems))


def _explain_unknown(key: str, known: Iterable[str], where: str, place: str) -> str:
    return f"{where}: expected a known key, got {place!r}: {did_you_mean(key, known)}"


def _explain(item: Any, where: str, model: type[Section]) -> str:
    place = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        section = _section_at(item["loc"][:-1], model)
        return _explain_unknown(str(item["loc"][-1]), section.model_fields, where, place)
    if item["type"] == "missing":
        return f"{where}: expected the key {place!r}, it is missing: add it"
    shown = _is_shown(item["loc"], model) and not hides_key(str(item["input"]))
    got = repr(item["input"]) if shown else "another value"
    why = item["msg"].removeprefix("Value error, ")  # raised by a check of ours
    return f"{where}: expected a valid {place!r}, got {got}: {why}"


def _section_at(path: tuple[str | int, ...], model: type[Section]) -> type[Section]:
    """The section at a place of the settings."""
    for key in path:
        model = next(_sections(model.model_fields[str(key)].annotation))
    return model


def _sections(kind: Any) -> Iterator[type[Section]]:
    """The kinds of sections in an annotation."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, Section):
            yield part


def _is_shown(path: tuple[str | int, ...], model: type[Section]) -> bool:
    """Whether messages may show a value: it is in no place for keys, nor around one."""
    for key in path:
        if (setting := model.model_fields.get(str(key))) is None:
            return True
        if NOT_SHOWN in setting.metadata:
            return False
        if (section := next(_sections(setting.annotation), None)) is None:
            return True
        model = section
    return not any(_holds_hidden(model))


def _holds_hidden(model: type[Section]) -> Iterator[bool]:
    for setting in model.model_fields.values():
        yield NOT_SHOWN in setting.metadata
        for section in _sections(setting.annotation):
            yield from _holds_hidden(section)


def build_attacks(entries: Iterable[Settings], build: Callable[..., A]) -> Iterator[A]:
    """Build the attack of each ``[[attacks]]`` entry.

    Args:
        entries: the entries, each with a ``name`` and settings.
        build: builds an attack from its name and its settings.

    Raises:
        SpecError: an attack or one of its settings does not exist, or an entry has no name.
    """
    for entry in entries:
        settings = dict(entry)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SpecError(
                f'expected name = "..." in each [[attacks]], got {entry}: '
                "see `divulge list attacks`"
            )
        yield build(name, **settings)
