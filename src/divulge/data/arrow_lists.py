"""Lists of numbers in columns of Arrow, as arrays."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge.data.cells import as_array, refuse_list

_NUMBER = 8
"""Bytes of a number once it is unpacked."""


def unpack(path: Path, name: str, above: int, column: Any) -> list[Any]:
    """The cells of a column of lists, or of lists of lists.

    Args:
        path: the file, for messages.
        name: the column.
        above: how many rows precede these.
        column: a ``pyarrow.Array``.

    Raises:
        DataError: the lists hold no numbers.
    """
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise refuse_list(path, name, above, str(kind)[:80])
    if pa.types.is_nested(kind.value_type):
        cells = enumerate(column.to_pylist(), start=above + 1)
        return [as_array(path, name, row, cell) for row, cell in cells]
    flat = _as_floats(path, name, above, column.flatten())
    ends = np.concatenate([[0], np.cumsum(column.value_lengths().fill_null(0).to_numpy())])
    parts = [flat[a:b] for a, b in itertools.pairwise(ends.tolist())]
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return [None if gone else part for part, gone in zip(parts, missing, strict=True)]


def count_bytes(metadata: Any, names: Sequence[str]) -> int:
    """How much memory the columns of a Parquet file take with all entries of their lists.

    Args:
        metadata: of the file.
        names: the columns.
    """
    counted = 0
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for at in range(chunks.num_columns):
            chunk = chunks.column(at)
            if chunk.path_in_schema.partition(".")[0] in names:
                counted += int(chunk.num_values)
    return _NUMBER * counted


def _as_floats(path: Path, name: str, above: int, values: Any) -> Float64[np.ndarray, " entries"]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        # null is NaN
        return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    raise refuse_list(path, name, above, f"lists of {str(kind)[:80]}")
