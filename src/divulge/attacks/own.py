"""Attacks that are not divulge's own: loaded from a file, and held to what every attack has."""

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from divulge._util import imports, untrusted
from divulge._util.digest import digest
from divulge._util.json import Settings
from divulge._util.registry import build
from divulge.attacks import catalog
from divulge.core import Attack, Need
from divulge.errors import SpecError

OURS = ("divulge", "divulge_papers", "divulge_fast")
"""Packages whose code a version of divulge tells: the distributions of one version."""

_NAME = re.compile(r"\w[\w-]{0,59}")
_PAGE = "see docs/attacks/adding-an-attack.md"


def is_own(name: str) -> bool:
    """Whether this names an attack in a file or module, and not one of the catalogue."""
    return bool(imports.split_reference(name)[1])


def builder(about: str, folder: Path) -> Callable[..., Attack[Any, Any]]:
    """What builds an attack from its name and settings, be it of the catalogue or the user's own.

    Args:
        about: the secret that the attack is to be after.
        folder: where relative paths start.
    """

    def make(name: str, /, **settings: Any) -> Attack[Any, Any]:
        if not is_own(name):
            built: Attack[Any, Any] = catalog.build_attack(about, name, **settings)
            return built
        attack = load(name, settings, folder)
        secret = secret_of(type(attack))
        if secret not in (None, about):
            raise SpecError(
                f"expected an attack on {about} here, got {name}, whose guess is one on {secret}: "
                "name it in an audit of that secret"
            )
        return attack

    return make


def load(reference: str, settings: Settings, folder: Path) -> Attack[Any, Any]:
    """An attack that a file of the user's defines.

    Args:
        reference: ``file.py:Name`` or ``package.module:Name``, the name of its class.
        settings: arguments of the class.
        folder: where relative paths start.

    Raises:
        SpecError: there is no such class, it lacks what attacks have, a setting is not one of its,
            or its code fails.
    """
    cls = imports.load_object(reference, folder)
    if not isinstance(cls, type):
        raise SpecError(
            f"expected the class of an attack as {reference}, got {_kind(cls)}: name the class; "
            f"its settings follow the name ({_PAGE})"
        )
    _refuse(reference, list(_lacks_of_class(cls)))
    attack = imports.call_user_code(lambda: build(cls, cls.__name__, settings), reference)
    check_attack_object(attack, reference)
    if not _is_known(cls) and attack.name in _registered():
        raise SpecError(
            f"expected a name of its own for {reference}, got {attack.name!r}, which is the name "
            "of an attack of divulge: results would be taken for that one's"
        )
    return attack  # type: ignore[no-any-return]


def check_attack_object(attack: Any, where: str = "") -> None:
    """Refuse what is no attack.

    Args:
        attack: perhaps an attack.
        where: what it is called, for the message; its class by default.

    Raises:
        SpecError: names all that it lacks.
    """
    if isinstance(attack, type) or (callable(attack) and inspect.isroutine(attack)):
        raise SpecError(
            f"expected an attack, got {_kind(attack)}: pass an object of a class, as in "
            f"attacks=[Surest()] ({_PAGE})"
        )
    missing = list(_lacks_of_class(type(attack))) or list(_lacks_of_object(attack))
    _refuse(where or type(attack).__name__, missing)


def secret_of(cls: type) -> str | None:
    """The secret that attacks of this class are after, by the type of what they return.

    None if it is not annotated.
    """
    try:
        returned = typing.get_type_hints(cls.__call__).get("return")
    except Exception:  # annotations may name anything
        return None
    secret = getattr(returned, "about", None)
    return secret if isinstance(secret, str) and secret in catalog.CATALOGUE else None


def code_identity(cls: type) -> str:
    """What tells the code of a class from others: files it is in, or its source; empty if ours.

    Modules that these files import are not looked into.
    """
    return " ".join(_module_code(base) for base in cls.__mro__ if not _is_known(base))


def _is_known(cls: type) -> bool:
    """Whether its code is divulge's or Python's, whose versions a run folder tells."""
    top = cls.__module__.partition(".")[0]
    return top in OURS or (top != "__main__" and top in sys.stdlib_module_names)


def _module_code(cls: type) -> str:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is not None and cls.__module__ != "__main__":
        return digest(untrusted.read_file(Path(file), untrusted.MAX_TEXT_BYTES, SpecError).hex())
    try:
        return inspect.getsource(cls)  # of a script or a notebook, the class alone
    except (OSError, TypeError):
        return f"{cls.__module__}.{cls.__qualname__}"


def _registered() -> set[str]:
    return {name for attacks in catalog.CATALOGUE.values() for name in attacks}


def _kind(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__} itself"
    return "a function" if inspect.isroutine(thing) else f"an object of {type(thing).__name__}"


def _refuse(what: str, missing: list[str]) -> None:
    if missing:
        raise SpecError(
            f"expected an attack as {what}, it lacks {'; '.join(missing)}: add them ({_PAGE})"
        )


def _lacks_of_class(cls: type) -> Iterator[str]:
    """What a class lacks before any object of it is made."""
    if not dataclasses.is_dataclass(cls):
        yield "@dataclass(frozen=True) above the class"
    elif not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        yield "frozen=True of its dataclass, so that settings cannot change"
    for name, example in (
        ("name", 'a name (name: ClassVar[str] = "surest")'),
        ("paper", 'a paper (paper: ClassVar[str] = "Somebody 2026")'),
        ("needs", "a property needs, which returns a divulge.Need"),
    ):
        if not hasattr(cls, name):
            yield example
    if not any("__call__" in vars(base) for base in cls.__mro__):
        yield "a method __call__(self, view, rng)"
        return
    try:
        inspect.signature(cls.__call__).bind(None, None, None)
    except TypeError:
        yield "a method __call__ that takes a view and a random generator: (self, view, rng)"


def _lacks_of_object(attack: Any) -> Iterator[str]:
    """What only an object shows."""
    if not isinstance(attack.name, str) or not _NAME.fullmatch(attack.name):
        yield f"a name of letters, digits, - and _, at most 60 (it has {str(attack.name)[:80]!r})"
    if not isinstance(attack.paper, str):
        yield "a paper that is a text"
    needs = imports.call_user_code(lambda: attack.needs, f"needs of {type(attack).__name__}")
    try:
        hash(attack)
    except TypeError:
        yield "settings that cannot change: numbers, texts, truth values and tuples of them"
    if not isinstance(needs, Need):
        yield "a property needs that returns a divulge.Need"
