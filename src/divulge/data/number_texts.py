"""What texts in a column mean as numbers: decimal points or commas, and percent signs.

A comma is a decimal comma only where the column shows that it groups no thousands: ``0,5`` shows
it, ``1,234`` does not. A column whose notation stays open, or that has two notations, is refused.
All notations of one number give the same float64, as Python rounds decimal texts correctly.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from divulge.data.cells import show_cell
from divulge.errors import DataError

_COMMA = re.compile(r"[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?")
_OPEN = re.compile(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}")
"""One group of three digits, or three decimals."""
_GROUPED = re.compile(
    r"[+-]?[0-9]{1,3}("
    r"([ '\u2019\u00a0\u2009\u202f][0-9]{3})+([.,][0-9]*)?"
    r"|(\.[0-9]{3})+,[0-9]*|(,[0-9]{3})+\.[0-9]*|(\.[0-9]{3}){2,}|(,[0-9]{3}){2,})"
)
_EXPONENT = re.compile(r"(.*)[eE]([+-]?[0-9]{1,9})")
_BOOLEANS = {"false": 0.0, "true": 1.0}
_ADVICE = "write decimals with a point, and thousands without a separator"


class Notation(NamedTuple):
    """How the texts of a column are read as numbers."""

    comma: bool = False
    """Whether the comma is the decimal sign."""
    percent: bool = False
    """Whether numbers have percent signs."""

    def plain(self, cell: str) -> str:
        """The same number with a decimal point and without a percent sign.

        Examples:
            >>> Notation(comma=True, percent=True).plain("12,3 %")
            '12.3e-2'
        """
        cell = cell.strip()
        if self.comma:
            cell = cell.replace(",", ".")
        if self.percent and cell.endswith("%"):
            number, exponent = cell[:-1].rstrip(), 0
            if match := _EXPONENT.fullmatch(number):
                number, exponent = match[1], int(match[2])
            cell = f"{number}e{exponent - 2}"
        return cell


PLAIN = Notation()


@dataclass(slots=True)
class NotationEvidence:
    """What the texts of a column show of their notation."""

    texts: bool = False
    """Whether some cell is no number in any notation; none below it is looked at."""
    commas: bool = False
    """Whether some comma groups no thousands."""
    points: bool = False
    """Whether some point groups no thousands."""
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The row and the cell where something was first seen."""

    def see(self, cells: Iterable[str], above: int) -> None:
        """Look at cells below ``above`` others."""
        known = set()
        for row, cell in enumerate(cells, start=above):
            if self.texts:
                return
            if cell not in known:
                known.add(cell)
                self._see(cell.strip(), row)

    def _see(self, cell: str, row: int) -> None:
        number = cell[:-1].rstrip() if cell.endswith("%") else cell
        if _GROUPED.fullmatch(number):
            self.first.setdefault("grouped", (row, cell))
        elif _COMMA.fullmatch(number):
            self.first.setdefault("comma", (row, cell))
            self.commas = self.commas or not _OPEN.fullmatch(number)
        elif not _is_number(number):
            self.texts = self.texts or cell != ""
            return
        elif "." in number:
            self.first.setdefault("point", (row, cell))
            self.points = self.points or not _OPEN.fullmatch(number)
        self.first.setdefault("number" if number is cell else "percent", (row, cell))


def resolve(
    path: Path, columns: Mapping[str, NotationEvidence], separator: str
) -> dict[str, Notation]:
    """The notation of each column.

    Args:
        path: the file, for messages.
        columns: what each column shows.
        separator: the sign between columns; where it is no comma, one column with decimal commas
            shows that the others have such too.

    Raises:
        DataError: numbers have separators of thousands, or two notations.
    """
    commas = separator != "," and any(e.commas for e in columns.values() if not e.texts)
    return {name: _resolve(path, name, shown, commas=commas) for name, shown in columns.items()}


def describe_numbers(notations: Iterable[Notation]) -> list[str]:
    """Sentences on notations that are not plain."""
    listed = list(notations)
    sentences = []
    if any(notation.comma for notation in listed):
        sentences.append("Numbers have decimal commas.")
    if any(notation.percent for notation in listed):
        sentences.append("Numbers with a percent sign are read as shares: 12.3% is 0.123.")
    return sentences


def _resolve(path: Path, name: str, shown: NotationEvidence, *, commas: bool) -> Notation:
    first = shown.first
    notation = Notation("comma" in first and (commas or shown.commas), "percent" in first)
    if shown.texts:
        return notation
    if "grouped" in first:
        raise _refuse(path, name, first["grouped"], "with a separator of thousands", _ADVICE)
    if "comma" in first and "point" in first:
        other = first["point"][1]
        raise _refuse(path, name, first["comma"], f"beside {show_cell(other)}", _ADVICE)
    if "comma" in first and not notation.comma:
        doubt = "whose comma may group thousands or decimals"
        raise _refuse(path, name, first["comma"], doubt, _ADVICE)
    if "point" in first and commas and not shown.points:
        doubt = "whose point may group thousands, beside columns with decimal commas"
        raise _refuse(path, name, first["point"], doubt, _ADVICE)
    if "percent" in first and "number" in first:
        doubt = f"beside {show_cell(first['percent'][1])}"
        advice = "write a percent sign in each cell of the column, or in none"
        raise _refuse(path, name, first["number"], doubt, advice)
    return notation


def _refuse(path: Path, name: str, where: tuple[int, str], doubt: str, advice: str) -> DataError:
    row, cell = where
    return DataError(
        f"expected one plain notation of numbers in {path}, column {name!r}, got {show_cell(cell)} "
        f"{doubt} in row {row + 1} below the header: {advice}"
    )


def parse_number(cell: str) -> float:
    """The number that a text in plain notation stands for; true and false are 1 and 0.

    Raises:
        ValueError: it stands for none.
    """
    try:
        return _as_float(cell)
    except ValueError:
        word = cell.strip().lower()
        if word not in _BOOLEANS:
            raise
        return _BOOLEANS[word]


def parse_numbers(cells: Sequence[str], notation: Notation) -> list[float | None]:
    """The numbers of a column, None where a cell is none; true and false are 1 and 0."""
    once: dict[str, float | None] = {}
    for cell in cells:
        if cell not in once:
            try:
                once[cell] = parse_number(cell if notation == PLAIN else notation.plain(cell))
            except ValueError:
                once[cell] = None
    return [once[cell] for cell in cells]


def _as_float(text: str) -> float:
    if "_" in text:  # Python's own notation, which no other program reads
        raise ValueError("underscores")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _as_float(text)
    except ValueError:
        return False
    return True
