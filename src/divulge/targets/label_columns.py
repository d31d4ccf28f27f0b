"""Read classes from the cells of a table of predictions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from divulge.data import tables
from divulge.data.class_keys import class_key, class_number, find_places
from divulge.data.class_names import ClassMatch, describe_classes, match_classes, name_list
from divulge.errors import DataError
from divulge.targets.column_names import ColumnNames
from divulge.targets.outputs import MOST_CLASSES

Names = tuple[str, ...]

LISTED = 10
"""Values that a message names."""


class ClassColumn(NamedTuple):
    """A column of classes, read."""

    number: Int64[np.ndarray, " records"]
    """The number of each record's class."""
    match: ClassMatch
    """What that was taken from."""


def read_classes(
    path: Path,
    column: str,
    cells: Sequence[str],
    columns: ColumnNames,
    class_names: Names,
) -> ClassColumn:
    """The number of each cell's class, by the names of columns or those of the user.

    Args:
        path: the file, for messages.
        column: where the cells are.
        cells: names or numbers of classes.
        columns: what the columns with the answers are called.
        class_names: the names that the user gave, in the order of class numbers.

    Raises:
        DataError: a cell is empty, or is neither a known name nor the number of a column.
    """
    cells = [cell.strip() for cell in cells]
    refuse_empty(path, column, cells, "a class")
    labels = list(dict.fromkeys(cells))
    place = _place_in(path, column, cells)
    names = columns.class_names(labels, class_names)
    if columns.single:
        _check_two_classes(labels, columns, names, class_names, place)
    if not names and not class_names:
        _check_positions(labels, columns, place)
        match = ClassMatch({label: class_number(label) or 0 for label in labels}, (), ())
    else:
        match = match_classes(labels, names, class_names, place=place)
    return ClassColumn(_numbers(cells, match), match)


def read_predicted_classes(
    path: Path,
    columns: tuple[str, str],
    predicted: Sequence[str],
    labels: Sequence[str],
    class_names: Names,
) -> tuple[ClassColumn, ClassColumn, int]:
    """Predicted and true classes, and how many classes there are.

    Args:
        path: the file, for messages.
        columns: the names of the columns with the two.
        predicted: a cell for each record.
        labels: a cell for each record.
        class_names: the names that the user gave; without any, those that occur, sorted.

    Raises:
        DataError: a cell is empty, is no class that the user named, or the two columns call classes
            differently.
    """
    both = [[cell.strip() for cell in cells] for cells in (predicted, labels)]
    distinct = []
    for column, cells in zip(columns, both, strict=True):
        refuse_empty(path, column, cells, "a class")
        distinct.append(list(dict.fromkeys(cells)))
    names = class_names or _occurring_classes(path, columns, *distinct)
    matches = [
        match_classes(own, names, numbered=bool(class_names), place=_place_in(path, column, cells))
        for column, cells, own in zip(columns, both, distinct, strict=True)
    ]
    predictions, true = (
        ClassColumn(_numbers(cells, match), match)
        for cells, match in zip(both, matches, strict=True)
    )
    return predictions, true, max(2, len(names))


def describe_match(labels: Sequence[ClassColumn], columns: ColumnNames | None = None) -> str:
    """How labels were matched with columns, in a sentence or two; empty for plain class numbers.

    Args:
        labels: columns of classes with the same names.
        columns: those with the answers.
    """
    text = ""
    if columns is not None and columns.single and class_number(columns.only_name) != 1:
        number = 0 if columns.reversed else 1
        text = f"The only column, {columns.columns[0]!r}, holds the answers about class {number}. "
    matches = [label.match for label in labels]
    if not matches[-1].titles:
        return text.strip()
    by_position = (match for match in matches if match.by_position)
    return text + describe_classes(next(by_position, matches[-1]))


def refuse_empty(path: Path, column: str, cells: Sequence[str], wanted: str) -> None:
    """Refuse a column without cells, or with an empty one.

    Raises:
        DataError: there is none, or one is empty.
    """
    if not cells:
        raise DataError(f"expected one row per record in {path}, got none: check the export")
    if "" in cells:
        raise tables.cell_error(path, column, cells.index(""), wanted, "")


def _place_in(path: Path, column: str, cells: Sequence[str]) -> Callable[[str], str]:
    """Where a label stands first, for a message."""

    def place(label: str) -> str:
        row = cells.index(label) + 1
        return f" in {path}, column {column!r}, row {row} below the header"

    return place


def _numbers(cells: Sequence[str], match: ClassMatch) -> Int64[np.ndarray, " records"]:
    return np.array([match.numbers[cell] for cell in cells], dtype=np.int64)


def _check_positions(
    labels: Sequence[str], columns: ColumnNames, place: Callable[[str], str]
) -> None:
    """Refuse labels that are no positions of columns whose names say nothing."""
    for label in labels:
        number = class_number(label)
        if number is None or number >= columns.classes:
            raise DataError(
                f"expected a class number from 0 to {columns.classes - 1}{place(label)}, got "
                f"{tables.show_label(label, labels)}: pass class_names, the classes as the labels "
                f"call them, in the order of the columns {', '.join(columns.columns[:LISTED])}"
            )


def _check_two_classes(
    labels: Sequence[str],
    columns: ColumnNames,
    names: Names,
    class_names: Names,
    place: Callable[[str], str],
) -> None:
    """Refuse labels of which nobody knows whether the only column is about them."""
    (column,) = columns.columns
    if class_names:
        if len(class_names) != 2:
            raise DataError(
                f"expected two class names beside the only column {column!r}, got "
                f"{len(class_names)}: give a column for each class, or name two classes"
            )
        return
    own = columns.only_name
    numbers = all(class_number(label) in (0, 1) for label in labels)
    if len(find_places(labels, names)) == len(labels) or (numbers and class_key(own)[0] == "text"):
        return
    others = [label for label in labels if class_key(label) != class_key(own)]
    if 1 < len(others) < len(labels) or len(others) > 2:
        raise DataError(
            f"expected two classes beside the only column {column!r}{place(others[0])}, got "
            f"{len(labels)} different labels: give a column for each class, or leave records out"
        )
    pair = name_list([others[0], own]) if len(others) == 1 else "two names, the second of which is"
    end = "" if len(others) == 1 else " the class of this column"
    raise DataError(
        f"expected to know what {tables.show_label(others[0], others)}{place(others[0])} means "
        f"beside the only column {column!r}, which holds one probability: pass "
        f"class_names = {pair}{end}"
    )


def _occurring_classes(
    path: Path, columns: tuple[str, str], predicted: Sequence[str], labels: Sequence[str]
) -> Names:
    """The classes that occur, sorted; numbers from 0 to the highest where all are such numbers.

    Raises:
        DataError: the two columns call classes differently, or hold numbers that are none.
    """
    every = [*predicted, *labels]
    numbers = [class_number(label) for label in every]
    if None not in numbers:
        highest = max(number or 0 for number in numbers)
        if highest >= MOST_CLASSES:
            raise DataError(
                f"expected class numbers below {MOST_CLASSES} in {path}, got "
                f"{tables.show_label(highest, every)}: pass class_names, all classes as the "
                "labels call them"
            )
        return tuple(map(str, range(highest + 1)))
    keys = [class_key(label) for label in every]
    where = f"in {path}, columns {columns[0]!r} and {columns[1]!r}"
    if any(kind == "number" and value != int(value) for kind, value in keys):
        raise DataError(
            f"expected one column of predicted classes in {path}, got numbers in {columns[0]} and "
            f'{columns[1]} that are no class numbers: pass output="probabilities", or the column '
            "in probabilities="
        )
    once = dict(zip(reversed(keys), reversed(every), strict=True))
    _check_alike(where, predicted, labels)
    return tuple(once[key] for key in sorted(once))


def _check_alike(where: str, predicted: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse predicted classes of which none is a label, or that differ from one by case alone."""
    common = find_places(predicted, labels)
    cases = {label.casefold(): label for label in labels}
    for label in predicted:
        near = cases.get(label.casefold())
        if label not in common and (near is not None or not common):
            raise DataError(
                f"expected the same names for classes {where}, got "
                f"{tables.show_label(label, predicted)} in the first and "
                f"{tables.show_label(near or labels[0], labels)} in the second: write both alike, "
                "or where one of the columns holds class numbers, pass class_names, the classes in "
                "their order"
            )
