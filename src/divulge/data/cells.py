"""Complaints about cells and columns of tables, and the limit of their memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util import untrusted
from divulge._util.contents import mask
from divulge.errors import DataError

MOST_LABELS: Final = 10
"""So many different values at most are categories, and not what tells records apart."""

_LONGEST = 40  # signs of a cell that a message shows


class NumberRows(NamedTuple):
    """Some rows of columns of numbers."""

    above: int
    """How many rows precede them."""
    numbers: Float64[np.ndarray, "rows columns"]


class CellError(DataError):
    """A cell holds something else than was expected."""


def cell_error(
    path: Path, column: str, row: int, wanted: str, cell: Any, labels: Sequence[Any] = ()
) -> CellError:
    """The complaint about one cell; rows count from 1 below the header.

    Args:
        path: the file.
        column: the name of its column.
        row: how many rows precede its own.
        wanted: what was expected.
        cell: what it holds, of which the form alone is shown.
        labels: all cells of a column of labels or of membership: see `show_label`.
    """
    shown = show_label(cell, labels) if labels else show_cell(cell)
    return CellError(
        f"expected {wanted} in {path}, column {column!r}, row {row + 1} below the header, got "
        f"{shown}: correct or drop the row"
    )


def show_cell(cell: Any) -> str:
    """The form of a cell, a label or a value of a record, for a message: never what it holds.

    Digits become 9 and letters x; signs, and words for a gap or a truth value, stay. A text stands
    in quotes, and a long one is cut.

    Examples:
        >>> show_cell("1,234"), show_cell("n/a"), show_cell(-0.5), show_cell(None)
        ("'9,999'", "'n/a'", '-9.9', 'None')
        >>> show_cell("x" * 100).endswith("... (100 characters)")
        True
    """
    text = _text_of(cell)
    shown = mask(text[:_LONGEST])
    if isinstance(cell, str | bytes):
        shown = repr(shown)
    return shown if len(text) <= _LONGEST else f"{shown}... ({len(text)} characters)"


def show_label(label: Any, labels: Iterable[Any]) -> str:
    """A label or a value of a membership column: as it is where it names a category.

    That is so where a column holds ten different values at most, besides names of classes that are
    known. Of more, such as where the column of names was taken for that of labels, the form alone
    is shown, as of any other cell.

    Args:
        label: the one.
        labels: all of its column, perhaps each once, perhaps without those that are known.

    Examples:
        >>> show_label("cow", ["cow", "dog"]), show_label("cow", [f"cow {k}" for k in range(20)])
        ("'cow'", "'xxx'")
    """
    if not are_categories(labels):
        return show_cell(label)
    text = _text_of(label)
    return repr(text[:_LONGEST]) if isinstance(label, str | bytes) else text[:_LONGEST]


def are_categories(labels: Iterable[Any]) -> bool:
    """Whether labels are so few different ones that a message may name them."""
    return len(np.unique(labels) if isinstance(labels, np.ndarray) else set(labels)) <= MOST_LABELS


def _text_of(cell: Any) -> str:
    return cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)


def check_names(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table in which a column is missing, or a name stands twice.

    Args:
        path: the file, for the message.
        header: the names of all columns.
        wanted: the names that must stand there once each.

    Raises:
        DataError: one of them is missing, or stands there twice.
    """
    counts = Counter(header)
    for name in wanted:
        if counts[name] != 1:
            raise DataError(
                f"expected one column {name!r} in {path}, got {counts[name]} among "
                f"{', '.join(header[:20])}: name it as it is called there, or rename them"
            )


def as_array(path: Path, column: str, row: int, cell: Any) -> Any:
    """A list of numbers as an array, NaN where one is missing; other cells as they are.

    Args:
        path: the file, for the message.
        column: the name of its column.
        row: counted from 1.
        cell: what it holds; of a list of lists, each is an array.

    Raises:
        DataError: the list holds anything but numbers.
    """
    if not isinstance(cell, list | tuple):
        return cell
    if any(isinstance(entry, list) for entry in cell):
        return [as_array(path, column, row, entry) for entry in cell]
    if odd := next((element for element in cell if isinstance(element, str | dict)), None):
        raise refuse_list(path, column, row - 1, f"{type(odd).__name__} in a list")
    try:
        return np.array(cell, dtype=np.float64)  # None is NaN
    except OverflowError as error:
        raise refuse_list(path, column, row - 1, "a number that is too large") from error


def refuse_list(path: Path, column: str, above: int, kind: str) -> CellError:
    """The complaint about a cell that is no list of numbers.

    Args:
        path: the file.
        column: the name of its column.
        above: how many rows precede its own.
        kind: what it holds.
    """
    return CellError(
        f"expected lists of numbers in {path}, column {column!r}, row {above + 1} below the "
        f"header, got {kind}: write the numbers as a list, one entry a token"
    )


def check_unpacked(path: Path, size: int) -> None:
    """Refuse columns that take too much memory.

    Raises:
        DataError: they take more bytes than the limit.
    """
    untrusted.check_size(
        size, untrusted.MAX_DATA_BYTES, f"columns that {path} unpacks to", DataError
    )
