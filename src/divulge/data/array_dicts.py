"""Records as several arrays by name, such as the numbers of tokens and their masks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from divulge.data.columns import Contents, Features, check_finite, hash_parts, is_exact, narrow
from divulge.data.dtypes import join_arrays
from divulge.errors import DataError

Rows = Int[np.ndarray, " chosen"]


def count(rows: Mapping[str, Any]) -> int:
    """How many records there are.

    Raises:
        DataError: the arrays are of different lengths, or there are none.
    """
    lengths = {name: len(part) for name, part in rows.items()}
    if len(set(lengths.values())) != 1:
        shown = ", ".join(f"{name}: {length}" for name, length in list(lengths.items())[:10])
        raise DataError(f"expected arrays of one length in each dict, got {shown or 'none'}")
    return next(iter(lengths.values()))


def take(rows: Mapping[str, Any], index: Rows) -> dict[str, np.ndarray]:
    """Some records."""
    return {name: np.asarray(part)[index] for name, part in rows.items()}


def join(parts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """All records of several.

    Raises:
        DataError: their arrays have other names, kinds or shapes.
    """
    first = parts[0]
    for part in parts:
        if set(part) != set(first):
            raise DataError(
                f"expected arrays named {', '.join(first)} in each dict, got {', '.join(part)}"
            )
    return {
        name: join_arrays([np.asarray(part[name]) for part in parts], f"arrays {name!r}")
        for name in first
    }


def _flat_arrays(rows: Mapping[str, Any]) -> Iterator[np.ndarray]:
    for name in sorted(rows):
        part = _read_array(rows[name], name)
        if part.dtype.kind not in "fiub":
            raise DataError(
                f"expected numbers in each array of a dict, got {name!r} of type {part.dtype}: "
                "pass texts as a list, and tables as a data frame"
            )
        check_finite(part, f"{name!r}")
        yield part.reshape(len(part), math.prod(part.shape[1:]))


def _read_array(part: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(part)
    except Exception as error:  # rows of different lengths, or a tensor on another device
        raise DataError(
            f"expected {name!r} as an array with one length for all records, got "
            f"{type(part).__name__} that NumPy cannot read: pad all records to one length, and "
            "move tensors to the CPU"
        ) from error


def contents(rows: Mapping[str, Any]) -> Contents:
    """A hash of each record, alike for numbers of any type."""
    parts = list(_flat_arrays(rows))
    types = ["<f8" if is_exact(part.ravel()) else "<i8" for part in parts]
    return hash_parts(
        tuple(part[at].astype(kind) + 0 for part, kind in zip(parts, types, strict=True))
        for at in range(len(parts[0]))
    )


def features(rows: Mapping[str, Any]) -> Features:
    """All numbers of each record, or sums of them."""
    parts = [part.astype(np.float64) for part in _flat_arrays(rows)]
    return narrow(np.concatenate(parts, axis=1))
