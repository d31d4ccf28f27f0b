"""Annotations in words, and what they ask for: what messages about arguments say of them."""

import reprlib
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import annotated_types
import numpy as np

from divulge._util.credentials import NOT_SHOWN

SEVERAL = (Iterable, Collection, Sequence)
"""Origins of annotations of several things in an order, besides tuples."""


class Words(NamedTuple):
    """In ``Annotated``: how messages describe the annotation."""

    text: str


def _parts(hint: Any) -> Iterable[Any]:
    """The alternatives of an annotation."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _parts(get_args(hint)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint


def may_show(hint: Any) -> bool:
    """Whether messages may show a value: it is not in a place for keys."""
    if get_origin(hint) is Annotated and NOT_SHOWN in hint.__metadata__:
        return False
    return all(map(may_show, get_args(hint))) if get_origin(hint) else True


def is_array(hint: Any) -> bool:
    """Whether it asks for an array."""
    return any(hasattr(part, "dim_str") for part in _parts(hint))


def is_several(hint: Any) -> bool:
    """Whether it asks for several things in an order."""
    return any(get_origin(part) in (*SEVERAL, tuple) for part in _parts(hint))


def literals(hint: Any) -> list[Any]:
    """The values that it names one by one."""
    named = [part for part in _parts(hint) if get_origin(part) is Literal]
    return [value for part in named for value in get_args(part)]


def classes(hint: Any) -> list[type]:
    """The classes of which it takes objects."""
    return [part for part in _parts(hint) if isinstance(part, type)]


def shorten(value: Any) -> str:
    """A value for a message, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _SHORT.repr(value)


class _Short(reprlib.Repr):
    """Values in a few words, without the contents of arrays and objects, which may be records."""

    def repr_instance(self, x: Any, level: int) -> str:
        plain = None | bool | int | float | complex | bytes | Path | np.generic
        if isinstance(x, plain):
            return super().repr_instance(x, level)
        if isinstance(x, np.ndarray | type):
            return shorten(x)
        return f"{'an' if type(x).__name__[:1] in 'AEIOU' else 'a'} {type(x).__name__}"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 60


_WORDS = {
    int: "a whole number", float: "a finite number", str: "text", bool: "True or False",
    type(None): "None", None: "None", Path: "a path", bytes: "bytes", Any: "anything",
}  # fmt: skip

_KINDS = {
    "Float": "floats", "Float64": "float64", "Int": "integers", "Int64": "int64",
    "Bool": "booleans", "UInt8": "uint8", "UInt64": "uint64", "Shaped": "numbers",
    "Integer": "integers", "Num": "numbers",
}  # fmt: skip


def describe(hint: Any) -> str:
    """An annotation in words, for messages."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        words = [item.text for item in hint.__metadata__ if isinstance(item, Words)]
        return words[0] if words else describe(parts[0]) + _describe_limits(hint.__metadata__)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(describe, parts)))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin is tuple and ... not in parts:
        return f"a tuple of {len(parts)}: " + ", ".join(map(describe, parts))
    if origin is tuple or origin in SEVERAL:
        return f"a list, each entry {describe(parts[0])}"
    if origin in (Mapping, dict):
        return f"a dict from {describe(parts[0])} to {describe(parts[1])}"
    if origin is Callable or hint is Callable:
        return "a function"
    if hasattr(hint, "dim_str"):
        axes = f" with axes {hint.dim_str!r}" if hint.dim_str else ""
        return f"an array of {_KINDS.get(hint.__name__.split('[')[0], 'numbers')}{axes}"
    if hint in _WORDS:
        return _WORDS[hint]
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


_LIMITS = {
    annotated_types.Ge: ("ge", "of {} or more"),
    annotated_types.Gt: ("gt", "above {}"),
    annotated_types.Le: ("le", "up to {}"),
    annotated_types.Lt: ("lt", "below {}"),
}


def _describe_limits(metadata: Iterable[Any]) -> str:
    inner = [part for item in metadata for part in getattr(item, "metadata", [item])]
    limits = [
        _LIMITS[type(limit)][1].format(_round(getattr(limit, _LIMITS[type(limit)][0])))
        for limit in inner
        if type(limit) in _LIMITS
    ]
    return f" {' and '.join(limits)}" if limits else ""


def _round(limit: int | float) -> str:
    """A limit; a high power of two as one."""
    power = int(limit).bit_length() - 1
    return f"2^{power}" if power > 20 and limit == 2**power else f"{limit:g}"
