"""Tables of Arrow: Parquet, Feather and IPC, of pandas, polars, pyarrow and R."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util import untrusted
from divulge._util.extras import name_missing_extra
from divulge.data import arrow_lists
from divulge.data.arrow_batches import ipc_schema, open_parquet, read_ipc, read_parquet
from divulge.data.cells import NumberRows, check_names, check_unpacked
from divulge.data.file_kinds import Kind
from divulge.data.number_texts import PLAIN, Notation, NotationEvidence, describe_numbers, resolve
from divulge.data.typed_columns import parse_column, see_texts
from divulge.errors import DataError

_TEXT_TYPES = (
    "string", "large_string", "string_view", "binary", "large_binary", "binary_view",
)  # fmt: skip
_FEW_VALUES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BATCH = 2**23  # bytes
_LISTS_AT_ONCE = 256
"""Rows with lists that are unpacked at once."""


class ArrowTable:
    """A table of Arrow, read anew by each method.

    Args:
        path: the file.
        kind: what it is.

    Raises:
        DataError: it is damaged.
        MissingExtra: pyarrow is not installed.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        with name_missing_extra():
            import pyarrow as pa  # noqa: F401
        untrusted.check_file(path, untrusted.MAX_DATA_BYTES, DataError)
        self.path = path
        self._kind = kind
        self._schema = (
            open_parquet(path).schema_arrow if kind == "parquet" else ipc_schema(path, kind)
        )
        self.names: list[str] = list(self._schema.names)

    def numbers(self, names: Sequence[str]) -> Iterator[NumberRows]:
        """Columns of numbers, true and false as 1 and 0, missing ones NaN.

        Raises:
            DataError: a cell holds something else.
        """
        notations, rows = self._notations(names), 0
        for batch in self.batches(names):
            columns = [
                _as_numbers(self.path, name, column, notations.get(name, PLAIN), rows)
                for name, column in zip(names, batch, strict=True)
            ]
            yield NumberRows(rows, np.stack(columns, axis=1))
            rows += len(columns[0])

    def texts(self, names: Sequence[str]) -> list[list[str]]:
        """Columns as texts, empty where a cell is."""
        columns: list[list[str]] = [[] for _ in names]
        for batch in self.batches(names):
            for cells, part in zip(columns, batch, strict=True):
                cells += _as_texts(part)
        return columns

    def columns(self) -> Iterator[tuple[str, list[Any]]]:
        """Names and some of the values of each column, None where one is missing."""
        for batch in self.batches(self.names):
            for name, part in zip(self.names, batch, strict=True):
                yield name, as_list(part, _plain)

    def describe(self, names: Sequence[str]) -> str:
        """How the table was understood, in sentences; empty where texts are no odd numbers."""
        return " ".join(describe_numbers(self._notations(names).values()))

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Some rows of columns; a file may unpack to a thousand times its size.

        The sizes of batches are counted as they come: what the file claims may be a lie.

        Raises:
            DataError: a column is missing, or the columns are larger than the limit, or hold lists
                or structures.
        """
        types = self._types(names)
        for name, kind in types.items():
            if _is_nested(kind):
                raise DataError(
                    f"expected a number or a text in each cell of {self.path}, column {name!r} "
                    f"holds {str(kind)[:80]}: spread it over several columns"
                )
        texts = [name for name, kind in types.items() if str(kind) in _TEXT_TYPES]
        row_bytes = sum(map(_cell_bytes, types.values()))
        rows = max(1, BATCH // max(1, row_bytes))
        for batch in self._read(names, texts, row_bytes, rows):
            yield [_with_each_text_once(self.path, batch.column(name)) for name in names]

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The cells of these columns, row by row; see `divulge.data.tables.read_rows`.

        Raises:
            DataError: a list holds no numbers.
        """
        types, above = self._types(names), 0
        for batch in self._read(names, (), sum(map(_cell_bytes, types.values())), _LISTS_AT_ONCE):
            columns = [
                arrow_lists.unpack(self.path, name, above, batch.column(name))
                if _is_nested(types[name])
                else as_list(_with_each_text_once(self.path, batch.column(name)), _plain)
                for name in names
            ]
            yield from zip(*columns, strict=True)
            above += batch.num_rows

    def _types(self, names: Sequence[str]) -> dict[str, Any]:
        check_names(self.path, self.names, names)
        return {name: self._schema.field(name).type for name in names}

    def _read(
        self, names: Sequence[str], texts: Sequence[str], row_bytes: int, rows: int
    ) -> Iterator[Any]:
        """Batches of so many rows, as long as all of them are within the limit of memory."""
        if self._kind == "parquet":
            read = read_parquet(self.path, names, texts, row_bytes, rows)
        else:
            read = read_ipc(self.path, self._kind, names, row_bytes, rows)
        size = 0
        for batch in read:
            size += batch.nbytes
            check_unpacked(self.path, size)
            yield batch

    def _notations(self, names: Sequence[str]) -> dict[str, Notation]:
        """The notation of each column of texts."""
        texts = [name for name in names if _holds_texts(self._schema.field(name).type)]
        shown = {name: NotationEvidence() for name in texts}
        rows = 0
        for batch in self.batches(texts) if texts else ():
            for name, part in zip(texts, batch, strict=True):
                see_texts(shown[name], as_list(part), rows)
            rows += len(batch[0])
        return resolve(self.path, shown, ",")


def _is_nested(kind: Any) -> bool:
    import pyarrow as pa

    nested: bool = pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind)
    return nested or (pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type))


def _holds_texts(kind: Any) -> bool:
    return str(getattr(kind, "value_type", kind)) in _TEXT_TYPES


def _cell_bytes(kind: Any) -> int:
    """Bytes that a cell of an Arrow type takes, as far as its type says it: at least 8."""
    try:
        return max(8, int(kind.bit_width) // 8)
    except ValueError:  # texts
        return 8


def _with_each_text_once(path: Path, column: Any) -> Any:
    kind = str(column.type)
    if kind not in _TEXT_TYPES:
        return column
    if kind.endswith("view"):
        # 16 bytes each, and a million of them may name the same long text
        views = np.frombuffer(column.buffers()[1], np.int32)[::4]
        lengths = views[column.offset : column.offset + len(column)]
        check_unpacked(path, int(lengths.sum(dtype=np.int64)))
    return column.dictionary_encode()


def as_list(column: Any, convert: Callable[[Any], Any] = lambda cell: cell) -> list[Any]:
    """The cells of a column, converted; texts that stand there often are converted once."""
    if not hasattr(column, "dictionary"):
        return list(map(convert, column.to_pylist()))
    once = list(map(convert, column.dictionary.to_pylist()))
    return [None if at is None else once[at] for at in column.indices.to_pylist()]


def _as_texts(column: Any) -> list[str]:
    """The cells of a column as texts, empty where there is none."""
    if str(column.type) in _FEW_VALUES:
        column = column.dictionary_encode()  # each value becomes a text once
    return ["" if text is None else text for text in as_list(column, _as_text)]


def _as_text(cell: Any) -> str | None:
    if isinstance(cell, bytes):
        return cell.decode()
    return None if cell is None else str(cell)


def _plain(cell: Any) -> Any:
    """Bytes as text, decimals as numbers, None for NaN."""
    if isinstance(cell, bytes):
        return cell.decode()
    if type(cell).__name__ == "Decimal":
        return float(cell)
    return None if isinstance(cell, float) and cell != cell else cell


def _as_numbers(
    path: Path, name: str, column: Any, notation: Notation, above: int
) -> Float[np.ndarray, " records"]:
    if not hasattr(column, "dictionary"):
        array: Shaped[np.ndarray, " records"] = column.to_numpy(zero_copy_only=False)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64, copy=False)
    return parse_column(path, name, as_list(column), notation, above)
