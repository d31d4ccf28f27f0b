"""Tables of JSON lines: one object a row, whose keys are the columns."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util.json import parse_json
from divulge.data.cells import NumberRows, as_array, check_unpacked
from divulge.data.number_texts import Notation, NotationEvidence, describe_numbers, resolve
from divulge.data.text_files import open_text
from divulge.data.typed_columns import as_text, parse_column, see_texts
from divulge.errors import DataError

_CELL = 32
"""Bytes of a number and its place in a list, at least."""


class JsonTable:
    """A table of JSON lines, read anew by each method.

    Args:
        path: the file.

    Raises:
        DataError: it cannot be read, or its first line is no object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        first = next(self._rows(), {})
        self.names = list(first)

    def numbers(self, names: Sequence[str]) -> Iterator[NumberRows]:
        """Columns of numbers, true and false as 1 and 0, missing ones NaN.

        Raises:
            DataError: a cell holds something else.
        """
        columns = self._columns(names)
        notations = self._notations(columns)
        parsed = [
            parse_column(self.path, name, cells, notations[name]) for name, cells in columns.items()
        ]
        yield NumberRows(0, np.array(parsed, dtype=np.float64).T.reshape(-1, len(names)))

    def texts(self, names: Sequence[str]) -> list[list[str]]:
        """Columns as texts, empty where a value is missing."""
        columns = self._columns(names)
        return [list(map(as_text, columns[name])) for name in names]

    def columns(self) -> Iterator[tuple[str, list[Any]]]:
        """Names and values of each column, None where one is missing."""
        for name, cells in self._columns(self.names).items():
            yield name, [None if cell != cell else cell for cell in cells]

    def describe(self, names: Sequence[str]) -> str:
        """How the table was understood, in sentences; empty where texts are no odd numbers."""
        columns = self._columns(names) if names else {}
        return " ".join(describe_numbers(self._notations(columns).values()))

    def _notations(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, Notation]:
        shown = {name: NotationEvidence() for name in columns}
        for name, cells in columns.items():
            see_texts(shown[name], cells, 0)
        return resolve(self.path, shown, ",")

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The cells of these columns, row by row; see `divulge.data.tables.read_rows`.

        Raises:
            DataError: a list holds no numbers.
        """
        for number, row in enumerate(self._rows(), start=1):
            yield tuple(as_array(self.path, name, number, row.get(name)) for name in names)

    def _columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {name: [] for name in names}
        size = 0
        for row in self._rows():
            for name, cells in columns.items():
                cell = row.get(name)
                if isinstance(cell, dict | list):
                    raise DataError(
                        f"expected a number or a text in each cell of {self.path}, column {name!r} "
                        f"holds a {type(cell).__name__}: spread it over several columns"
                    )
                cells.append(cell)
                size += _CELL + (len(cell) if isinstance(cell, str) else 0)
            check_unpacked(self.path, size)
        return columns

    def _rows(self) -> Iterator[dict[str, Any]]:
        names: list[str] | None = None
        with open_text(self.path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = parse_json(line)
                except (ValueError, RecursionError) as error:
                    raise self._no_object(number, str(error)) from error
                if not isinstance(row, dict):
                    raise self._no_object(number, type(row).__name__)
                names = list(row) if names is None else names
                if more := row.keys() - names:
                    raise DataError(
                        f"expected the keys of the first line in each line of {self.path}, got "
                        f"{sorted(more)[0][:80]!r} in line {number}: write every key in each line"
                    )
                yield row

    def _no_object(self, number: int, got: str) -> DataError:
        return DataError(
            f"expected one JSON object a line in {self.path}, got something else in line {number} "
            f"({got[:200]}): save it as JSON lines, with pandas by to_json(path, "
            'orient="records", lines=True), or as CSV'
        )


def is_json(path: Path) -> bool:
    """Whether a text file begins like JSON."""
    with open_text(path) as file:
        begun = "".join(file.read(1024).split())
    return begun.startswith(("{", "[{", "[[", "[]"))
