"""Store a reproduced table with our figures, and render it as Markdown and JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from divulge._util import atomic
from divulge_papers.controls import CONTROLS_NOTE, NOT_RUN, RowControls
from divulge_papers.figure import NOT_YET, Cell, cell_text, cell_values
from divulge_papers.provenance import Measurement, Provenance
from divulge_papers.table import Size

RESULT_FILE = "table.json"
"""Name of the result's file in a run folder."""
DIFFERENCES_NOTE = (
    "One row less another, unit by unit: both were measured on the same units, so a difference may "
    "be clear where the rows' own intervals overlap."
)


@dataclass(frozen=True, slots=True)
class MeasuredPiece:
    """Provenance of one row with one seed."""

    row: str
    seed: int
    made: Measurement


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of a table is measured."""

    pieces: int
    """Number of pieces of work that are measured: rows by seeds."""
    of: int
    """Number of all."""
    core_hours_missing: float
    """Estimate for the pieces that are missing."""
    older: int = 0
    """Number of measured pieces that an older source of the study measured."""

    def __str__(self) -> str:
        there = f"{self.pieces} of {self.of} pieces of work (a row with a seed) are measured"
        if self.pieces < self.of:
            there += f"; about {format_hours(self.core_hours_missing)} core-hours are missing"
        old = f" An older source of the study measured {self.older} of them." * bool(self.older)
        return f"{there}.{old}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one table, complete without the code that measured it."""

    table: str
    size: Size
    title: str
    source: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    differs: str
    cells: tuple[Cell, ...]
    """Cells of the table, row by row."""
    made: Provenance
    drawn: tuple[str, ...] = ()
    """Rows whose curves over the columns that begin with a number are drawn."""
    measures: str = "Ours"
    """Name of the quantity in those columns, as the title of the curves' axis."""
    differences: tuple[Cell, ...] = ()
    """Differences between rows measured on the same units, pair by pair."""
    intervals: str = ""
    """Sentences that describe the intervals: over which units, by which method."""
    controls: tuple[RowControls, ...] | None = None
    """How the attacks of each measured row did on their controls; None in tables older than
    these."""
    state: Completeness | None = None
    """How much of the table is measured; None in tables older than this, which are complete."""
    pieces: tuple[MeasuredPiece, ...] = ()
    """Provenance of each measured piece, row by row; empty in tables older than this."""

    @property
    def complete(self) -> bool:
        """Whether no piece of work is missing."""
        return self.state is None or self.state.pieces == self.state.of

    @property
    def empty(self) -> bool:
        """Whether there is no figure at all."""
        return all(cell.ours is None and cell.single is None for cell in self.cells)

    def seeds(self, row: str) -> str:
        """How many seeds of a row are measured, of how many."""
        if self.state is None:
            return "all"
        there = sum(piece.row == row for piece in self.pieces)
        return f"{there} of {self.state.of // len(self.rows)}"

    def of_row(self, row: str) -> tuple[Cell, ...]:
        """Cells of a row, one a column."""
        return tuple(cell for cell in self.cells if cell.row == row)

    @property
    def unmeasured(self) -> dict[str, str]:
        """Reasons why figures could not be measured, each with the names of its rows."""
        cells = [
            cell for cell in self.cells if cell.single is None and cell.reason not in ("", NOT_YET)
        ]
        return {
            reason: "; ".join(dict.fromkeys(cell.row for cell in cells if cell.reason == reason))
            for reason in dict.fromkeys(cell.reason for cell in cells)
        }

    def control(self, row: str) -> str:
        """How the attacks of a row did on their controls, in a few words."""
        missing = "not run" if self.controls is None else NOT_YET
        return next(
            (control.outcome for control in self.controls or () if control.row == row), missing
        )

    @property
    def control_sentences(self) -> tuple[str, ...]:
        """What the controls are, and what was failed or not tested, each with its rows."""
        if self.controls is None:
            return (NOT_RUN,)
        rows_by_reason: dict[str, list[str]] = {}
        for control in self.controls:
            for reason in control.reasons:
                rows_by_reason.setdefault(reason, []).append(control.row)
        attacked = any(control.attacks for control in self.controls)
        sentences = (f"{reason}: {'; '.join(rows)}" for reason, rows in rows_by_reason.items())
        return (CONTROLS_NOTE, *sentences) if attacked else ()

    @property
    def spreads(self) -> bool:
        """Whether the standard deviation of values is shown."""
        return any(cell.deviation is not None for cell in self.cells)

    def markdown(self) -> str:
        """Render as Markdown: our figures with 95 % intervals, the paper's, and the differences."""
        lines = [
            f"## {self.title} ({self.size})",
            "",
            f"{self.source}. Each cell: ours with its 95 % interval; where the paper has a figure, "
            "that, and ours less the paper's."
            + (" After ± the standard deviation of values." if self.spreads else ""),
            "",
            *([f"{self.state}", ""] if self.state else []),
            *([self.intervals, ""] if self.intervals else []),
            *self._grid({row: self.of_row(row) for row in self.rows}, about_rows=True),
            "",
        ]
        if self.differences:
            lines += [DIFFERENCES_NOTE, "", *self._grid(self.pairs), ""]
        lines += [f"{sentence}\n" for sentence in self.control_sentences]
        lines += [f"What differs: {self.differs}"]
        lines += [f"\nNot measured ({why}): {rows}" for why, rows in self.unmeasured.items()]
        return "\n".join(lines) + "\n"

    @property
    def pairs(self) -> dict[str, tuple[Cell, ...]]:
        """Differences of each pair of rows, one a column, by name of the pair."""
        names = dict.fromkeys(cell.row for cell in self.differences)
        return {name: tuple(c for c in self.differences if c.row == name) for name in names}

    def _grid(self, rows: Mapping[str, tuple[Cell, ...]], *, about_rows: bool = False) -> list[str]:
        """Render rows of cells as lines of Markdown."""
        more = {"seeds": self.seeds} if not self.complete else {}
        last = more | {"controls": self.control} if about_rows else {}
        grid = [("", *self.columns, *last), ("---",) * (len(self.columns) + 1 + len(last))]
        grid += [
            (name, *map(cell_text, cells), *(say(name) for say in last.values()))
            for name, cells in rows.items()
        ]
        return [f"| {' | '.join(line)} |" for line in grid]

    def as_json(self) -> str:
        """Encode name, state, cells, differences and controls as one line of JSON for programs."""
        cells, differences = map(cell_values, self.cells), map(cell_values, self.differences)
        controls = [
            asdict(control) | {"outcome": control.outcome} for control in self.controls or ()
        ]
        return json.dumps({
            "table": self.table,
            "state": asdict(self.state) if self.state else None,
            "cells": list(cells),
            "differences": list(differences),
            "controls": controls,
        })  # fmt: skip

    def save(self, folder: Path) -> None:
        """Write ``table.json`` and ``table.md``.

        Raises:
            StoreError: the folder cannot be written.
        """
        atomic.write(folder / "table.md", self.markdown().encode())
        atomic.write(folder / RESULT_FILE, atomic.to_json(self, Outcome).encode())


def read_outcome(path: Path) -> Outcome:
    """Read the ``table.json`` that `Outcome.save` wrote.

    Raises:
        StoreError: it is not there, or is something else.
    """
    return atomic.from_json(atomic.read(path), Outcome, path)


def format_hours(hours: float) -> str:
    """Format an estimate of hours to two digits.

    Examples:
        >>> format_hours(333.3), format_hours(1.25), format_hours(0.005)
        ('333', '1.2', '0.005')
    """
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"
