"""What spellings of a class have in common: labels and names are compared by `class_key`."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np

Key = tuple[Literal["number", "truth", "text"], Any]


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def class_key(label: Any) -> Key:
    """What two spellings of one class have in common.

    Numbers are compared by value, true and false in any case; every other text is compared as it
    stands, however its letters are composed.

    Examples:
        >>> class_key("01.0") == class_key(np.float32(1)) == class_key(1)
        True
        >>> class_key("TRUE") == class_key(True)
        True
        >>> class_key("NEG") == class_key("neg")
        False
    """
    if isinstance(label, bool | np.bool_):
        return "truth", Decimal(int(label))
    text = label.decode(errors="replace") if isinstance(label, bytes) else str(label)
    plain = text.strip()
    if _NUMBER.fullmatch(plain):
        return "number", Decimal(plain)
    if plain.lower() in ("true", "false"):
        return "truth", Decimal(plain.lower() == "true")
    return "text", unicodedata.normalize("NFC", text)


def class_number(label: Any) -> int | None:
    """The whole number from 0 that a label is; true is 1, and false 0. None for any other label."""
    kind, value = class_key(label)
    if kind == "text" or value < 0 or value != int(value):
        return None
    return int(value)


def own_numbers(classes: Iterable[Any]) -> list[int] | None:
    """Class numbers as integers, if a model's classes are whole numbers from 0 on; else None.

    Such classes are their own columns, also where they are floats: pandas makes whole numbers
    floats where one is missing.

    Examples:
        >>> own_numbers([1.0, 2.0])
        [1, 2]
        >>> own_numbers(["1", "2"]) is own_numbers([-1, 1]) is None
        True
    """
    labels = list(classes)
    real = (int, float, np.integer, np.floating)
    if any(isinstance(label, bool | np.bool_) or not isinstance(label, real) for label in labels):
        return None
    if any(not np.isfinite(label) or label < 0 or label != int(label) for label in labels):
        return None
    return [int(label) for label in labels]


def find_places(labels: Iterable[Any], names: Sequence[Any]) -> dict[Any, int]:
    """The position of each label among the names; labels that are none of them are left out.

    A label that is a name exactly is that one. Otherwise keys are compared, where one name alone
    has the key; true and false are 1 and 0 where the names are numbers, and the reverse.

    Examples:
        >>> find_places(["1.0", "true", "cow"], ["0", "1"])
        {'1.0': 1, 'true': 1}
    """
    exact = {name: at for at, name in enumerate(names)}
    keys: dict[Key, list[int]] = {}
    for at, name in enumerate(names):
        keys.setdefault(class_key(name), []).append(at)
    kinds = {kind for kind, _ in keys}
    places = {}
    for label in labels:
        key = class_key(label)
        if len(at_key := keys.get(_in_kinds(key, kinds), [])) == 1:
            places[label] = at_key[0]
        elif label in exact:
            places[label] = exact[label]
    return places


def _in_kinds(key: Key, kinds: Collection[str]) -> Key:
    """The key as the other side writes it: true and false beside numbers, 1 and 0 beside those."""
    kind, value = key
    if kind == "truth" and "truth" not in kinds:
        return "number", value
    if kind == "number" and "number" not in kinds:
        return "truth", value
    return key
