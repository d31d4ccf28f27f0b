"""How a text table is laid out: which separator, and where its rows begin.

Nothing is guessed: the separator is the one that stands between the names of the header. Where
several do, it is the one by which all rows fit the header, or the table is refused.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from divulge.data.text_files import open_bytes, open_text
from divulge.errors import DataError

SEPARATORS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'", " ": "spaces"}
"""Separators and their names."""

_SAMPLE = 200
"""Lines that are looked at, besides the header."""
_SAMPLE_CHARACTERS = 2**20
_TOLD = re.compile(r'"?sep=([,;\t| ])"?\s*')
"""The first line that Excel takes as the separator of what follows."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a text table."""

    names: tuple[str, ...]
    separator: str
    above: int
    """Lines of text above the first row."""
    row_names: bool
    """Whether each row begins with a name for which the header has none, as R writes it."""
    padded: bool
    """Whether a space follows each separator."""


def read_layout(path: Path) -> Layout:
    """The layout of a text table, from its header and its first rows.

    Raises:
        DataError: the file cannot be read, or its header can be read in several ways.
    """
    sample, whole = _read_sample(path)
    begun = next((at for at, line in enumerate(sample) if line.strip("\r\n")), len(sample))
    declared = _TOLD.fullmatch(sample[begun]) if sample[begun:] else None
    begun += declared is not None
    rest = sample[begun:]
    if not rest:
        return Layout((), ",", 0, row_names=False, padded=False)
    separator = declared[1] if declared else _find_separator(path, rest, whole=whole)
    reader = csv.reader(rest, delimiter=separator)
    names = next(reader)
    above = begun + reader.line_num
    padded = len(names) > 1 and all(name.startswith(" ") for name in names[1:])
    if padded:
        names = next(csv.reader(rest, delimiter=separator, skipinitialspace=True))
    rows = _complete(list(filter(None, reader)), whole=whole)
    row_names = _have_row_names(path, names, rows, separator)
    return Layout(tuple(names), separator, above, row_names, padded)


def read_rows(path: Path, layout: Layout) -> Iterator[list[str]]:
    """Rows of a text table, without names of rows, and without empty rows at its end.

    A row may have fewer cells than the header: Excel leaves out empty ones.

    Raises:
        DataError: a row has more cells than the header; or as of `open_text`.
    """
    width, number, empty = len(layout.names), 0, 0
    with open_text(path) as file:
        lines = islice(file, layout.above, None)
        rows = csv.reader(lines, delimiter=layout.separator, skipinitialspace=layout.padded)
        for row in filter(None, rows):
            if not row[0] and not any(row):
                empty += 1
                continue
            if empty:
                yield from ([""] * width for _ in range(empty))
                number += empty
                empty = 0
            number += 1
            if layout.row_names:
                del row[0]
            if len(row) > width:
                if any(row[width:]):
                    raise _long_row(path, len(layout.names), layout.separator, number, row)
                del row[width:]  # each row ends in a separator, and the header does not
            yield row


def has_long_rows(path: Path, layout: Layout) -> bool:
    """Whether some row may have more cells than the header; a row in quotes always may."""
    most, separator, begun = len(layout.names) - 1 + layout.row_names, ord(layout.separator), 0
    with open_bytes(path) as file:
        while block := file.read1():
            if b'"' in block:
                return True
            signs = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero((signs == ord("\n")) | (signs == ord("\r")))
            places = np.flatnonzero(signs == separator)
            above = np.concatenate([[-begun], np.searchsorted(places, ends), [len(places)]])
            counts = np.diff(above)
            if counts.max() > most:
                return True
            begun = int(counts[-1])
    return False


def _read_sample(path: Path) -> tuple[list[str], bool]:
    """The first lines, and whether they are the whole file."""
    sample, size = [], 0
    with open_text(path) as file:
        for line in file:
            sample.append(line)
            size += len(line)
            if len(sample) > 3 and (len(sample) > _SAMPLE or size > _SAMPLE_CHARACTERS):
                return sample, False
    return sample, True


def _find_separator(path: Path, lines: list[str], *, whole: bool) -> str:
    """The one that stands between the names of the header; a comma where there is one name."""
    present = [separator for separator in SEPARATORS if separator != " " and separator in lines[0]]
    if len(present) == 1 and '"' not in lines[0]:
        return present[0]
    tables = {
        separator: table for separator in present if len((table := _split(lines, separator))[0]) > 1
    }
    if not tables and " " in lines[0]:
        tables = {" ": table} if len((table := _split(lines, " "))[0]) > 1 else {}
        if tables and "" in tables[" "][0]:
            raise DataError(
                f"expected one separator between the names in {path}, got several spaces in "
                f"{lines[0][:60]!r}: save the table as CSV"
            )
    if len(tables) <= 1:
        return next(iter(tables), ",")
    fitting = [
        separator
        for separator, (names, *rows) in tables.items()
        if all(len(names) <= len(row) <= len(names) + 1 for row in _complete(rows, whole=whole))
    ]
    if len(fitting) == 1:
        return fitting[0]
    several = " and ".join(
        f"{SEPARATORS[separator]} ({len(names)} names)" for separator, (names, *_) in tables.items()
    )
    raise DataError(
        f"expected one separator in the header of {path}, got {several} in {lines[0][:60]!r}: put "
        "names that hold a separator in quotes, or rename them"
    )


def _split(lines: list[str], separator: str) -> list[list[str]]:
    try:
        return list(filter(None, csv.reader(lines, delimiter=separator))) or [[]]
    except csv.Error:  # by this separator a cell would be longer than any
        return [[]]


def _complete(rows: list[list[str]], *, whole: bool) -> list[list[str]]:
    """Rows with a cell each, without the last where it may go on."""
    return [row for row in (rows if whole else rows[:-1]) if any(row)]


def _have_row_names(path: Path, names: list[str], rows: list[list[str]], separator: str) -> bool:
    longer = [row for row in rows if len(row) == len(names) + 1]
    if not longer or len(longer) < len(rows) or not any(row[-1] for row in longer):
        return False
    if len({row[0] for row in longer}) < len(longer):
        raise _long_row(path, len(names), separator, 1, longer[0])
    return True


def _long_row(path: Path, width: int, separator: str, number: int, row: list[str]) -> DataError:
    name = SEPARATORS[separator]
    more = " (decimal commas?)" if separator == "," else ""
    return DataError(
        f"expected {width} cells in each row of {path}, separated by {name}, got {len(row)} in row "
        f"{number} below the header: quote cells that hold {name}{more}, or separate them by "
        "another sign"
    )
