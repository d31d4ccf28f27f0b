"""Take and join data frames and their columns, of pandas and polars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from divulge._util.contents import quote_error
from divulge.data.dtypes import refuse_unlike_columns
from divulge.errors import DataError

Rows = Int[np.ndarray, " chosen"]


def join_pandas(parts: Sequence[Any]) -> Any:
    """Data frames of pandas as one; categories stay categories.

    Raises:
        DataError: their columns have other names or unlike types.
    """
    import pandas as pd

    first = parts[0]
    same = [_like(part, first)[list(first.columns)] for part in parts]
    refuse_unlike_columns(same)
    joined = pd.concat(same, ignore_index=True)
    for name in first.columns:  # categories that differ would become objects
        if all(isinstance(part[name].dtype, pd.CategoricalDtype) for part in same):
            whole = pd.api.types.union_categoricals(
                [part[name] for part in same], ignore_order=True
            )
            categories = first[name].cat.categories
            if len(whole.categories) == len(categories):
                whole = pd.Categorical(
                    whole, categories=categories, ordered=first[name].cat.ordered
                )
            joined[name] = whole
    return joined


def join_polars(parts: Sequence[Any]) -> Any:
    """Data frames of polars as one.

    Raises:
        DataError: their columns have other names or unlike types.
    """
    import polars as pl

    same = [_like(part, parts[0]).select(parts[0].columns) for part in parts]
    refuse_unlike_columns(same)
    try:
        return pl.concat(same, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:  # such as of two time zones
        raise DataError(
            "expected columns of one type in members, non-members and all other records, got "
            f"others ({quote_error(error).splitlines()[0][:200]}): prepare them in the same way"
        ) from error


def _like(part: Any, first: Any) -> Any:
    """The part, if it has the columns of the first.

    Raises:
        DataError: its columns have other names.
    """
    for frame, other, what in ((first, part, "lacks"), (part, first, "has besides")):
        known = set(other.columns)
        if odd := [name for name in frame.columns if name not in known]:
            raise DataError(
                f"expected the columns {', '.join(map(str, list(first.columns)[:20]))}, got a "
                f"frame that {what} {odd[0]!r}: columns are matched by name"
            )
    return part


def take_series(rows: Any, index: Rows) -> Any:
    """Some entries of a column of pandas or polars."""
    return rows.iloc[index].reset_index(drop=True) if hasattr(rows, "iloc") else rows[index]


def join_series(parts: Sequence[Any]) -> Any:
    """Columns of pandas or polars as one.

    Raises:
        DataError: they are of unlike types.
    """
    join = join_pandas if hasattr(parts[0], "iloc") else join_polars
    frame = join([part.rename("x").to_frame() for part in parts])
    return frame["x"].rename(parts[0].name)
