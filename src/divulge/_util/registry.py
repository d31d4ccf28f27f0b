"""Short name to class: the only registry. An attack or a defence is its file and one line here."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, get_type_hints

import pydantic

from divulge.errors import SpecError, did_you_mean


def find_class(registry: Mapping[str, str], what: str, name: str) -> Any:
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise SpecError(f"expected the name of {what}, got {name!r}: {hint}")
    module, _, cls = registry[name].partition(":")
    return getattr(importlib.import_module(module), cls)


def build(cls: Any, name: str, settings: Mapping[str, Any], **given: Any) -> Any:
    """An object of these settings, each checked by its type, and of what is given as it is."""
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
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"expected a valid value for {'.'.join(map(str, (key, *first['loc'])))} of {name}, "
            f"got {first['input']!r}: {first['msg']}"
        ) from error
