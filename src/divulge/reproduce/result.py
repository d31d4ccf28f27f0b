"""Store a reproduced table with our figures, and render it as Markdown and JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from divulge._util import atomic
from divulge.core import Estimate
from divulge.core.runs import BEFORE_NAMING
from divulge.reproduce.controls import CONTROLS_NOTE, NOT_RUN, RowControls
from divulge.reproduce.table import Size

RESULT_FILE = "table.json"
"""Name of the result's file in a run folder."""
DIFFERENCES_NOTE = (
    "One row less another, unit by unit: both were measured on the same units, so a difference may "
    "be clear where the rows' own intervals overlap."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure beside the published one."""

    row: str
    column: str
    ours: Estimate | None
    """Our figure with its 95 % interval; None where it could not be measured."""
    paper: float | None
    """Published figure; None where the paper has none."""
    reason: str = ""
    """Reason why our figure could not be measured; empty where it was."""
    deviation: float | None = None
    """Standard deviation of the values whose mean is our figure, in tables that show it."""
    units: int | None = None
    """Number of independent units that the interval is over."""
    kind: Literal["mean", "by definition", "p-value"] = "mean"
    """Kind of our figure; only a mean has an interval."""

    @property
    def difference(self) -> float | None:
        """Our figure minus the paper's; None unless there are both."""
        return None if self.ours is None or self.paper is None else self.ours.value - self.paper

    @property
    def covers(self) -> bool:
        """Whether our interval holds the paper's figure."""
        if self.ours is None or self.paper is None or self.ours.high is None:
            return False
        return self.ours.low <= self.paper <= self.ours.high


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of figures: command, version and machine."""

    command: str
    commit: str
    """Git commit of the checkout, with ``-dirty`` if files were changed; empty outside of one."""
    cores: int
    """Number of CPU cores of the machine."""
    processes: int
    date: str
    """Time of the measurement, in UTC and ISO 8601."""
    cpu_seconds: float
    """CPU seconds of all pieces of work, each measured in its process."""
    divulge: str = BEFORE_NAMING


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
    """How the attacks of each row did on their controls; None in tables older than these."""

    def of_row(self, row: str) -> tuple[Cell, ...]:
        """Cells of a row, one a column."""
        return tuple(cell for cell in self.cells if cell.row == row)

    @property
    def unmeasured(self) -> dict[str, str]:
        """Reasons why figures are missing, each with the names of its rows."""
        cells = [cell for cell in self.cells if cell.reason]
        return {
            reason: "; ".join(dict.fromkeys(cell.row for cell in cells if cell.reason == reason))
            for reason in dict.fromkeys(cell.reason for cell in cells)
        }

    def control(self, row: str) -> str:
        """How the attacks of a row did on their controls, in a few words."""
        return next((one.outcome for one in self.controls or () if one.row == row), "not run")

    @property
    def control_sentences(self) -> tuple[str, ...]:
        """What the controls are, and what was failed or not tested, each with its rows."""
        if self.controls is None:
            return (NOT_RUN,)
        told: dict[str, list[str]] = {}
        for one in self.controls:
            for reason in one.reasons:
                told.setdefault(reason, []).append(one.row)
        attacked = any(one.attacks for one in self.controls)
        found = (f"{reason}: {'; '.join(rows)}" for reason, rows in told.items())
        return (CONTROLS_NOTE, *found) if attacked else ()

    @property
    def _spread(self) -> bool:
        return any(cell.deviation is not None for cell in self.cells)

    def markdown(self) -> str:
        """Render as Markdown: our figures with 95 % intervals, the paper's, and the differences."""
        lines = [
            f"## {self.title} ({self.size})",
            "",
            f"{self.source}. Each cell: ours with its 95 % interval; where the paper has a figure, "
            "that, and ours less the paper's."
            + (" After ± the standard deviation of values." if self._spread else ""),
            "",
            *([self.intervals, ""] if self.intervals else []),
            *self._grid({row: self.of_row(row) for row in self.rows}, controls=True),
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

    def _grid(self, rows: Mapping[str, tuple[Cell, ...]], *, controls: bool = False) -> list[str]:
        """Render rows of cells as lines of Markdown."""
        grid = [("", *self.columns), ("---",) * (len(self.columns) + 1)]
        grid += [(name, *map(cell_text, cells)) for name, cells in rows.items()]
        last = [("controls",), ("---",), *((self.control(name),) for name in rows)]
        return [
            f"| {' | '.join(line + end * controls)} |" for line, end in zip(grid, last, strict=True)
        ]

    def as_json(self) -> str:
        """Encode name, cells, differences and controls as one line of JSON for programs."""
        cells, differences = map(_cell_values, self.cells), map(_cell_values, self.differences)
        controls = [asdict(one) | {"outcome": one.outcome} for one in self.controls or ()]
        return json.dumps({
            "table": self.table,
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
    with atomic.translate_os_errors(path):
        return atomic.from_json(path.read_bytes(), Outcome, path)


def interval(estimate: Estimate) -> str:
    """Format a value and its interval to three digits, or to as many as separate its limits.

    Examples:
        >>> interval(Estimate(0.5, 0.25, 0.75)), interval(Estimate(0.0021, 0.0019, 0.0024))
        ('0.500 (0.250 to 0.750)', '0.00210 (0.00190 to 0.00240)')
    """
    high = estimate.value if estimate.high is None else estimate.high
    # adding zero turns the minus zero of a rounded small negative into zero
    width = high - estimate.low
    digits = max(3, 1 - math.floor(math.log10(width))) if 0 < width < 0.002 else 3
    parts = (round(part, digits) + 0.0 for part in (estimate.value, estimate.low, high))
    shown, least, most = (f"{part:.{digits}f}" for part in parts)
    return f"{shown} ({least} to {most})"


def figure(cell: Cell) -> str:
    """Format our figure with its interval, or with the reason why it has none."""
    if cell.ours is None:
        return "not measured"
    if cell.kind == "by definition":
        return f"{cell.ours.value:.3f} by definition"
    if cell.kind == "p-value":
        return f"{cell.ours.value:.2g}"
    return interval(cell.ours)


def cell_text(cell: Cell) -> str:
    """Format our figure, its standard deviation where the table shows one, and the paper's."""
    ours = figure(cell)
    ours += "" if cell.deviation is None else f" ± {cell.deviation:.3f}"
    if cell.paper is None:
        return ours
    difference = "" if cell.difference is None else f", {cell.difference:+.3f}"
    return f"{ours}; paper {cell.paper:.3f}{difference}"


def _cell_values(cell: Cell) -> dict[str, str | float | None]:
    limits = cell.ours if cell.kind == "mean" else None
    return {
        "row": cell.row,
        "column": cell.column,
        "ours": cell.ours.value if cell.ours else None,
        "low": limits.low if limits else None,
        "high": limits.high if limits else None,
        "deviation": cell.deviation,
        "paper": cell.paper,
        "units": cell.units,
        "kind": cell.kind,
    }
