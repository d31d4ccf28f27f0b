"""Checks of values against annotations, by pydantic: NumPy's numbers and lists are taken, too."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import jaxtyping
import numpy as np
import pydantic

from divulge._util import hints

_CONFIG = pydantic.ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def make_check(hint: Any) -> Callable[[Any], Any]:
    """A function that returns the value as it is handed on; ValidationError if it does not fit."""
    check: Callable[[Any], Any] = pydantic.TypeAdapter(
        _translate(hint), config=_CONFIG
    ).validate_python
    return check


def _translate(hint: Any) -> Any:
    """The annotation as pydantic is to judge it."""
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar) or hint in (Any, None, type(None), str, bool, bytes, Path):
        return Any if isinstance(hint, TypeVar) else hint
    if hint in (int, float):
        return Annotated[hint, pydantic.WrapValidator(_keep_number)]
    if origin is Annotated and parts[0] in (int, float):
        return Annotated[(*parts, pydantic.WrapValidator(_keep_number))]
    if origin is Annotated:
        return Annotated[(_translate(parts[0]), *parts[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_translate, parts))]  # noqa: UP007 (made at run time)
    if origin is Literal:
        return Annotated[hint, pydantic.BeforeValidator(_refuse_unhashable)]
    if origin is tuple:
        inner = tuple(part if part is ... else _translate(part) for part in parts)
        return Annotated[tuple.__class_getitem__(inner), pydantic.BeforeValidator(_as_tuple)]
    if origin in hints.SEVERAL:
        inner = (_translate(parts[0]), ...)
        return Annotated[tuple.__class_getitem__(inner), pydantic.BeforeValidator(_as_tuple)]
    if origin in (Mapping, dict):
        table = dict.__class_getitem__(tuple(map(_translate, parts)))
        return Annotated[table, pydantic.WrapValidator(_keep_mapping)]
    if origin is Callable:
        return _tested(functools.partial(_takes, parts[0]))
    return _tested(functools.partial(_is_a, origin or hint))


def _keep_number(value: Any, judge: Callable[[Any], Any]) -> Any:
    number = value.item() if isinstance(value, np.integer | np.floating) else value
    if not isinstance(number, int | float):  # pydantic asks other things for their float, too
        raise ValueError("no number")  # noqa: TRY004 (pydantic passes other errors on)
    judged = judge(number)
    # a whole number where any will do stays one, unless it is too large for NumPy
    return number if abs(number) < 2**63 else judged


def _refuse_unhashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):  # its comparison with a word is no truth
        raise ValueError("an array")  # noqa: TRY004 (pydantic passes others on)
    return value


def _as_tuple(value: Any) -> Any:
    """Several things as a tuple; text, mappings and sets do not say several things in an order."""
    if isinstance(value, str | bytes | Mapping | set | frozenset) or not np.iterable(value):
        raise ValueError("not several")
    return value if isinstance(value, tuple) else tuple(value)


def _keep_mapping(value: Any, judge: Callable[[Any], Any]) -> Any:
    judge(dict(value) if isinstance(value, Mapping) else value)
    return value


def _tested(test: Callable[[Any], bool]) -> Any:
    def require(value: Any) -> Any:
        if not test(value):
            raise ValueError("something else")
        return value

    return Annotated[Any, pydantic.AfterValidator(require)]


def _takes(arguments: Any, value: Any) -> bool:
    """Whether this can be called with so many arguments, as far as it says."""
    if not callable(value):
        return False
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):  # as of many functions that are written in C
        return True
    try:
        signature.bind(*([] if arguments is ... else arguments))
    except TypeError:
        return arguments is ...
    return True


def _is_a(kind: Any, value: Any) -> bool:
    """Whether this is an object of a class or protocol; a class has the methods, but is none."""
    if isinstance(value, type):
        return False
    try:
        with jaxtyping.jaxtyped("context"):  # axes of the caller's annotations are not these
            fits = isinstance(value, kind)
    except Exception:  # whatever an attribute raises that a protocol looks at
        return False
    call = vars(kind).get("__call__") if getattr(kind, "_is_protocol", False) else None
    if fits and call and all(name.startswith("_") for name in vars(kind)):
        return _takes(list(inspect.signature(call).parameters.values())[1:], value)
    return fits
