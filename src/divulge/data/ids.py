"""Read the user's own ids of records, as texts, which go to exposed.csv and nowhere else."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from divulge.data import files, tables
from divulge.errors import DataError

MAX_ID_LENGTH = 200
"""The most characters of an id: one long text would make every id as long in memory."""

Ids = Shaped[np.ndarray, " records"]


def read_ids(path: Path, name: str, records: int) -> Ids:
    """A column of a table, or an array of an ``.npz`` file.

    Args:
        path: the file with the records.
        name: the name of the column or the array.
        records: how many ids there must be.

    Raises:
        DataError: they are not there, or do not fit.
        MissingExtra: the file needs pyarrow, which is not installed.
    """
    values = (
        files.read_npz_arrays(path, name)[0]
        if files.holds_arrays(path)
        else tables.read_texts(path, name)[0]
    )
    return as_ids(values, records, str(path))


def as_ids(values: Any, records: int, where: str) -> Ids:
    """Ids as texts, one a record.

    Args:
        values: texts or numbers, in the order of the records.
        records: how many ids there must be.
        where: the name of their source, for error messages.

    Raises:
        DataError: they are no list, not one a record, or too long.

    Examples:
        >>> as_ids([17, 18], 2, "ids").tolist()
        ['17', '18']
    """
    try:
        listed = [] if isinstance(values, str) or np.ndim(values) != 1 else [str(v) for v in values]
    except ValueError:  # entries of different lengths
        listed = []
    if len(listed) != records:
        raise DataError(
            f"expected {records} ids in {where}, one a record, got {len(listed)} in "
            f"{type(values).__name__}: give a list in the order of the records"
        )
    if max(map(len, listed), default=0) > MAX_ID_LENGTH:
        raise DataError(
            f"expected ids of at most {MAX_ID_LENGTH} characters in {where}, got longer ones: name "
            "another column"
        )
    return np.array(listed, dtype=np.str_)
