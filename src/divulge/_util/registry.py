"""Objects are built here from the short name of their class and their settings."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from divulge._util.extras import name_missing_extra
from divulge._util.json import Settings
from divulge.errors import SpecError, did_you_mean


def find_class(registry: Mapping[str, str], what: str, name: str) -> Any:
    """Import the class of this short name.

    Args:
        registry: ``module:class`` by short name.
        what: what the name stands for, for the message: ``an attack``.
        name: the short name.

    Raises:
        SpecError: the registry does not have this name.
        MissingExtra: the class needs a package that is not installed.
    """
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise SpecError(f"expected the name of {what}, got {name!r}: {hint}")
    module, _, cls = registry[name].partition(":")
    with name_missing_extra():
        return getattr(importlib.import_module(module), cls)


def build(cls: Any, name: str, settings: Settings, **given: Any) -> Any:
    """Build an object of a dataclass.

    Args:
        cls: the dataclass.
        name: its short name, for messages.
        settings: values of fields that settings may name; its constructor checks them.
        given: values of further fields.

    Raises:
        SpecError: a setting is unknown, missing, or not of its field's type.
    """
    fields = [field for field in dataclasses.fields(cls) if field.name not in given]
    known = [field.name for field in fields]
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known) if known else "it has none"
            raise SpecError(f"expected a setting of {name}, got {key!r}: {hint}")
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in settings:
            raise SpecError(f"expected a value for {field.name} of {name}, got none: choose one")
    return cls(**given, **settings)
