"""Tables of text: CSV in the dialects of R, Excel, pandas and databases."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float

from divulge._util.contents import MISSING
from divulge.data.cells import NumberRows, cell_error, check_unpacked
from divulge.data.layouts import SEPARATORS, Layout, has_long_rows, read_layout, read_rows
from divulge.data.number_texts import (
    PLAIN,
    Notation,
    NotationEvidence,
    describe_numbers,
    parse_number,
    parse_numbers,
    resolve,
)
from divulge.data.text_files import open_bytes, open_text
from divulge.errors import DataError

ROWS = 2**14
"""Rows that are held as texts at once."""

_TEXT = 50
"""Bytes that a text takes besides its characters."""

_ODD = (b"%", b'"', b" ", b"'", "\u00a0".encode(), "\u2009".encode(), "\u202f".encode())
"""Signs in numbers that are not plain, and around cells that may hold commas."""


class TextTable:
    """A table of text, read anew by each method.

    Args:
        path: the file.

    Raises:
        DataError: it cannot be read, or its header can be read in several ways.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._layout: Layout = read_layout(path)
        self._plain: set[str] = set()
        """Columns that were found to hold plain numbers."""
        self._fits = False
        """Whether no row has more cells than the header."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._layout.names)

    def numbers(self, names: Sequence[str]) -> Iterator[NumberRows]:
        """Columns of numbers; true and false are 1 and 0.

        Some rows at a time; where a number is not plain, all come again, from the first on.

        Raises:
            DataError: a cell holds something else.
        """
        positions = self._positions(names)
        if not self._fits and has_long_rows(self.path, self._layout):
            for _ in read_rows(self.path, self._layout):  # refuses those with too many cells
                pass
        self._fits = True
        try:
            yield from self._load(positions)
        except ValueError:
            # NumPy is fast and knows plain numbers alone
            yield from self._parse(names)
        else:
            self._plain.update(names)

    def texts(self, names: Sequence[str]) -> list[list[str]]:
        """Columns as texts; numbers have decimal points.

        Raises:
            DataError: the table is damaged.
        """
        positions = self._positions(names)
        columns: list[list[str]] = [[] for _ in names]
        once: dict[str, str] = {}
        size = 0
        rows = read_rows(self.path, self._layout)
        while batch := list(islice(rows, ROWS)):
            for cells, at in zip(columns, positions, strict=True):
                column = [row[at] if at < len(row) else "" for row in batch]
                cells += [once.setdefault(cell, cell) for cell in column]
                size += 8 * len(column) + sum(map(len, column))
            check_unpacked(self.path, size + _TEXT * len(once))
        self._fits = True
        return [self._with_points(cells) for cells in columns]

    def columns(self) -> Iterator[tuple[str, list[str | None]]]:
        """Names and some of the cells of each column; columns of numbers in plain notation.

        Raises:
            DataError: a row has fewer cells than the header, numbers have no clear notation, or the
                cells take more memory than the limit.
        """
        names = self._layout.names
        notations = self._notations(names, missing=MISSING)
        for _, batch in self._batches(strict=True):
            for name, cells in zip(names, batch, strict=True):
                plain = notations[name].plain if name in notations else None
                yield (
                    name,
                    [
                        None if c.strip() in MISSING else c if plain is None else plain(c)
                        for c in cells
                    ],
                )

    def describe(self, names: Sequence[str]) -> str:
        """How the table was understood, in sentences; empty for plain CSV."""
        layout, sentences = self._layout, []
        if layout.separator != ",":
            sentences.append(f"The table is separated by {SEPARATORS[layout.separator]}.")
        sentences += describe_numbers(self._notations(names).values())
        if layout.row_names:
            sentences.append(
                "Rows begin with names for which the header has none; these are left out."
            )
        return " ".join(sentences)

    def _positions(self, names: Sequence[str]) -> list[int]:
        places = {name: place for place, name in enumerate(self._layout.names)}
        return [places[name] for name in names]

    def _load(self, positions: Sequence[int]) -> Iterator[NumberRows]:
        layout, above = self._layout, 0
        wanted = [at + layout.row_names for at in positions]
        with open_text(self.path) as file:
            skipped = islice(file, layout.above, None)
            while len(values := self._load_some(skipped, wanted)):
                yield NumberRows(above, values)
                above += len(values)

    def _load_some(
        self, lines: Iterator[str], wanted: Sequence[int]
    ) -> Float[np.ndarray, "some_rows columns"]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(loadtxt: i|I)nput (line .* )?contained no data")
            values: np.ndarray = np.loadtxt(
                lines,
                delimiter=self._layout.separator,
                quotechar='"',
                comments=None,
                usecols=wanted,
                # Only the last column may hold words: a converter is slow.
                converters={wanted[-1]: parse_number},
                ndmin=2,
                max_rows=ROWS,
            )
        return values.reshape(-1, len(wanted))

    def _parse(self, names: Sequence[str]) -> Iterator[NumberRows]:
        """Numbers in any notation; names the first cell that holds none."""
        notations, positions = self._notations(names), self._positions(names)
        for above, batch in self._batches():
            columns = [
                parse_numbers(batch[at], notations.get(name, PLAIN))
                for name, at in zip(names, positions, strict=True)
            ]
            for number, row in enumerate(zip(*columns, strict=True)):
                if None in row:
                    name = names[row.index(None)]
                    cell = batch[self._layout.names.index(name)][number]
                    raise cell_error(self.path, name, above + number, "a number", cell)
            yield NumberRows(above, np.array(columns, dtype=np.float64).T)

    def _notations(
        self, names: Sequence[str], missing: frozenset[str] = frozenset()
    ) -> dict[str, Notation]:
        """The notation of each column of numbers that is not plain.

        Raises:
            DataError: numbers have separators of thousands, or two notations.
        """
        if self._plain.issuperset(names) or not self._may_be_odd:
            return {}
        shown = {name: NotationEvidence() for name in names}
        positions = self._positions(names)
        for above, batch in self._batches():
            for evidence, at in zip(shown.values(), positions, strict=True):
                evidence.see(("" if c.strip() in missing else c for c in batch[at]), above)
        notations = resolve(self.path, shown, self._layout.separator)
        return {
            name: notation
            for name, notation in notations.items()
            if any(notation) and not (missing and shown[name].texts)
        }

    @cached_property
    def _may_be_odd(self) -> bool:
        """Whether some cell may be a number in a notation that is not plain."""
        signs = _ODD if self._layout.separator == "," else (*_ODD, b",")
        with open_bytes(self.path) as file:
            while block := file.read1():
                if any(sign in block for sign in signs):
                    return True
        return False

    def _with_points(self, cells: list[str]) -> list[str]:
        evidence = NotationEvidence()
        if not any("," in cell for cell in set(cells)):
            return cells
        evidence.see(cells, 0)
        if evidence.texts or not evidence.commas or evidence.first.keys() - {"comma", "number"}:
            return cells
        return [cell.replace(",", ".") for cell in cells]

    def _batches(self, *, strict: bool = False) -> Iterator[tuple[int, list[tuple[str, ...]]]]:
        """Columns of some rows, and how many rows precede them."""
        width, size, above = len(self._layout.names), 0, 0
        rows = read_rows(self.path, self._layout)
        while batch := list(islice(rows, ROWS)):
            for at, row in enumerate(batch):
                if len(row) < width:
                    if strict:
                        raise DataError(
                            f"expected {width} cells in each row of {self.path}, got {len(row)} in "
                            f"row {above + at + 1} below the header: save the table again"
                        )
                    row += [""] * (width - len(row))
            size += len(batch) * width * 8
            check_unpacked(self.path, size)
            yield above, list(zip(*batch, strict=True))
            above += len(batch)
