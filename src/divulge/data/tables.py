"""Read named columns of numbers from a CSV or Parquet file; each error names its cell."""

import csv
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from divulge.errors import DataError, DivulgeError, MissingExtra

_BOOLEANS = {"false": 0.0, "true": 1.0}


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
    with _translate_read_errors(path), path.open(newline="", encoding="utf-8-sig") as file:
        return next(csv.reader(file), [])


def read_columns(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    """These columns, true and false as 1 and 0, empty cells of a Parquet file as NaN.

    Raises:
        DataError: the file is damaged, or a cell holds something else than a number.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    with _translate_read_errors(path):
        return _read_parquet(path, names) if path.suffix == ".parquet" else _read_csv(path, names)


def read_texts(path: Path, name: str) -> list[str]:
    """One column as texts, empty where a cell is.

    Raises:
        DataError: the file is damaged, or the column is missing.
        MissingExtra: the file is Parquet, and pyarrow is not installed.
    """
    names = read_header(path)
    if names.count(name) != 1:
        raise DataError(
            f"expected one column {name!r} in {path}, got {', '.join(names[:20])}: name it as it "
            "is called there"
        )
    with _translate_read_errors(path):
        if path.suffix == ".parquet":
            cells = _open_parquet(path).read(columns=[name]).column(name).to_pylist()
            return ["" if cell is None else str(cell) for cell in cells]
        with path.open(newline="", encoding="utf-8-sig") as file:
            at = names.index(name)
            return [row[at] if at < len(row) else "" for row in csv.reader(file) if row][1:]


def cell_error(path: Path, column: str, row: int, wanted: str, found: object) -> DataError:
    """The complaint about one cell; rows count from 1 below the header."""
    return DataError(
        f"expected {wanted} in {path}, column {column!r}, row {row + 1} below the header, got "
        f"{found}: correct or drop the row"
    )


def _read_csv(path: Path, names: Sequence[str]) -> Float[np.ndarray, "records columns"]:
    positions = [read_header(path).index(name) for name in names]
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
    with path.open(newline="", encoding="utf-8-sig") as file:
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
    table = _open_parquet(path).read(columns=list(names))
    columns = [table.column(name).to_numpy(zero_copy_only=False) for name in names]
    return np.stack(
        [_parse_numbers(path, *named) for named in zip(names, columns, strict=True)], axis=1
    )


def _open_parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    with _translate_read_errors(path):
        return pyarrow.parquet.ParquetFile(path)


def _parse_numbers(
    path: Path, name: str, column: Shaped[np.ndarray, " records"]
) -> Float[np.ndarray, " records"]:
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    numbers = np.empty(len(column))
    for row, cell in enumerate(column):
        try:
            numbers[row] = _parse_number(str(cell))
        except ValueError as error:
            raise cell_error(path, name, row, "a number", repr(cell)[:80]) from error
    return numbers


def _parse_number(cell: str) -> float:
    word = cell.strip().lower()
    return _BOOLEANS[word] if word in _BOOLEANS else float(word)


@contextmanager
def _translate_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except DivulgeError:
        raise
    except Exception as error:
        raise DataError(
            f"expected a table of numbers in {path}, got {type(error).__name__}: {error}: "
            "check the path, and save the table again"
        ) from error
