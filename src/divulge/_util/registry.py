"""Objects are built here from the short name of their class and their settings."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, get_type_hints

import pydantic

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
    """
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise SpecError(f"expected the name of {what}, got {name!r}: {hint}")
    module, _, cls = registry[name].partition(":")
    return getattr(importlib.import_module(module), cls)


def build(cls: Any, name: str, settings: Settings, **given: Any) -> Any:
    """Build an object of a dataclass.

    Args:
        cls: the dataclass.
        name: its short name, for messages.
        settings: values of fields, each checked against the type of its field.
        given: values of further fields, which are passed on unchecked.

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
    kinds = get_type_hints(cls)
    return cls(
        **given, **{key: _validate(name, key, kinds[key], settings[key]) for key in settings}
    )


def _validate(name: str, key: str, kind: Any, value: Any) -> Any:
    checked = pydantic.TypeAdapter(kind)
    try:
        if isinstance(value, (list, dict)):  # by way of JSON, where a list may stand for a tuple
            return checked.validate_json(pydantic.TypeAdapter(Any).dump_json(value), strict=True)
        return checked.validate_python(value, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"expected a valid value for {'.'.join(map(str, (key, *first['loc'])))} of {name}, "
            f"got {first['input']!r}: {first['msg']}"
        ) from error
