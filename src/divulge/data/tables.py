"""Open a table of named columns whatever wrote it; each error names its cell.

CSV in the dialects of R, Excel, pandas and databases, packed or not; JSON lines; Parquet, Feather
and Arrow. What a file is shows in its first bytes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from divulge._util import untrusted
from divulge._util.contents import quote_error
from divulge.data.arrow_tables import ArrowTable
from divulge.data.cells import (
    CellError,
    NumberRows,
    cell_error,
    check_names,
    show_cell,
    show_label,
)
from divulge.data.json_tables import JsonTable, is_json
from divulge.data.text_files import file_kind, find_wrong_byte
from divulge.data.text_tables import TextTable
from divulge.errors import DataError, DivulgeError

__all__ = [
    "CellError", "cell_error", "check_names", "describe", "read_batches", "read_columns",
    "read_header", "read_numbers", "read_rows", "read_texts", "show_cell", "show_label",
]  # fmt: skip


Table = ArrowTable | JsonTable | TextTable


def read_header(path: Path) -> list[str]:
    """The names of the columns in the order of the file.

    Raises:
        DataError: the file cannot be read, or is no table.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        return list(_open(path).names)


def read_columns(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    """These columns, true and false as 1 and 0, empty cells of typed formats as NaN.

    Raises:
        DataError: the file is damaged, or a cell holds something else than a number.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    parts: list[np.ndarray] = [np.zeros((0, len(names)))]
    for above, numbers in read_numbers(path, names):
        if not above:
            del parts[1:]
        parts.append(numbers)
    return np.concatenate(parts)


def read_numbers(path: Path, names: Sequence[str]) -> Iterator[NumberRows]:
    """The same some rows at a time; where these begin with the first row again, all come anew.

    Raises:
        DataError: the file is damaged, or a cell holds something else than a number.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        yield from _open(path).numbers(names)


def read_texts(path: Path, *names: str) -> list[list[str]]:
    """Columns as texts, empty where a cell is.

    Raises:
        DataError: the file is damaged, or a column is missing.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        table = _open(path)
        check_names(path, table.names, names)
        return table.texts(names)


def read_batches(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Names of columns and some of their cells, None where one is missing.

    Raises:
        DataError: the file is damaged.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        yield from _open(path).columns()


def read_rows(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Row by row the cells of these columns, which may be lists: numbers, texts, arrays or None.

    A list of numbers is an array, with NaN where one is missing; a list of lists is a list of
    arrays. Rows come as the file is read, so that only what is made of them is kept.

    Raises:
        DataError: the file is damaged, a column is missing, or a list holds no numbers.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        table = _open(path)
        check_names(path, table.names, names)
        if isinstance(table, TextTable):
            raise DataError(
                f"expected lists in columns of {path}, got CSV, which has none: save the table as "
                "JSON lines or as Parquet"
            )
        yield from table.rows(names)


def describe(path: Path, names: Sequence[str]) -> str:
    """How numbers in these columns were understood, in sentences; empty where all is plain.

    Raises:
        DataError: the file is damaged.
        MissingExtra: it needs pyarrow, which is not installed.
    """
    with translate_read_errors(path):
        return _open(path).describe(names)


def _open(path: Path) -> Table:
    status = untrusted.check_file(path, untrusted.MAX_DATA_BYTES, DataError)
    table = _open_version(path, (status.st_ino, status.st_size, status.st_mtime_ns))
    untrusted.check_columns(len(table.names), str(path), DataError)
    return table


@lru_cache(maxsize=4)
def _open_version(path: Path, version: tuple[int, ...]) -> Table:
    del version  # a file that was written again is another one
    kind, _ = file_kind(path)
    if kind != "text":
        return ArrowTable(path, kind)
    return JsonTable(path) if is_json(path) else TextTable(path)


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
    except UnicodeDecodeError as error:
        raise find_wrong_byte(path) from error
    except MemoryError as error:
        raise DataError(
            f"expected memory for what {path} holds, got too little: leave out rows or columns, or "
            "use a machine with more memory"
        ) from error
    except Exception as error:
        raise DataError(
            f"expected a table in {path}, got {type(error).__name__}: "
            f"{quote_error(error)}: check the path, and save the table again"
        ) from error
