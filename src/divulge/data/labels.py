"""Labels of any kind, and the numbers of the classes that stand for them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from divulge._util.contents import quote_error
from divulge.core import Records
from divulge.data.cells import show_label
from divulge.data.class_names import ClassMatch, match_classes
from divulge.data.columns import is_missing
from divulge.data.files import as_labels
from divulge.errors import DataError

Classes = tuple[Any, ...]


def encode_labels(labels: Any, where: str) -> tuple[Int64[np.ndarray, " records"], Classes]:
    """The number of each record's class, and the labels that the numbers stand for.

    Whole numbers from 0 are classes as they are, and so are false and true: then there are no
    labels besides. Any other labels are numbered in sorted order.

    Args:
        labels: one a record.
        where: the name of their source, for messages.

    Raises:
        DataError: they are not one a record, or one is missing or cannot be looked up.
    """
    try:
        array = np.asarray(labels)
    except Exception as error:
        raise DataError(
            f"expected arrays x and y for {where}, got: {quote_error(error)}"
        ) from error
    if isinstance(labels, list | tuple) and array.dtype.kind in "US":
        array = np.empty(len(labels), object)  # NumPy makes texts of missing labels and numbers
        array[:] = labels
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "O" and array.ndim == 1 and all(map(_is_number, array.tolist())):
        array = np.array(array.tolist())
    if array.dtype.kind in "iufb":
        if array.dtype.kind == "b" or not len(array) or not (array < 0).any() or array.ndim != 1:
            return as_labels(array, where), ()
        as_labels(np.abs(array), where)  # refuses fractions
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise DataError(
            f"expected one label a record in {where}, got an array of shape {array.shape}: pass "
            "the name or the number of each record's class"
        )
    cells = array.tolist()
    for at, cell in enumerate(cells):
        if is_missing(cell):
            raise DataError(f"expected a label for each record of {where}, got none at index {at}")
    return _number(cells, where)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | np.integer | np.floating)


def _number(cells: Sequence[Any], where: str) -> tuple[Int64[np.ndarray, " records"], Classes]:
    try:
        classes = sort_labels(set(cells))
    except TypeError as error:
        raise DataError(
            f"expected labels that can be looked up in {where}, got {type(cells[0]).__name__}: "
            "pass texts or numbers"
        ) from error
    numbers = {label: number for number, label in enumerate(classes)}
    return np.array([numbers[cell] for cell in cells], dtype=np.int64), classes


def sort_labels(labels: set[Any]) -> Classes:
    """The labels in their own order, or in that of their texts where they have none."""
    try:
        return tuple(sorted(labels))
    except TypeError:
        return tuple(sorted(labels, key=lambda label: (type(label).__name__, str(label))))


def share_classes(sets: Sequence[Records], known: Sequence[Any] = ()) -> list[Records]:
    """The sets with the same number for the same label.

    Args:
        sets: the records.
        known: the labels of the classes in the order of the model's; all that occur, sorted, where
            nothing is known.

    Raises:
        DataError: some sets have labels and others numbers, or a label is not known.
    """
    sets = name_alike(sets)
    if not any(records.classes for records in sets):
        return sets
    labels = find_labels(sets)
    classes = tuple(known) or sort_labels(set(labels))
    return number_records(sets, match_classes(labels, classes), classes)


def name_alike(sets: Sequence[Records]) -> list[Records]:
    """The sets with labels of one kind: names in all, or numbers in all.

    Raises:
        DataError: some sets have names and others numbers.
    """
    named = [records for records in sets if records.classes]
    if not named:
        return list(sets)
    if all(isinstance(label, int) for records in named for label in records.classes):
        sets = [_name(records) for records in sets]  # of -1 and 1 a set may hold 1 alone
        named = [records for records in sets if records.classes]
    if len(named) < len([records for records in sets if len(records)]):
        labels = named[0].classes
        raise DataError(
            "expected labels of one kind in all sets of records, got names such as "
            f"{show_label(labels[0], labels)} in some and numbers in others: label all alike"
        )
    return list(sets)


def find_labels(sets: Sequence[Records]) -> list[Any]:
    """The labels that occur in the sets, each once."""
    distinct: dict[Any, None] = {}
    for records in sets:
        used = np.unique(records.y).tolist()
        distinct |= (
            dict.fromkeys(records.classes[number] for number in used)
            if records.classes
            else (dict.fromkeys(used))
        )
    return list(distinct)


def number_records(sets: Sequence[Records], match: ClassMatch, classes: Classes) -> list[Records]:
    """The sets with the numbers of classes that a match says.

    Args:
        sets: the records.
        match: of all their labels.
        classes: the label of each number, as a model of these records is trained with it; none
            where that is the number itself.
    """
    return [_renumber(records, match, classes) for records in sets]


def _name(records: Records) -> Records:
    """The records with the numbers of their classes as labels, where they have none."""
    if records.classes or not len(records):
        return records
    numbers, y = np.unique(records.y, return_inverse=True)
    return replace(records, y=y.astype(np.int64), classes=tuple(numbers.tolist()))


def _renumber(records: Records, match: ClassMatch, classes: Classes) -> Records:
    if not len(records):
        return replace(records, classes=classes)
    used, at = np.unique(records.y, return_inverse=True)
    labels = [records.classes[number] if records.classes else number for number in used.tolist()]
    numbers = np.array([match.numbers[label] for label in labels], dtype=np.int64)
    return replace(records, y=numbers[at], classes=classes)
