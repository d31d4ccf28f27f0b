"""Read the column of a table that comes from elsewhere than the audited model."""

import datetime as dt
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from divulge._util.extras import stats
from divulge.data import tables
from divulge.errors import DataError


def read_blind(
    path: Path, column: str, taken: Mapping[str, str | None]
) -> Float64[np.ndarray, " records"]:
    """The rank of each record by its number, or by its date in ISO 8601; equal ones share one.

    Only the order counts, and ranks are what a run folder keeps: a date of birth stays out of it.

    Args:
        path: the file.
        column: the column, such as the loss of another model.
        taken: what other columns hold, and their names; none of them comes from elsewhere.

    Raises:
        DataError: the column is missing, is one of the others, or holds anything else.
        MissingExtra: the file needs pyarrow, which is not installed.
    """
    if used := next((what for what, name in taken.items() if name == column), None):
        raise DataError(
            f"expected a column of its own as blind, got {column!r}, which holds {used}: name one "
            "that comes from elsewhere than the model, such as a date or another model's loss"
        )
    (cells,) = tables.read_texts(path, column)
    numbers = np.array([read_moment(cell) for cell in cells])
    if not (usable := np.isfinite(numbers)).all():
        row = int(usable.argmin())
        raise tables.cell_error(path, column, row, "a finite number or an ISO date", cells[row])
    dates = np.array([is_date(cell) for cell in cells])
    if dates.any() and not dates.all():
        row = int((dates != dates[0]).argmax())
        wanted = f"a {'date' if dates[0] else 'number'}, as in the first row,"
        raise tables.cell_error(path, column, row, wanted, cells[row])
    if numbers.min() == numbers.max():
        raise DataError(
            f"expected numbers that differ between records in {path}, column {column!r}, got "
            f"{tables.show_cell(cells[0])} in each of {len(cells):,} rows: they explain nothing; "
            "name another column, or leave blind out"
        )
    return np.asarray(stats.rankdata(numbers))


def is_date(cell: str) -> bool:
    """Whether a cell that holds a number or a date holds a date, which no number is comparable to.

    Examples:
        >>> is_date("2026-11-30"), is_date("2026")
        (True, False)
    """
    try:
        float(cell)
    except ValueError:
        return True
    return False


def read_moment(cell: str) -> float:
    """The number or the date in a cell, of which only the order counts; NaN where it holds none.

    Args:
        cell: a number, or a date in ISO 8601; without a zone it is in UTC.
    """
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        moment = dt.datetime.fromisoformat(cell)
    except ValueError:
        return math.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
