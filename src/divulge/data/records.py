"""Load the records and the augmentations that settings name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util import imports
from divulge.core import Records
from divulge.data import files as data_files
from divulge.data.augmentation import Change
from divulge.errors import DataError


def ways(names: Iterable[str], folder: Path) -> tuple[str | Change, ...]:
    """Ways to see candidates otherwise: names as they are, and functions of the user's."""
    return tuple(imports.named(n, folder) if imports.split(n)[1] else n for n in names)


def records_of(where: str, label: str, folder: Path, own_id: str | None = None) -> Records:
    """Records by name: a data file, or arrays (or a function that returns them) in a Python file.

    Args:
        where: the path of a data file, or ``file.py:name``.
        label: the column of a table that holds the class.
        folder: the folder where relative paths start.
        own_id: the column with the user's ids, which is no feature, where a table has it.

    Raises:
        DivulgeError: there are none of this name, or they are no records.
    """
    _, name = imports.split(where)
    if not name:
        return data_files.read(folder / where, label, own_id)
    value = imports.named(where, folder)
    if callable(value):
        value = imports.called(value, where)
    return as_records(value, where)


def as_records(pair: Any, where: str) -> Records:
    """Records from a pair of arrays.

    Args:
        pair: ``Records``, or features and labels: arrays, data frames, tensors.
        where: the name of their source, for error messages.

    Raises:
        DataError: it is not such a pair.
    """
    if isinstance(pair, Records):
        return pair
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(f"expected a pair (x, y) for {where}, got {type(pair).__name__}")
    try:
        x, y = (np.asarray(part) for part in pair)
    except Exception as error:
        raise DataError(f"expected arrays x and y for {where}, got: {error}") from error
    return Records(x, data_files.labels(y, where))
