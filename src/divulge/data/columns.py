"""Columns of tables: what their cells hold, byte by byte, and numbers that describe them."""

import hashlib
import math
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped, UInt8

from divulge.errors import DataError

Contents = UInt8[np.ndarray, "records bytes"]
Features = Float64[np.ndarray, "records columns"]
Column = Shaped[np.ndarray, " records"]

MOST_CATEGORIES = 32
"""The most frequent values of a column that get a column of their own each."""

WORD_COLUMNS = 64
"""Columns into which the words of texts are counted, by a hash."""

WIDEST = 1024
"""The largest number of columns that stand for themselves; those of wider records are summed."""

_WORDS = 4.0
"""Words in the average value from which a column holds texts, and not names of categories."""

_EXACT = 2**53
"""Whole numbers up to it are the same in double precision."""

_MISSING = struct.pack("<dd", math.nan, 0.0)
"""The bytes of a cell without a value."""


def is_pandas(rows: Any) -> bool:
    """Whether it is a pandas DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def is_polars(rows: Any) -> bool:
    """Whether it is a polars DataFrame."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(rows, polars.DataFrame)


def is_series(rows: Any) -> bool:
    """Whether it is a column of a pandas or polars data frame."""
    kinds = (getattr(sys.modules.get(name), "Series", None) for name in ("pandas", "polars"))
    return any(kind is not None and isinstance(rows, kind) for kind in kinds)


def frame_columns(frame: Any) -> dict[str, Column]:
    """The columns of a frame by name, as NumPy's numbers and dates, or as objects.

    Raises:
        DataError: two columns have one name.
    """
    names = [str(name) for name in frame.columns]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(
            f"expected columns with different names, got {twice[0]!r} twice: rename one"
        )
    if is_pandas(frame):
        return dict(zip(names, _read_pandas_columns(frame), strict=True))
    return dict(zip(names, map(_read_polars_column, frame.get_columns()), strict=True))


def find_infinity(column: Column) -> int | None:
    """The first place in a column where a number is infinite."""
    if column.dtype.kind == "f":
        infinite = np.isinf(column)
    elif column.dtype.kind == "O":
        infinite = np.array([isinstance(v, float) and math.isinf(v) for v in column.tolist()], bool)
    else:
        return None
    return int(infinite.argmax()) if infinite.any() else None


def is_missing(value: object) -> bool:
    """Whether a cell says that there is no value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _read_pandas_columns(frame: Any) -> list[Column]:
    columns: list[Column] = [np.zeros(0)] * frame.shape[1]
    places: dict[Any, list[int]] = {}
    for place, dtype in enumerate(frame.dtypes):
        places.setdefault(dtype, []).append(place)
    for dtype, alike in places.items():
        if isinstance(dtype, np.dtype) and dtype.kind in "fiubMO":  # all at once: each takes long
            read = list(frame.iloc[:, alike].to_numpy().T)
        else:
            read = [_read_pandas_column(frame.iloc[:, place]) for place in alike]
        for place, column in zip(alike, read, strict=True):
            columns[place] = column
    return columns


def _read_pandas_column(series: Any) -> Column:
    """A column of one of pandas' own types."""
    if hasattr(series, "sparse"):
        series = series.sparse.to_dense()
    if series.dtype.kind in "fiubM" and isinstance(series.dtype, np.dtype):
        return np.asarray(series)
    if series.dtype.kind == "M":  # with a time zone
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None))
    if series.dtype.kind in "fiub" and not series.isna().any():  # pandas' own types of numbers
        return np.asarray(series.to_numpy(dtype=series.dtype.numpy_dtype))
    return np.asarray(series.astype(object))


def _read_polars_column(series: Any) -> Column:
    if not series.dtype.is_nested() and (not series.null_count() or series.dtype.is_temporal()):
        column = np.asarray(series.to_numpy())
        if column.dtype.kind in "fiubM":
            return column
    return as_objects(series.to_list())


def as_objects(values: Sequence[Any]) -> Column:
    """An array of these objects, whatever they are."""
    column = np.empty(len(values), object)
    column[:] = values
    return column


def array_columns(rows: Any) -> dict[str, Column]:
    """The columns of a table that is an array, by number; further axes are flattened."""
    flat = np.asarray(rows).reshape(len(rows), -1)
    return {str(at): flat[:, at] for at in range(flat.shape[1])}


def column_contents(columns: Mapping[str, Column]) -> Contents:
    """In the order of names: frames with their columns in another order hold the same records."""
    return np.concatenate([cell_contents(columns[name]) for name in sorted(columns)], axis=1)


def cell_contents(column: Column) -> Contents:
    """16 bytes a cell: a number, or a hash of anything else."""
    if column.dtype.kind == "M":
        cells = np.ones((len(column), 2), "<i8")  # the 1 tells dates from numbers
        cells[:, 0] = column.astype("datetime64[ns]").astype("<i8")
        return cells.view(np.uint8)
    if column.dtype.kind in "fiub" and is_exact(column):
        cells = np.zeros((len(column), 2), "<f8")
        cells[:, 0] = column
        cells[:, 0] += 0.0  # minus zero is zero
        cells[np.isnan(cells[:, 0]), 0] = np.nan
        return cells.view(np.uint8)
    known: dict[Any, bytes] = {}
    # the text of an array in a cell is abbreviated otherwise
    with np.printoptions(threshold=sys.maxsize, floatmode="unique", legacy=False):
        hashed = b"".join([_hash_cell(cell, known) for cell in column.tolist()])
    return np.frombuffer(hashed, np.uint8).reshape(len(column), 16)


def is_exact(column: Column) -> bool:
    """Whether double precision holds all numbers of a column as they are."""
    if column.dtype.kind not in "iu" or not column.size:
        return True
    return bool(int(column.min()) >= -_EXACT and int(column.max()) <= _EXACT)


def _hash_cell(cell: Any, known: dict[Any, bytes]) -> bytes:
    """The bytes of a cell, looked up where the same stood before."""
    if isinstance(cell, str):
        if cell not in known:
            known[cell] = hash_text("str", cell)
        return known[cell]
    if is_missing(cell):
        return _MISSING
    if isinstance(cell, float | np.floating) or (
        isinstance(cell, int | np.integer) and abs(int(cell)) <= _EXACT
    ):
        return struct.pack("<dd", float(cell) + 0.0, 0.0)  # minus zero is zero
    return hash_text(type(cell).__name__, str(cell))


def hash_text(kind: str, text: str) -> bytes:
    """16 bytes for a text that stands for an object of this kind."""
    content = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest()


def describe_columns(columns: Mapping[str, Column]) -> Features:
    """Numbers that describe the records of a table."""
    parts = [describe_column(column) for column in columns.values()]
    return narrow(np.concatenate(parts, axis=1))


def describe_column(column: Column) -> Features:
    """Numbers that describe the cells of a column: one column of them, or several."""
    if column.dtype.kind == "M":
        missing = np.isnat(column)
        numbers = column.astype("datetime64[s]").astype(np.float64) / 86_400
        return _fill(np.where(missing, np.nan, numbers))
    if column.dtype.kind in "fiub":
        return _fill(column.astype(np.float64))
    cells = column.tolist()
    missing = np.array([is_missing(cell) for cell in cells], bool)
    present = [cell for cell, gone in zip(cells, missing, strict=True) if not gone]
    if all(isinstance(cell, bool | int | float | Decimal) for cell in present):
        filled = np.full(len(column), np.nan)
        filled[~missing] = [float(cell) for cell in present]
        return _fill(filled)
    texts = ["" if gone else str(cell) for cell, gone in zip(cells, missing, strict=True)]
    if np.mean([text.count(" ") + 1 for text in texts]) >= _WORDS:
        return _count_words(texts)
    return _one_hot(texts)


def _fill(numbers: Float64[np.ndarray, " records"]) -> Features:
    """The numbers with the median where one is missing, and a column that says where."""
    missing = np.isnan(numbers)
    if not missing.any():
        return numbers[:, None]
    middle = 0.0 if missing.all() else float(np.nanmedian(numbers))
    return np.column_stack([np.where(missing, middle, numbers), missing])


def _one_hot(texts: Sequence[str]) -> Features:
    """A column for each of the most frequent values, and how frequent any value is."""
    _, codes, counts = np.unique(np.array(texts, object), return_inverse=True, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    return np.column_stack([codes[:, None] == frequent, counts[codes] / len(codes)]).astype(float)


def _count_words(texts: Sequence[str]) -> Features:
    from sklearn.feature_extraction.text import HashingVectorizer

    counting = HashingVectorizer(n_features=WORD_COLUMNS, norm=None, alternate_sign=False)
    words = counting.transform(texts).toarray()
    return np.column_stack([words, [len(text) for text in texts]]).astype(np.float64)


def narrow(features: Features) -> Float64[np.ndarray, "records sums"]:
    """The same, or sums of columns drawn by their numbers where there are too many."""
    if features.shape[1] <= WIDEST:
        return features
    groups = np.arange(features.shape[1]) % WIDEST
    return np.stack([features[:, groups == group].sum(axis=1) for group in range(WIDEST)], axis=1)


def hash_parts(records: Iterable[tuple[np.ndarray, ...]]) -> Contents:
    """A hash of the arrays of each record."""
    hashes = [
        hashlib.blake2b(b"".join(part.tobytes() for part in parts), digest_size=16).digest()
        for parts in records
    ]
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), 16)


def check_finite(numbers: np.ndarray, where: str) -> None:
    """Refuse features that are no finite numbers.

    Raises:
        DataError: one is NaN or infinite.
    """
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise DataError(
            f"expected finite features, got NaN or infinity in {where}: impute or drop them, as "
            "for training"
        )
