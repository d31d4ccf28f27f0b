"""Read records from files: ``.npz`` with arrays x and y, or a table with a label column."""

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util import arrays, untrusted
from divulge._util.contents import quote_error
from divulge.core import Records
from divulge.data import tables
from divulge.errors import DataError

LARGEST_LABEL = 2**31 - 1
"""Class numbers above it are identifiers, or the result of an overflow."""

LabelCheck = Callable[[np.ndarray, str], np.ndarray]
"""Makes classes, or true values, of an array; the text names its source for error messages."""


def read_record_file(
    path: Path, label: str = "label", besides: Collection[str] = (), *, values: bool = False
) -> Records:
    """Records from a file.

    Args:
        path: ``.npz`` (arrays ``x`` and ``y``), or a table of numeric columns.
        label: the column of a table that holds the class, 0 to classes - 1, or the true value.
        besides: columns that are no features, such as the user's ids, where the table has them.
        values: whether the labels are true values that a regression model is to answer.

    Raises:
        DataError: the file is missing, damaged, too large, or does not hold records.
    """
    if path.suffix == ".py":
        raise DataError(
            f"expected records in a table or .npz, got {path.name}: name the object in it too, "
            f"such as {path.name}:records"
        )
    read = _read_npz if holds_arrays(path) else _read_labelled_table
    untrusted.check_file(path, untrusted.MAX_DATA_BYTES, DataError)
    return read(path, label, besides, as_values if values else as_labels)


def holds_arrays(path: Path) -> bool:
    """Whether the name is that of an archive of arrays; every other file is a table."""
    return path.suffix.lower() == ".npz"


def _read_npz(path: Path, label: str, besides: Collection[str], check: LabelCheck) -> Records:
    del label, besides
    x, y = read_npz_arrays(path, "x", "y")
    return Records(x, check(y, str(path)))


def read_npz_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """The named arrays of an ``.npz`` file.

    Raises:
        DataError: they are not there, or the file is damaged or too large.
    """
    try:
        return list(arrays.read_npz(path, names, error=DataError).values())
    except arrays.DamagedArrays as error:
        raise DataError(
            f"expected arrays {' and '.join(names)} of numbers in {path}, got something else "
            f"({error}): write it with numpy.savez(path, x=x, y=y)"
        ) from error


def _read_labelled_table(
    path: Path, label: str, besides: Collection[str], check: LabelCheck
) -> Records:
    wanted = check_header(path, label, besides)
    table = tables.read_columns(path, [*wanted, label])
    if not len(table):
        raise DataError(
            f"expected rows of features and a label in {path}, got none: check the file"
        )
    if (missing := np.isnan(table)).any():
        row, at = np.argwhere(missing)[0]
        raise tables.cell_error(path, [*wanted, label][at], int(row), "a number", None)
    return Records(table[:, :-1], check(table[:, -1], str(path)), wanted)


def check_header(path: Path, label: str, besides: Collection[str]) -> tuple[str, ...]:
    """The columns of a table with the features.

    Raises:
        DataError: there is no label, no feature, or a name stands there twice.
    """
    header = tables.read_header(path)
    counts = Counter(header)
    if counts[label] != 1:
        raise DataError(
            f"expected one column {label!r} in {path}, got {', '.join(header[:20])}: "
            "name the label column in [data] label"
        )
    if twice := [name for name, count in counts.items() if count > 1]:
        raise DataError(f"expected columns with different names in {path}, got {twice[0]!r} twice")
    wanted = tuple(name for name in header if name != label and name not in besides)
    if not wanted:
        raise DataError(f"expected columns of features beside {label!r} in {path}, got none")
    return wanted


def as_labels(y: np.ndarray, where: str) -> np.ndarray:
    """Class labels as 64-bit integers.

    Args:
        y: whole numbers in any numeric type, one a record.
        where: the name of their source, for error messages.

    Raises:
        DataError: they are not whole numbers, or not one a record.
    """
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iufb":
        raise DataError(
            f"expected one class number per record in {where}, got an array of shape {y.shape} "
            f"and type {y.dtype}: encode classes as 0, 1, 2..."
        )
    if y.dtype.kind == "f":
        broken = ~np.isfinite(y) | (np.floor(np.where(np.isfinite(y), y, 0)) != y)
        if broken.any():
            raise DataError(
                f"expected whole numbers as labels in {where}, got "
                f"{tables.show_label(y[broken][0], y)} at index {int(broken.argmax())}: encode "
                'classes as 0, 1, 2..., or pass output="values" if the model answers a number'
            )
    large = (y > LARGEST_LABEL) | (y < -LARGEST_LABEL)
    if large.any():
        raise DataError(
            f"expected class numbers of at most {LARGEST_LABEL} in {where}, got "
            f"{tables.show_label(y[large][0], y)} at index {int(large.argmax())}: encode classes "
            "as 0, 1, 2..."
        )
    return y.astype(np.int64)


def as_values(values: Any, where: str) -> np.ndarray:
    """True values of regression, in float64.

    Args:
        values: numbers of any type, one a record.
        where: the name of their source, for error messages.

    Raises:
        DataError: they are not numbers, or not one a record.
    """
    try:
        y = np.asarray(values)
    except Exception as error:
        raise DataError(
            f"expected arrays x and y for {where}, got: {quote_error(error)}"
        ) from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iufb":
        raise DataError(
            f"expected one true value per record in {where}, got an array of shape {y.shape} and "
            f"type {y.dtype}: a regression model answers one number; audit each output by itself"
        )
    return y.astype(np.float64)
