"""What holds records that are no array of numbers: frames, texts, sparse matrices, and others.

A kind of container says how many records there are, takes some of them, puts several containers
together, what a record consists of, and which numbers describe it.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from divulge._util.contents import quote_error
from divulge.data.columns import (
    MOST_CATEGORIES,
    WIDEST,
    WORD_COLUMNS,
    Contents,
    Features,
    array_columns,
    as_objects,
    cell_contents,
    column_contents,
    describe_column,
    describe_columns,
    frame_columns,
    is_exact,
    is_pandas,
    is_polars,
    is_series,
    narrow,
)
from divulge.data.dtypes import (
    OBJECTS,
    join_arrays,
    kind_of_dtype,
    refuse_unlike_columns,
    refuse_unlike_kinds,
)
from divulge.errors import DataError

Rows = Int[np.ndarray, " chosen"]


class Container(NamedTuple):
    """A kind of container."""

    text: str
    accepts: Callable[[Any], bool]
    count: Callable[[Any], int]
    take: Callable[[Any, Rows], Any]
    join: Callable[[Sequence[Any]], Any]
    contents: Callable[[Any], Contents]
    """As many bytes for each record, equal where two records are equal."""
    features: Callable[[Any], Features]
    """Numbers for checks and attacks that need them."""


def container_of(rows: Any) -> Container:
    """The kind of these records; lists of any objects are one, too.

    Raises:
        DataError: it is none.
    """
    for kind in CONTAINERS:
        if kind.accepts(rows):
            return kind
    raise DataError(
        f"expected records as an array, a data frame, a sparse matrix, a list, or a dict of "
        f"arrays, got {type(rows).__name__}: pass one of them"
    )


# Frames, and arrays of objects: records with columns.


def _join_pandas(parts: Sequence[Any]) -> Any:
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
            kept = first[name].cat.categories
            if len(whole.categories) == len(kept):
                whole = pd.Categorical(whole, categories=kept, ordered=first[name].cat.ordered)
            joined[name] = whole
    return joined


def _join_polars(parts: Sequence[Any]) -> Any:
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
    for one, other, what in ((first, part, "lacks"), (part, first, "has besides")):
        known = set(other.columns)
        if odd := [name for name in one.columns if name not in known]:
            raise DataError(
                f"expected the columns {', '.join(map(str, list(first.columns)[:20]))}, got a "
                f"frame that {what} {odd[0]!r}: columns are matched by name"
            )
    return part


def _join_tables(parts: Sequence[np.ndarray]) -> np.ndarray:
    return join_arrays(parts, "records")


def _take_series(rows: Any, index: Rows) -> Any:
    return rows.iloc[index].reset_index(drop=True) if hasattr(rows, "iloc") else rows[index]


def _join_series(parts: Sequence[Any]) -> Any:
    join = _join_pandas if hasattr(parts[0], "iloc") else _join_polars
    frame = join([part.rename("x").to_frame() for part in parts])
    return frame["x"].rename(parts[0].name)


# Texts and objects.


def _is_texts(rows: Any) -> bool:
    if isinstance(rows, np.ndarray):
        return rows.ndim == 1 and rows.dtype.kind in "UO" and _is_texts(rows.tolist())
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, str) for row in rows)


def _is_objects(rows: Any) -> bool:
    return isinstance(rows, list) or (isinstance(rows, np.ndarray) and rows.ndim == 1)


def _take_list(rows: Any, index: Rows) -> Any:
    return rows[index] if isinstance(rows, np.ndarray) else [rows[at] for at in index.tolist()]


def _join_lists(parts: Sequence[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return join_arrays(parts, "records")
    kinds = [kind_of_dtype(part.dtype) for part in parts if isinstance(part, np.ndarray)]
    refuse_unlike_kinds(["a list", *(k for k in kinds if k not in (OBJECTS, "texts"))], "records")
    return list(chain.from_iterable(parts))


def _text_contents(rows: Any) -> Contents:
    return cell_contents(as_objects(list(rows)))


def _text_features(rows: Any) -> Features:
    return describe_column(as_objects(list(rows)))


def _object_contents(rows: Any) -> Contents:
    import joblib

    try:  # Pickles into a hash; nothing is ever unpickled.
        hashed = [bytes.fromhex(str(joblib.hash(row))) for row in rows]
    except Exception as error:  # whatever a part that cannot be pickled raises
        raise DataError(
            f"expected records that can be compared, got a list of objects that cannot be hashed "
            f"({type(error).__name__}): pass texts, numbers or dicts of them"
        ) from error
    return np.frombuffer(b"".join(hashed), np.uint8).reshape(len(rows), 16)


def _object_features(rows: Any) -> Features:
    return np.zeros((len(rows), 1))


# Sparse matrices.


def _is_sparse(rows: Any) -> bool:
    return hasattr(rows, "tocsr") and hasattr(rows, "toarray") and rows.ndim == 2


def _join_sparse(parts: Sequence[Any]) -> Any:
    from scipy import sparse

    if len({part.shape[1] for part in parts}) > 1:
        widths = ", ".join(str(part.shape[1]) for part in parts)
        raise DataError(f"expected sparse matrices of one width, got {widths}: encode them alike")
    refuse_unlike_kinds([kind_of_dtype(part.dtype) for part in parts], "sparse matrices")
    return sparse.vstack(parts, format="csr")


def _sparse_contents(rows: Any) -> Contents:
    matrix = rows.tocsr().copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _check_finite(matrix.data, "a sparse matrix")
    columns, values = matrix.indices.astype("<i8"), cell_contents(matrix.data)
    ends = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
    return _hash_parts((columns[start:end], values[start:end]) for start, end in ends)


def _hash_parts(records: Iterable[tuple[np.ndarray, ...]]) -> Contents:
    """A hash of the arrays of each record."""
    hashed = [
        hashlib.blake2b(b"".join(part.tobytes() for part in parts), digest_size=16).digest()
        for parts in records
    ]
    return np.frombuffer(b"".join(hashed), np.uint8).reshape(len(hashed), 16)


def _check_finite(numbers: np.ndarray, where: str) -> None:
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise DataError(
            f"expected finite features, got NaN or infinity in {where}: impute or drop them, as "
            "for training"
        )


def _sparse_features(rows: Any) -> Features:
    """Its columns, or sums of them where there are too many."""
    matrix = rows.tocsr()
    width = matrix.shape[1]
    if width > WIDEST:
        from scipy import sparse

        groups = np.arange(width) % WIDEST
        matrix = matrix @ sparse.csr_matrix((np.ones(width), (np.arange(width), groups)))
    return np.asarray(matrix.toarray(), dtype=np.float64)


# Several arrays, such as the numbers of tokens and their masks.


def _count_arrays(rows: Mapping[str, Any]) -> int:
    lengths = {name: len(part) for name, part in rows.items()}
    if len(set(lengths.values())) != 1:
        said = ", ".join(f"{name}: {length}" for name, length in list(lengths.items())[:10])
        raise DataError(f"expected arrays of one length in each dict, got {said or 'none'}")
    return next(iter(lengths.values()))


def _take_arrays(rows: Mapping[str, Any], index: Rows) -> dict[str, np.ndarray]:
    return {name: np.asarray(part)[index] for name, part in rows.items()}


def _join_arrays(parts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
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
        _check_finite(part, f"{name!r}")
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


def _array_contents(rows: Mapping[str, Any]) -> Contents:
    """Alike for numbers of any type."""
    parts = list(_flat_arrays(rows))
    types = ["<f8" if is_exact(part.ravel()) else "<i8" for part in parts]
    return _hash_parts(
        tuple(part[at].astype(kind) + 0 for part, kind in zip(parts, types, strict=True))
        for at in range(len(parts[0]))
    )


def _arrays_features(rows: Mapping[str, Any]) -> Features:
    parts = [part.astype(np.float64) for part in _flat_arrays(rows)]
    return narrow(np.concatenate(parts, axis=1))


_STATED = (
    "numbers as they are, with the median where one is missing and a column that says where; dates "
    f"as days; the {MOST_CATEGORIES} most frequent categories as columns of 0 and 1, with the "
    f"frequency of each value; texts as counts of their words, hashed into {WORD_COLUMNS} columns"
)

CONTAINERS: tuple[Container, ...] = (
    Container(
        f"a pandas DataFrame: {_STATED}",
        is_pandas,
        len,
        lambda rows, index: rows.iloc[index].reset_index(drop=True),
        _join_pandas,
        lambda rows: column_contents(frame_columns(rows)),
        lambda rows: describe_columns(frame_columns(rows)),
    ),
    Container(
        f"a polars DataFrame: {_STATED}",
        is_polars,
        len,
        lambda rows, index: rows[index],
        _join_polars,
        lambda rows: column_contents(frame_columns(rows)),
        lambda rows: describe_columns(frame_columns(rows)),
    ),
    Container(
        f"a column of a data frame: {_STATED}",
        is_series,
        len,
        _take_series,
        _join_series,
        lambda rows: column_contents(frame_columns(rows.to_frame())),
        lambda rows: describe_columns(frame_columns(rows.to_frame())),
    ),
    Container(
        f"a sparse matrix: its columns, or {WIDEST} sums of them where it is wider",
        _is_sparse,
        lambda rows: int(rows.shape[0]),
        lambda rows, index: rows.tocsr()[index],
        _join_sparse,
        _sparse_contents,
        _sparse_features,
    ),
    Container(
        f"a dict of arrays: all their numbers, or {WIDEST} sums of them where there are more",
        lambda rows: isinstance(rows, Mapping) and bool(rows),
        _count_arrays,
        _take_arrays,
        _join_arrays,
        _array_contents,
        _arrays_features,
    ),
    Container(
        f"texts: counts of their words, hashed into {WORD_COLUMNS} columns, and their length",
        _is_texts,
        len,
        _take_list,
        _join_lists,
        _text_contents,
        _text_features,
    ),
    Container(
        f"an array of objects, by columns: {_STATED}",
        lambda rows: isinstance(rows, np.ndarray) and rows.ndim == 2,
        len,
        lambda rows, index: rows[index],
        _join_tables,
        lambda rows: column_contents(array_columns(rows)),
        lambda rows: describe_columns(array_columns(rows)),
    ),
    Container(
        "a list of objects, for which no numbers stand",
        _is_objects,
        len,
        _take_list,
        _join_lists,
        _object_contents,
        _object_features,
    ),
)
"""The first that accepts records is their kind."""
