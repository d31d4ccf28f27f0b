"""Read named columns of numbers from a CSV or Parquet file; each error names its cell."""

import csv
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util import untrusted
from divulge._util.extras import name_missing_extra
from divulge.errors import DataError, DivulgeError

_BOOLEANS = {"false": 0.0, "true": 1.0}
_TEXT_TYPES = (
    "string", "large_string", "string_view", "binary", "large_binary", "binary_view",
)  # fmt: skip
_FEW_VALUES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_BATCH = 2**23  # bytes
_FEW_COLUMNS = 1000
_BLOCK = 2**22  # bytes, fewer than the longest line: within a block no line is too long


def read_header(path: Path) -> list[str]:
    """The names of the columns in the order of the file.

    Raises:
        DataError: the file cannot be read, or is neither .csv nor .parquet.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"expected a .csv or .parquet file, got {path}: save the table as one")
    if path.suffix == ".parquet":
        return list(_open_parquet(path).schema_arrow.names)
    _check_lines(path)
    with translate_read_errors(path), open_csv(path) as file:
        header = next(csv.reader(file), [])
    untrusted.check_columns(len(header), str(path), DataError)
    return header


def check_names(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table in which a column is missing, or a name stands twice.

    Args:
        path: the file, for the message.
        header: the names of all columns.
        wanted: the names that must stand there once each.

    Raises:
        DataError: one of them is missing, or stands there twice.
    """
    counts = Counter(header)
    for name in wanted:
        if counts[name] != 1:
            raise DataError(
                f"expected one column {name!r} in {path}, got {counts[name]} among "
                f"{', '.join(header[:20])}: name it as it is called there, or rename them"
            )


def read_columns(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    """These columns, true and false as 1 and 0, empty cells of a Parquet file as NaN.

    Raises:
        DataError: the file is damaged, or a cell holds something else than a number.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    with translate_read_errors(path):
        return _read_parquet(path, names) if path.suffix == ".parquet" else _read_csv(path, names)


def read_texts(path: Path, *names: str) -> list[list[str]]:
    """Columns as texts, empty where a cell is.

    Raises:
        DataError: the file is damaged, or a column is missing.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    found: list[list[str]] = [[] for _ in names]
    if path.suffix == ".parquet":
        with translate_read_errors(path):
            for batch in parquet_batches(path, names):
                for cells, part in zip(found, batch, strict=True):
                    cells += _as_texts(part)
        return found
    header = read_header(path)
    check_names(path, header, names)
    with translate_read_errors(path), open_csv(path) as file:
        places = [header.index(name) for name in names]
        rows = filter(None, csv.reader(file))
        next(rows, None)
        for row in rows:
            for cells, at in zip(found, places, strict=True):
                cells.append(row[at] if at < len(row) else "")
    return found


class CellError(DataError):
    """A cell holds something else than was expected."""


def cell_error(path: Path, column: str, row: int, wanted: str, found: object) -> CellError:
    """The complaint about one cell; rows count from 1 below the header."""
    return CellError(
        f"expected {wanted} in {path}, column {column!r}, row {row + 1} below the header, got "
        f"{found}: correct or drop the row"
    )


def _read_csv(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    places = {name: place for place, name in enumerate(read_header(path))}
    positions = [places[name] for name in names]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            values: np.ndarray = np.loadtxt(
                path,
                delimiter=",",
                quotechar='"',
                comments=None,
                skiprows=1,
                usecols=positions,
                # Only the last column may hold words: a converter is slow.
                converters={positions[-1]: _parse_number},
                ndmin=2,
                encoding="utf-8-sig",
            )
        except ValueError:
            # NumPy is fast but vague: the slow way finds the cell.
            _find_wrong_cell(path, names, positions)
            raise
    return values.reshape(-1, len(names))


def _find_wrong_cell(path: Path, names: Sequence[str], positions: Sequence[int]) -> None:
    with open_csv(path) as file:
        rows = csv.reader(file)
        next(rows)
        for number, row in enumerate(filter(None, rows)):
            for name, position in zip(names, positions, strict=True):
                cell = row[position] if position < len(row) else ""
                try:
                    _parse_number(cell) if position == positions[-1] else float(cell)
                except ValueError as error:
                    raise cell_error(path, name, number, "a number", repr(cell[:80])) from error


def _read_parquet(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    batches = (list(map(_as_numpy, batch)) for batch in parquet_batches(path, names))
    blocks, rows = [], 0
    for batch in batches:
        named = zip(names, batch, strict=True)
        blocks.append(np.stack([_parse_numbers(path, *one, rows) for one in named], axis=1))
        rows += len(blocks[-1])
    return np.concatenate(blocks) if blocks else np.zeros((0, len(names)))


def _check_lines(path: Path) -> None:
    """Refuse a file with a line that would fill the memory with its cells.

    Raises:
        DataError: a line is longer than the limit.
    """
    limit = untrusted.byte_limit(untrusted.MAX_TEXT_BYTES)
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        if os.fstat(file.fileno()).st_size <= limit:
            return
        length = 0
        while block := file.read(_BLOCK):
            first = min((at for end in b"\n\r" if (at := block.find(end)) >= 0), default=len(block))
            untrusted.check_size(
                length + first, untrusted.MAX_TEXT_BYTES, f"a line of {path}", DataError
            )
            last = max(block.rfind(b"\n"), block.rfind(b"\r"))
            length = length + len(block) if last < 0 else len(block) - last - 1


def open_csv(path: Path) -> io.TextIOWrapper:
    """A CSV file, to be read as texts.

    Raises:
        DataError: it is missing, no file, or too large.
    """
    file = untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError)
    return io.TextIOWrapper(file, newline="", encoding="utf-8-sig")


def _open_parquet(path: Path, texts: Sequence[str] = (), metadata: Any = None) -> Any:
    """Open a Parquet file.

    Args:
        path: the file.
        texts: columns whose values are kept once each, however often they stand there.
        metadata: of the same file, where it was opened before.
    """
    with name_missing_extra():
        import pyarrow.parquet
    untrusted.check_file(path, untrusted.MAX_DATA_BYTES, DataError)
    with translate_read_errors(path):
        file = pyarrow.parquet.ParquetFile(path, metadata=metadata, read_dictionary=list(texts))
    untrusted.check_columns(file.metadata.num_columns, str(path), DataError)
    return file


def parquet_batches(path: Path, names: Sequence[str]) -> Iterator[list[Any]]:
    """Columns of a Parquet file, which unpacks to a thousand times its size if it is made to.

    The sizes of batches are counted as they come: what the file claims may be a lie.

    Raises:
        DataError: a column is missing, or the columns are larger than the limit, or hold lists or
            structures.
    """
    import pyarrow as pa

    file = _open_parquet(path)
    schema = file.schema_arrow
    check_names(path, schema.names, names)
    types = {name: schema.field(name).type for name in names}
    for name, kind in types.items():
        if pa.types.is_nested(kind):
            raise DataError(
                f"expected a number or a text in each cell of {path}, column {name!r} holds "
                f"{str(kind)[:80]}: spread it over several columns"
            )
    texts = [name for name, kind in types.items() if str(kind) in _TEXT_TYPES]
    file = _open_parquet(path, texts, file.metadata) if texts else file
    row_bytes = sum(map(_cell_bytes, types.values()))
    check_unpacked(path, file.metadata.num_rows * row_bytes)
    size = 0
    rows = max(1, _BATCH // max(1, row_bytes))
    # with many columns each holds little, and a thread for each would cost more than it saves
    threads = len(names) < _FEW_COLUMNS
    for batch in file.iter_batches(rows, columns=list(names), use_threads=threads):
        size += batch.nbytes
        check_unpacked(path, size)
        yield [batch.column(name) for name in names]


def _cell_bytes(kind: Any) -> int:
    """Bytes that a cell of an Arrow type takes, as far as its type says it: at least 8."""
    try:
        return max(8, int(kind.bit_width) // 8)
    except ValueError:  # texts
        return 8


def check_unpacked(path: Path, size: int) -> None:
    """Refuse columns that take too much memory.

    Raises:
        DataError: they take more bytes than the limit.
    """
    untrusted.check_size(
        size, untrusted.MAX_DATA_BYTES, f"columns that {path} unpacks to", DataError
    )


def _as_numpy(column: Any) -> Shaped[np.ndarray, " records"]:
    if hasattr(column, "dictionary"):
        return np.array([None, *as_list(column)], dtype=object)[1:]
    return np.asarray(column.to_numpy(zero_copy_only=False))


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
    if not hasattr(column, "dictionary"):
        return ["" if cell is None else str(cell) for cell in column.to_pylist()]
    once = [str(cell) for cell in column.dictionary.to_pylist()]
    return ["" if at is None else once[at] for at in column.indices.to_pylist()]


def _parse_numbers(
    path: Path, name: str, column: Shaped[np.ndarray, " records"], above: int
) -> Float[np.ndarray, " records"]:
    if column.dtype.kind in "fiub":
        return column.astype(np.float64, copy=False)
    numbers = np.empty(len(column))
    known: dict[Any, float] = {}  # a small file may hold a long text in each of its rows
    for row, cell in enumerate(column):
        if cell not in known:
            try:
                known[cell] = _parse_number(str(cell))
            except ValueError as error:
                shown = repr(cell[:80] if isinstance(cell, str | bytes) else cell)[:80]
                raise cell_error(path, name, above + row, "a number", shown) from error
        numbers[row] = known[cell]
    return numbers


def _parse_number(cell: str) -> float:
    word = cell.strip().lower()
    return _BOOLEANS[word] if word in _BOOLEANS else float(word)


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn whatever reading a table raises into one line.

    Raises:
        DataError: reading raised something.
    """
    try:
        yield
    except DivulgeError:
        raise
    except MemoryError as error:
        raise DataError(
            f"expected memory for what {path} holds, got too little: leave out rows or columns, or "
            "use a machine with more memory"
        ) from error
    except Exception as error:
        raise DataError(
            f"expected a table in {path}, got {type(error).__name__}: {error}: "
            "check the path, and save the table again"
        ) from error
