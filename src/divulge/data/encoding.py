"""Let records that are no array of numbers stand as one, and give the model its records back."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Shaped

from divulge.core import Encoding, Records
from divulge.data import containers
from divulge.data.columns import find_infinity, frame_columns, is_exact, is_pandas, is_polars
from divulge.errors import DataError

Array = Shaped[np.ndarray, " records *features"]


@final
class FrameEncoding:
    """A data frame whose columns are all numbers, none missing: the numbers themselves.

    Args:
        like: a frame of the same kind, with the columns in order and their types.
    """

    text = ""

    def __init__(self, like: Any) -> None:
        self._like = like

    def decode(self, x: Array) -> Any:
        """The frame with these numbers, in the types of its columns."""
        names = list(self._like.columns)
        if is_pandas(self._like):
            import pandas as pd

            return pd.DataFrame(np.asarray(x), columns=names).astype(dict(self._like.dtypes))
        import polars as pl

        return pl.DataFrame(np.asarray(x), schema=names, orient="row").cast(dict(self._like.schema))

    def features(self, x: Array) -> Float64[np.ndarray, "records columns"]:
        """The numbers."""
        return np.asarray(x, dtype=np.float64)

    def arranged(self, columns: tuple[str, ...]) -> "FrameEncoding":
        """The same with the columns in this order."""
        return FrameEncoding(self._like[list(columns)])

    def joined(self, other: Encoding) -> Encoding:
        """Of records of both; where types differ, those of a frame with both."""
        if isinstance(other, FrameEncoding):
            parts = (self._like, other._like)
            kind = containers.container_of(self._like)
            if containers.container_of(other._like) is not kind:
                raise _mixed(self._like, other._like)
            return FrameEncoding(kind.join(parts))
        raise _mixed(self._like, other)


@final
class ContentEncoding:
    """Any records: a hash of its content stands for each.

    Args:
        rows: the records as the model takes them.
    """

    def __init__(self, rows: Any) -> None:
        self._kind = containers.container_of(rows)
        self._rows = rows
        self._kind.count(rows)  # refuses arrays of different lengths
        self.keys = hash_rows(rows)
        """One for each of the records, in their order."""

    @property
    def text(self) -> str:
        """What the numbers are that describe a record."""
        return self._kind.text

    def decode(self, x: Array) -> Any:
        """The records with these hashes.

        Raises:
            DataError: no such record is known.
        """
        return self._kind.take(self._rows, self._positions(x))

    def features(self, x: Array) -> Float64[np.ndarray, "records columns"]:
        """Numbers that describe the records with these hashes.

        Raises:
            DataError: no such record is known.
        """
        return np.asarray(self._features[self._positions(x)])

    def arranged(self, columns: tuple[str, ...]) -> "ContentEncoding":
        """Itself: hashes have no columns."""
        del columns
        return self

    def joined(self, other: Encoding) -> "ContentEncoding":
        """Of records of both.

        Raises:
            DataError: the records are of two kinds.
        """
        if not isinstance(other, ContentEncoding) or other._kind is not self._kind:
            raise _mixed(self._rows, getattr(other, "_rows", None))
        if other is self:
            return self
        fresh = np.flatnonzero(~np.isin(other.keys, self.keys))
        if not len(fresh):
            return self
        return ContentEncoding(self._kind.join((self._rows, self._kind.take(other._rows, fresh))))

    def _positions(self, x: Array) -> np.ndarray:
        try:
            return np.array([self._at[key] for key in x.tolist()], dtype=np.intp)
        except KeyError:
            raise DataError(
                "expected records that were given, got one that was not: records that are not "
                "numbers cannot be changed"
            ) from None

    @cached_property
    def _at(self) -> dict[bytes, int]:
        return {key: at for at, key in reversed(list(enumerate(self.keys.tolist())))}

    @cached_property
    def _features(self) -> Float64[np.ndarray, "records columns"]:
        return self._kind.features(self._rows)


def hash_rows(rows: Any) -> Shaped[np.ndarray, " records"]:
    """A hash of the content of each record, as 32 hexadecimal digits.

    Equal records have equal hashes in every process.
    """
    contents = containers.container_of(rows).contents(rows)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in contents]
    return np.array(digests, dtype="S32")


def encode(rows: Any, where: str) -> tuple[Array, tuple[str, ...], Encoding | None]:
    """The array that stands for records, the names of its columns, and how it is decoded.

    Args:
        rows: an array, a data frame, a sparse matrix, texts, a dict of arrays, or any objects.
        where: the name of their source, for messages.

    Raises:
        DataError: the records cannot be held.
    """
    numbers = _as_numbers(rows)
    if numbers is not None:
        return numbers, (), None
    if is_pandas(rows) or is_polars(rows):
        columns = frame_columns(rows)
        _check_frame(rows, columns, where)
        if all(c.dtype.kind in "fiub" and not np.isnan(c).any() for c in columns.values()):
            x = np.column_stack(list(columns.values()))
            if x.dtype.kind != "f" or all(map(is_exact, columns.values())):
                if all(isinstance(name, str) for name in rows.columns):
                    return x, tuple(columns), FrameEncoding(rows[:0])
                return x, (), None  # numbers for columns without names
    encoding = ContentEncoding(rows)
    if not len(encoding.keys):
        raise DataError(f"expected records in {where}, got none: pass one or more")
    return encoding.keys, (), encoding


def _check_frame(rows: Any, columns: Mapping[str, np.ndarray], where: str) -> None:
    if not columns:
        raise DataError(
            f"expected records with features for {where}, got a frame of shape {rows.shape}: pass "
            "rows and columns"
        )
    for name, column in columns.items():
        infinite = find_infinity(column)
        if infinite is not None:
            raise DataError(
                f"expected finite features, got infinity in column {name!r} of {where}, first at "
                f"index {infinite}: correct or drop the record"
            )


def _as_numbers(rows: Any) -> Array | None:
    """An array of numbers, where it is one or becomes one without loss."""
    if isinstance(rows, Mapping) or is_pandas(rows) or is_polars(rows):
        return None
    if hasattr(rows, "tocsr") or (isinstance(rows, list) and any(type(r) is str for r in rows[:1])):
        return None
    if isinstance(rows, np.ma.MaskedArray) and rows.mask.any():
        raise DataError(
            "expected an array without a mask, got one that hides values: fill them, as for "
            "training"
        )
    try:
        array = np.asarray(rows)
    except Exception:  # rows of different lengths, or a tensor on another device
        if isinstance(rows, list):
            return None
        raise DataError(
            f"expected records that NumPy can read, got {type(rows).__name__}: move tensors to the "
            "CPU and detach them"
        ) from None
    if array.ndim == 0:
        raise DataError("expected records, got x of shape (): pass an array with one row a record")
    return array if array.dtype.kind in "fiub" else None


def refuse_encoded(records: Records, what: str) -> None:
    """Refuse records that are not numbers where something is to be done to their features.

    Args:
        records: the records.
        what: what is to be done, for the message.

    Raises:
        DataError: hashes stand for the records.
    """
    if records.x.dtype.kind == "S":
        raise DataError(
            f"expected records that are numbers for {what}, got texts, mixed columns or the like: "
            "encode them as numbers, and audit a model that takes these"
        )


def share_encoding(sets: Sequence[Records]) -> list[Records]:
    """The sets with one encoding for all, so that whoever is given one knows all their records.

    Raises:
        DataError: the sets are of kinds that do not go together.
    """
    if any(isinstance(records.encoding, ContentEncoding) for records in sets):
        sets = [_by_content(records) for records in sets]
    encodings = [records.encoding for records in sets if records.encoding is not None]
    if not encodings:
        return list(sets)
    whole = reduce(lambda first, second: first.joined(second), encodings)
    return [replace(records, encoding=whole) for records in sets]


def _by_content(records: Records) -> Records:
    if isinstance(records.encoding, ContentEncoding):
        return records
    encoding = ContentEncoding(records.rows())
    return replace(records, x=encoding.keys, columns=(), encoding=encoding)


def _mixed(first: Any, other: Any) -> DataError:
    kinds = ["numbers" if rows is None else _kind_of(rows) for rows in (first, other)]
    return DataError(
        f"expected members, non-members and all other records in one kind of container, got "
        f"{' and '.join(kinds)}: pass all of them as one kind"
    )


def _kind_of(rows: Any) -> str:
    """In a few words."""
    if isinstance(rows, FrameEncoding):
        return "a data frame of numbers"
    return containers.container_of(rows).text.partition(":")[0].partition(",")[0]
