"""Arguments of public functions and classes are held to their annotations here, and nowhere else.

pydantic judges, strictly: what is no whole number is none, and a number that is not finite is
refused. What passes is handed on as it is, but for lists where tuples are stored and NumPy's
numbers where Python's are. Arrays are never copied.
"""

import functools
import inspect
import os
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
import jaxtyping
import numpy as np
import pydantic

from divulge._util.credentials import NOT_SHOWN
from divulge._util.extras import name_missing_extra
from divulge.errors import DataError, SpecError, did_you_mean

C = TypeVar("C", bound=Callable[..., Any])

LARGEST = 2**31
"""What counts are less than: more of anything is a slip."""

Seed = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
"""Fixes random choices; the largest is what every generator takes."""

Count = Annotated[int, pydantic.Field(ge=1, lt=LARGEST)]

CountFromZero = Annotated[int, pydantic.Field(ge=0, lt=LARGEST)]

Delta = Annotated[float, pydantic.Field(ge=0, lt=1)]
"""δ of a guarantee or a bound, a probability."""

KnownMembers = Annotated[float, pydantic.Field(gt=0, lt=LARGEST)]
"""How many members an attacker knows: below 1 a share of them, from 1 on their number."""

Weight = Annotated[float, pydantic.Field(ge=0)]

PositiveOrInfinite = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=True)]

Title = Annotated[str, pydantic.Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,100}$")]
"""Up to 100 characters of which none controls a terminal."""


def _check_path(path: str | Path) -> str | Path:
    parts = Path(path).parts
    if "\0" in str(path) or max(map(len, map(os.fsencode, parts)), default=0) > LONGEST_NAME:
        raise ValueError("no path")
    return path


LONGEST_NAME = 255
"""Bytes of the name of a file or folder; no usual file system has longer ones."""

FilePath = Annotated[str | Path, pydantic.AfterValidator(_check_path)]
"""A path that the system can be asked about."""

PathText = Annotated[str, pydantic.AfterValidator(_check_path)]
"""A path in a settings file."""

_SEVERAL = (Iterable, Collection, Sequence)
_CONFIG = pydantic.ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


def check_arguments(checked: C) -> C:
    """Let a function, or the constructor of a class, refuse arguments that are not as annotated.

    Annotations are read at the first call. A call that they do not allow ends in a SpecError, or in
    a DataError where an array was expected; one that needs a package that is not installed, in a
    MissingExtra.

    Args:
        checked: a function, or a class with a constructor of its own.
    """
    function = vars(checked)["__init__"] if isinstance(checked, type) else checked
    judge = functools.cache(lambda: _Judge(function, checked))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = judge().bind(args, kwargs)
        with name_missing_extra():
            return function(*bound.args, **bound.kwargs)

    if isinstance(checked, type):
        type.__setattr__(checked, "__init__", call)
        return checked
    return typing.cast("C", call)


class _Judge:
    """The annotations of one function, ready to be asked."""

    def __init__(self, function: Callable[..., Any], public: Callable[..., Any]) -> None:
        self.name = public.__qualname__.removesuffix(".__init__")
        self.signature = inspect.signature(function)
        self.hints = {
            name: _resolve(parameter.annotation, function)
            for name, parameter in self.signature.parameters.items()
            if parameter.annotation is not parameter.empty
        }
        self.accepted = {
            name: pydantic.TypeAdapter(_translate(hint), config=_CONFIG)
            for name, hint in self.hints.items()
            if hint is not Any
        }

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name, each of them as annotated.

        Raises:
            SpecError: one is unknown, missing, or not as annotated.
            DataError: one is not the array that was expected.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SpecError(self._explain_binding(error, kwargs)) from None
        given = bound.arguments
        for name in given.keys() & self.accepted.keys():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given[name] = tuple(self._judge(name, value) for value in given[name])
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given[name] = {key: self._judge(name, value) for key, value in given[name].items()}
            else:
                given[name] = self._judge(name, given[name])
        return bound

    def _judge(self, name: str, value: Any) -> Any:
        if value is self.signature.parameters[name].default:
            return value
        try:
            return self.accepted[name].validate_python(value)
        except pydantic.ValidationError:
            hint = self.hints[name]
            kind = DataError if _is_array_hint(hint) else SpecError
            shown = shorten(value) if _may_show(hint) else f"one of type {type(value).__name__}"
            raise kind(
                f"expected {name} of {self.name} to be {describe_hint(hint)}, got "
                f"{shown}: {self._advise(name, value)}"
            ) from None

    def _advise(self, name: str, value: Any) -> str:
        """What to do about a value that was refused."""
        hint = self.hints[name]
        default = self.signature.parameters[name].default
        if isinstance(value, type) and not isinstance(default, type):
            return f"pass an object, such as {value.__name__}(...)"
        if _is_array_hint(hint):
            return "pass a NumPy array of that type and shape"
        if _wants_several(hint) and not isinstance(value, Mapping | str | bytes | types.NoneType):
            return f"put it into a list: [{name}]" if not np.iterable(value) else "check each entry"
        if isinstance(value, str):
            words = [word for word in _literals(hint) if isinstance(word, str)]
            if words:
                return did_you_mean(value, words)
        if default is inspect.Parameter.empty:
            return "correct it"
        return f"correct it, or leave it out: the default is {shorten(default)}"

    def _explain_binding(self, error: TypeError, kwargs: Mapping[str, Any]) -> str:
        known = [name for name in self.signature.parameters if name != "self"]
        for key in kwargs:
            if key in known:
                continue
            for name in known:
                for group in _classes(self.hints.get(name, Any)):
                    if key in getattr(group, "__dataclass_fields__", ()):
                        return (
                            f"expected an argument of {self.name}, got {key!r}: pass "
                            f"{name}={group.__name__}({key}=...)"
                        )
            hint = did_you_mean(key, known) if known else "it takes none"
            return f"expected an argument of {self.name}, got {key!r}: {hint}"
        said = str(error).replace("'self'", "an object")
        return f"expected the arguments {self.name}({', '.join(known)}), got others: {said}"


def _resolve(annotation: Any, function: Callable[..., Any]) -> Any:
    """An annotation that may be text; one that names what nobody has loaded admits everything."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = {**sys.modules, **inspect.unwrap(function).__globals__}
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["it"]
    except (NameError, AttributeError):
        return Any if isinstance(annotation, str) else annotation


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
    if origin in _SEVERAL:
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
    asked = vars(kind).get("__call__") if getattr(kind, "_is_protocol", False) else None
    if fits and asked and all(name.startswith("_") for name in vars(kind)):
        wanted = list(inspect.signature(asked).parameters.values())[1:]
        return _takes(wanted, value)
    return fits


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


def _may_show(hint: Any) -> bool:
    """Whether messages may show a value: it is not in a place for keys."""
    if get_origin(hint) is Annotated and NOT_SHOWN in hint.__metadata__:
        return False
    return all(map(_may_show, get_args(hint))) if get_origin(hint) else True


def _is_array_hint(hint: Any) -> bool:
    return any(hasattr(part, "dim_str") for part in _parts(hint))


def _wants_several(hint: Any) -> bool:
    return any(get_origin(part) in (*_SEVERAL, tuple) for part in _parts(hint))


def _literals(hint: Any) -> list[Any]:
    return [w for part in _parts(hint) if get_origin(part) is Literal for w in get_args(part)]


def _classes(hint: Any) -> list[type]:
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


def describe_hint(hint: Any) -> str:
    """An annotation in words, for messages."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated and hint == FilePath:
        return f"a path without NUL, each name in it up to {LONGEST_NAME} bytes long"
    if origin is Annotated and hint == Title:
        return "text of up to 100 printable characters"
    if origin is Annotated:
        return describe_hint(parts[0]) + _describe_limits(hint.__metadata__)
    if origin in (Union, types.UnionType):
        said = [describe_hint(part) for part in parts]
        return " or ".join(dict.fromkeys(said))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, parts))
    if origin is tuple and ... not in parts:
        return f"a tuple of {len(parts)}: " + ", ".join(map(describe_hint, parts))
    if origin is tuple or origin in _SEVERAL:
        return f"a list, each entry {describe_hint(parts[0])}"
    if origin in (Mapping, dict):
        return f"a dict from {describe_hint(parts[0])} to {describe_hint(parts[1])}"
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
    said = [
        _LIMITS[type(limit)][1].format(_round(getattr(limit, _LIMITS[type(limit)][0])))
        for limit in inner
        if type(limit) in _LIMITS
    ]
    return f" {' and '.join(said)}" if said else ""


def _round(limit: int | float) -> str:
    """A limit; a high power of two as one."""
    power = int(limit).bit_length() - 1
    return f"2^{power}" if power > 20 and limit == 2**power else f"{limit:g}"
