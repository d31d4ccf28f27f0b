"""Write records of any container as JSON holds them."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from divulge.errors import TargetError


class Rows(NamedTuple):
    """Records as JSON holds them: a value each, or a list of cells where columns have names."""

    columns: tuple[str, ...]
    values: list[Any]

    @property
    def plain(self) -> list[Any]:
        """A value or an object a record."""
        if not self.columns:
            return self.values
        return [dict(zip(self.columns, cells, strict=True)) for cells in self.values]


def to_rows(x: Any) -> Rows:
    """Records of any container as JSON holds them; what is missing becomes null.

    Args:
        x: an array, a sparse matrix, a list of texts, a pandas or polars frame, or arrays by name.

    Raises:
        TargetError: a value cannot be written as JSON.

    Examples:
        >>> to_rows(np.array([[1.5, np.nan]])).plain
        [[1.5, None]]
        >>> to_rows({"age": np.array([31]), "job": ["cook"]}).plain
        [{'age': 31, 'job': 'cook'}]
    """
    if isinstance(x, Mapping):
        cells = zip(*(json_values(column) for column in x.values()), strict=True)
        return Rows(tuple(map(str, x)), list(map(list, cells)))
    if hasattr(x, "columns"):
        rows = x.itertuples(index=False, name=None) if hasattr(x, "itertuples") else x.iter_rows()
        return Rows(tuple(map(str, x.columns)), [list(map(_cell, row)) for row in rows])
    return Rows((), json_values(x.toarray() if hasattr(x, "toarray") else x))


def json_values(x: Any) -> list[Any]:
    """The values of an array or a column as JSON holds them, arrays of several axes as lists."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iub":
        return list(x.tolist())
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all():
        return list(x.tolist())
    return [_cell(value) for value in x]


def _cell(value: Any) -> Any:
    """A single value, or an array of them, as JSON holds it."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return [_cell(inner) for inner in value]
    if _is_missing(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str | bool | int):
        return plain
    try:
        number = float(plain)
    except (TypeError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise TargetError(
            "expected numbers, texts and dates in the records, got a value of type "
            f"{type(value).__name__} that JSON cannot hold: leave it out, or convert it"
        )
    return number


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # pandas.NA answers neither yes nor no
        return True
