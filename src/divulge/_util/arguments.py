"""Arguments of public functions and classes are held to their annotations here, and nowhere else.

pydantic judges, strictly: what is no whole number is none, and a number that is not finite is
refused. What passes is handed on as it is, but for lists where tuples are stored and NumPy's
numbers where Python's are. Arrays are never copied.
"""

import functools
import inspect
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pydantic

from divulge._util import hints
from divulge._util.exits import came_from_a_signal, exit_error
from divulge._util.extras import name_missing_extra
from divulge._util.hint_checks import make_check
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

_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]{0,100}$"

Title = Annotated[
    str,
    pydantic.Field(pattern=_PRINTABLE),
    hints.Words("text of up to 100 printable characters"),
]
"""Up to 100 characters of which none controls a terminal."""


def _check_run_name(name: str) -> str:
    if not name.strip() or not re.fullmatch(_PRINTABLE, name):
        raise ValueError("write up to 100 printable characters on one line")
    return name


RunName = Annotated[str, pydantic.AfterValidator(_check_run_name)]
"""What settings call a run: any text on one line, of which folders get what is safe."""


LONGEST_NAME = 255
"""Bytes of the name of a file or folder; no usual file system has longer ones."""


def _check_path(path: str | Path) -> str | Path:
    parts = Path(path).parts
    if "\0" in str(path) or max(map(len, map(os.fsencode, parts)), default=0) > LONGEST_NAME:
        raise ValueError("no path")
    return path


FilePath = Annotated[
    str | Path,
    pydantic.AfterValidator(_check_path),
    hints.Words(f"a path without NUL, each name in it up to {LONGEST_NAME} bytes long"),
]
"""A path that the system can be asked about."""

PathText = Annotated[str, pydantic.AfterValidator(_check_path)]
"""A path in a settings file."""


def check_arguments(checked: C) -> C:
    """Let a function, or the constructor of a class, refuse arguments that are not as annotated.

    Annotations are read at the first call. A call that they do not allow ends in a SpecError, or in
    a DataError where an array was expected; one that needs a package that is not installed, in a
    MissingExtra; one whose model, attack or data end the program (``sys.exit``), in a SpecError.

    Args:
        checked: a function, or a class with a constructor of its own.
    """
    function = vars(checked)["__init__"] if isinstance(checked, type) else checked
    judge = functools.cache(lambda: _Judge(function, checked))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = judge().bind(args, kwargs)
        try:
            with name_missing_extra():
                return function(*bound.args, **bound.kwargs)
        except SystemExit as error:
            if came_from_a_signal(error):
                raise
            raise exit_error(error) from error

    if isinstance(checked, type):
        type.__setattr__(checked, "__init__", call)
        return checked
    return typing.cast("C", call)


class _Judge:
    """The annotations of one function, ready for its calls."""

    def __init__(self, function: Callable[..., Any], public: Callable[..., Any]) -> None:
        self.name = public.__qualname__.removesuffix(".__init__")
        self.signature = inspect.signature(function)
        self.hints = {
            name: _resolve(parameter.annotation, function)
            for name, parameter in self.signature.parameters.items()
            if parameter.annotation is not parameter.empty
        }
        self.checks = {
            name: make_check(hint) for name, hint in self.hints.items() if hint is not Any
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
        values = bound.arguments
        for name in values.keys() & self.checks.keys():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                values[name] = tuple(self._judge(name, value) for value in values[name])
            elif kind is inspect.Parameter.VAR_KEYWORD:
                values[name] = {
                    key: self._judge(name, value) for key, value in values[name].items()
                }
            else:
                values[name] = self._judge(name, values[name])
        return bound

    def _judge(self, name: str, value: Any) -> Any:
        if value is self.signature.parameters[name].default:
            return value
        try:
            return self.checks[name](value)
        except pydantic.ValidationError:
            hint = self.hints[name]
            kind = DataError if hints.is_array(hint) else SpecError
            shown = (
                hints.shorten(value)
                if hints.may_show(hint)
                else f"one of type {type(value).__name__}"
            )
            raise kind(
                f"expected {name} of {self.name} to be {hints.describe(hint)}, got "
                f"{shown}: {self._advise(name, value)}"
            ) from None

    def _advise(self, name: str, value: Any) -> str:
        """What to do about a value that was refused."""
        hint = self.hints[name]
        default = self.signature.parameters[name].default
        if isinstance(value, type) and not isinstance(default, type):
            return f"pass an object, such as {value.__name__}(...)"
        if hints.is_array(hint):
            if getattr(getattr(value, "dtype", None), "kind", "") in "OSU":
                return (
                    "it may hold texts; give numbers, of classes 0, 1, 2..., or a pair (x, y) in "
                    "place of Records: divulge numbers its labels"
                )
            return "pass a NumPy array of that type and shape"
        if hints.is_several(hint) and not isinstance(value, Mapping | str | bytes | types.NoneType):
            return f"put it into a list: [{name}]" if not np.iterable(value) else "check each entry"
        if isinstance(value, str):
            words = [word for word in hints.literals(hint) if isinstance(word, str)]
            if words:
                return did_you_mean(value, words)
        if default is inspect.Parameter.empty:
            return "correct it"
        return f"correct it, or leave it out: the default is {hints.shorten(default)}"

    def _explain_binding(self, error: TypeError, kwargs: Mapping[str, Any]) -> str:
        known = [name for name in self.signature.parameters if name != "self"]
        for key in kwargs:
            if key in known:
                continue
            for name in known:
                for group in hints.classes(self.hints.get(name, Any)):
                    if key in getattr(group, "__dataclass_fields__", ()):
                        return (
                            f"expected an argument of {self.name}, got {key!r}: pass "
                            f"{name}={group.__name__}({key}=...)"
                        )
            hint = did_you_mean(key, known) if known else "it takes none"
            return f"expected an argument of {self.name}, got {key!r}: {hint}"
        problem = str(error).replace("'self'", "an object")
        return f"expected the arguments {self.name}({', '.join(known)}), got others: {problem}"


def _resolve(annotation: Any, function: Callable[..., Any]) -> Any:
    """An annotation that may be text; one that names what nobody has loaded admits everything."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = {**sys.modules, **inspect.unwrap(function).__globals__}
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["it"]
    except (NameError, AttributeError):
        return Any if isinstance(annotation, str) else annotation
