"""A published table as settings, and the path from there to its figures beside ours.

A table's file holds one `Table` called ``TABLE``: its rows, what the paper says of them, and the
name of the function that measures a row. Each pair of row and seed is one piece of work, stored
under a digest of all that it depends on, so that whatever is there is never computed again.
"""

import hashlib
import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from leakscope import atomic
from leakscope.core import Estimate
from leakscope.errors import LeakscopeError, SpecError, StoreError, did_you_mean
from leakscope.metrics import intervals
from leakscope.progress import Track, untracked

Size = Literal["small", "medium", "full"]

TABLES = {
    "decaf-table3": "leakscope.experiments.decaf_table3",
    "decaf-table4": "leakscope.experiments.decaf_table4",
    "decaf-table5": "leakscope.experiments.decaf_table5",
    "decaf-table6": "leakscope.experiments.decaf_table6",
    "decaf-table7": "leakscope.experiments.decaf_table7",
    "decaf-table14": "leakscope.experiments.decaf_table14",
    "decaf-table15": "leakscope.experiments.decaf_table15",
    "decaf-figure6": "leakscope.experiments.decaf_figure6",
    "nist-table2": "leakscope.experiments.nist_table2",
    "nist-table3": "leakscope.experiments.nist_table3",
    "raifle-table5": "leakscope.experiments.raifle_table5",
    "raifle-table6": "leakscope.experiments.raifle_table6",
    "raifle-table7": "leakscope.experiments.raifle_table7",
    "raifle-table9": "leakscope.experiments.raifle_table9",
    "raifle-table10": "leakscope.experiments.raifle_table10",
    "raifle-table11": "leakscope.experiments.raifle_table11",
    "mrad-fashion-mnist": "leakscope.experiments.mrad_fashion_mnist",
    "mrad-location30": "leakscope.experiments.mrad_location30",
}
"""Name to module: the only list. A table is its file and one line here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    name: str
    settings: Mapping[str, Any]
    """What the measuring function is given beside seed and size; JSON can hold it."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """Published values by column, where there are any."""


@dataclass(frozen=True, slots=True)
class Table:
    """One published table."""

    title: str
    source: str
    """The paper, and the table's number in it."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    work: str
    """``module:function``: (seed, size, **settings) to values by column; their mean is shown."""
    seeds: Mapping[Size, int]
    """How many."""
    minutes: Mapping[Size, int]
    """About how long it takes one core."""
    differs: Mapping[Size, str]
    """What is not as in the paper."""
    largest: Mapping[str, float] = field(default_factory=dict)
    """Of columns whose values may exceed 1. None is below 0: no interval goes beyond."""


class Cell(NamedTuple):
    """One figure beside the published one."""

    row: str
    column: str
    ours: Estimate | None
    """None where it could not be measured."""
    paper: float | None
    reason: str = ""
    """Why it could not."""


@dataclass(frozen=True, slots=True)
class Done:
    """A table with our figures."""

    name: str
    size: Size
    table: Table
    cells: tuple[Cell, ...]

    def markdown(self) -> str:
        """The table as Markdown: ours with its 95 % interval, and the paper's."""
        columns = self.table.columns
        lines = [
            f"## {self.table.title} ({self.size})",
            "",
            f"{self.table.source}. Ours with its 95 % interval; the paper's after the stroke.",
            "",
            f"| | {' | '.join(columns)} |",
            f"|---|{'---|' * len(columns)}",
        ]
        for row in self.table.rows:
            shown = [_shown(cell) for cell in self.cells if cell.row == row.name]
            lines.append(f"| {row.name} | {' | '.join(shown)} |")
        reasons = dict.fromkeys((cell.row, cell.reason) for cell in self.cells if cell.reason)
        lines += ["", f"What differs: {self.table.differs[self.size]}"]
        lines += [f"\nNot measured: {row}: {reason}" for row, reason in reasons]
        return "\n".join(lines) + "\n"

    def as_json(self) -> str:
        """One line: the table's name, and its cells."""
        cells = [
            {
                "row": cell.row,
                "column": cell.column,
                "ours": cell.ours.value if cell.ours else None,
                "low": cell.ours.low if cell.ours else None,
                "high": cell.ours.high if cell.ours else None,
                "paper": cell.paper,
            }
            for cell in self.cells
        ]
        return json.dumps({"table": self.name, "size": self.size, "cells": cells})


def find(name: str) -> Table:
    """The table of this name.

    Raises:
        SpecError: there is none.
    """
    if name not in TABLES:
        raise SpecError(f"expected a table, got {name!r}: {did_you_mean(name, TABLES)}")
    table: Table = importlib.import_module(TABLES[name]).TABLE
    return table


def reproduce(name: str, size: Size, folder: Path, track: Track[Any] = untracked) -> Done:
    """Measure a table; what the folder holds already is not measured again.

    Args:
        name: of the table.
        size: ``small`` is for a look, ``full`` is the paper's.
        folder: for the pieces of work; made if it is not there. ``table.md`` and ``table.json``
            come last.
        track: shows progress.

    Raises:
        SpecError: there is no such table or size.
        StoreError: the folder cannot be written, or a piece in it is damaged.
    """
    table = find(name)
    if size not in get_args(Size):
        raise SpecError(f"expected a size, got {size!r}: {did_you_mean(size, get_args(Size))}")
    with atomic.said(folder):
        (folder / "cells").mkdir(parents=True, exist_ok=True)
    pieces = [(row, seed) for row in table.rows for seed in range(table.seeds[size])]
    found: dict[str, list[_Piece]] = {row.name: [] for row in table.rows}
    for row, seed in track(pieces, f"Measuring {name}"):
        found[row.name].append(_piece(table, row, seed, size, folder))
    cells = tuple(
        _cell(row, column, found[row.name], table.largest.get(column, 1.0))
        for row in table.rows
        for column in table.columns
    )
    done = Done(name, size, table, cells)
    atomic.write(folder / "table.md", done.markdown().encode())
    atomic.write(folder / "table.json", f"{done.as_json()}\n".encode())
    return done


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one row is with one seed."""

    row: str
    seed: int
    values: dict[str, list[float]]
    reason: str
    seconds: float


def _piece(table: Table, row: Row, seed: int, size: Size, folder: Path) -> _Piece:
    about = [table.work, dict(row.settings), seed, size, version("leakscope")]
    text = json.dumps(about, sort_keys=True)
    key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = folder / "cells" / f"{key}.json"
    if path.exists():
        with atomic.said(path):
            return atomic.from_json(path.read_bytes(), _Piece, path)
    module, _, function = table.work.partition(":")
    begun = time.process_time()
    values: Mapping[str, Sequence[float]] = {}
    reason = ""
    try:
        values = getattr(importlib.import_module(module), function)(seed, size, **row.settings)
    except StoreError:
        raise
    except LeakscopeError as error:
        reason = str(error)
    plain = {name: [float(value) for value in each] for name, each in values.items()}
    done = _Piece(row.name, seed, plain, reason, time.process_time() - begun)
    if not reason:  # what failed may have been a passing fault, such as data that were not there
        atomic.write(path, atomic.to_json(done, _Piece).encode())
    return done


def _cell(row: Row, column: str, pieces: Sequence[_Piece], largest: float) -> Cell:
    values = [value for piece in pieces for value in piece.values.get(column, [])]
    reason = next((piece.reason for piece in pieces if piece.reason), "")
    paper = row.paper.get(column)
    if len(values) < 2 or reason:
        return Cell(row.name, column, None, paper, reason or f"{len(values)} values, of 2 needed")
    mean = float(np.mean(values))
    low, high = intervals.mean(values)
    if low == high and mean in (0, 1):  # all right, or none: what so many can say of a rate
        low, high = intervals.clopper_pearson(int(sum(values)), len(values))
    return Cell(row.name, column, Estimate(mean, max(0.0, low), min(largest, high)), paper)


def _shown(cell: Cell) -> str:
    ours = "not measured"
    if cell.ours is not None:
        estimate = asdict(cell.ours)
        ours = "{value:.3f} ({low:.3f} to {high:.3f})".format(**estimate)
    return ours if cell.paper is None else f"{ours} / {cell.paper:.3f}"
