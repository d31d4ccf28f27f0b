"""What holds records that are no array of numbers: frames, texts, sparse matrices, and others.

A kind of container says how many records there are, takes some of them, puts several containers
together, what a record consists of, and which numbers describe it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from divulge.data import array_dicts, frame_joins
from divulge.data.columns import (
    MOST_CATEGORIES,
    WIDEST,
    WORD_COLUMNS,
    Contents,
    Features,
    array_columns,
    as_objects,
    cell_contents,
    check_finite,
    column_contents,
    describe_column,
    describe_columns,
    frame_columns,
    hash_parts,
    is_pandas,
    is_polars,
    is_series,
)
from divulge.data.dtypes import (
    OBJECTS,
    join_arrays,
    kind_of_dtype,
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


def _join_tables(parts: Sequence[np.ndarray]) -> np.ndarray:
    return join_arrays(parts, "records")


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
    check_finite(matrix.data, "a sparse matrix")
    columns, values = matrix.indices.astype("<i8"), cell_contents(matrix.data)
    ends = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
    return hash_parts((columns[start:end], values[start:end]) for start, end in ends)


def _sparse_features(rows: Any) -> Features:
    """Its columns, or sums of them where there are too many."""
    matrix = rows.tocsr()
    width = matrix.shape[1]
    if width > WIDEST:
        from scipy import sparse

        groups = np.arange(width) % WIDEST
        matrix = matrix @ sparse.csr_matrix((np.ones(width), (np.arange(width), groups)))
    return np.asarray(matrix.toarray(), dtype=np.float64)


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
        frame_joins.join_pandas,
        lambda rows: column_contents(frame_columns(rows)),
        lambda rows: describe_columns(frame_columns(rows)),
    ),
    Container(
        f"a polars DataFrame: {_STATED}",
        is_polars,
        len,
        lambda rows, index: rows[index],
        frame_joins.join_polars,
        lambda rows: column_contents(frame_columns(rows)),
        lambda rows: describe_columns(frame_columns(rows)),
    ),
    Container(
        f"a column of a data frame: {_STATED}",
        is_series,
        len,
        frame_joins.take_series,
        frame_joins.join_series,
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
        array_dicts.count,
        array_dicts.take,
        array_dicts.join,
        array_dicts.contents,
        array_dicts.features,
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
