"""Measure the cells of published tables, and store our figures beside the published ones."""

import datetime as dt
import itertools
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

from divulge._util import atomic
from divulge._util.progress import Track, track_silently
from divulge.core import Estimate
from divulge.errors import SpecError, did_you_mean
from divulge.reproduce import cells as reproduce_cells
from divulge.reproduce import units
from divulge.reproduce.cells import Piece
from divulge.reproduce.controls import judge_row
from divulge.reproduce.pool import CellWorkers, cores
from divulge.reproduce.result import Cell, Outcome, Provenance
from divulge.reproduce.table import Row, Size, Table, find_table


def reproduce(
    folders: Mapping[str, Path],
    size: Size,
    track: Track[Any] = track_silently,
    crew: CellWorkers | None = None,
) -> Iterator[Outcome]:
    """Measure tables, and yield each when it is complete; cells of several are measured once.

    Cells that the folders hold already are not measured again.

    Args:
        folders: run folder of each table by its name, made if need be. ``table.md`` and
            ``table.json`` are written last.
        size: size of the experiment: ``small`` is a quick trial, ``full`` is the paper's.
        track: progress display.
        crew: pool of worker processes; by default this process works alone.

    Raises:
        SpecError: there is no such table or size.
        StoreError: a folder cannot be written, or a piece in it is damaged.
    """
    tables = {folder: find_table(name) for name, folder in folders.items()}
    if size not in get_args(Size):
        raise SpecError(f"expected a size, got {size!r}: {did_you_mean(size, get_args(Size))}")
    for folder in tables:
        with atomic.translate_os_errors(folder):
            (folder / "cells").mkdir(parents=True, exist_ok=True)
    crew = crew or CellWorkers(1)
    todo = reproduce_cells.works(tables, size)
    missing = {
        name: {key for key, *_ in reproduce_cells.key_pieces(tables[folder], size)}
        for name, folder in folders.items()
    }
    text = f"Measuring {next(iter(folders)) if len(folders) == 1 else f'{len(folders)} tables'}"
    found: dict[str, Piece] = {}
    for _, (key, piece) in zip(
        track(todo, text), crew.each(reproduce_cells.done, todo), strict=True
    ):
        found[key] = piece
        for name in [name for name, keys in missing.items() if keys <= found.keys()]:
            del missing[name]
            outcome = _outcome(name, size, found, crew)
            outcome.save(folders[name])
            yield outcome


def _outcome(name: str, size: Size, found: Mapping[str, Piece], crew: CellWorkers) -> Outcome:
    table = find_table(name)
    by_row: dict[str, list[Piece]] = {row.name: [] for row in table.rows}
    for key, row, _ in reproduce_cells.key_pieces(table, size):
        by_row[row.name].append(found[key])
    cells = _cells(table, by_row)
    return Outcome(
        table=name,
        size=size,
        title=table.title,
        source=table.source,
        rows=tuple(by_row),
        columns=table.columns,
        differs=table.differs[size],
        cells=cells,
        made=_record_provenance(name, size, itertools.chain(*by_row.values()), crew),
        drawn=table.drawn,
        measures=table.measures,
        differences=_differences(table, by_row),
        controls=tuple(judge_row(row, pieces) for row, pieces in by_row.items()),
        intervals=units.describe(table, size, [cell.units for cell in cells if cell.units]),
    )


def _cells(table: Table, found: Mapping[str, Sequence[Piece]]) -> tuple[Cell, ...]:
    """Cells row by row: each column's mean over units."""
    return tuple(
        _cell(table, row, column, found[row.name]) for row in table.rows for column in table.columns
    )


def _cell(table: Table, row: Row, column: str, own: Sequence[Piece]) -> Cell:
    each = units.row_units(table, own, column)
    reason = next((piece.reason for piece in own if piece.reason), "") or _lack_of_units(each)
    paper = row.paper.get(column)
    if reason:
        return Cell(row.name, column, None, paper, reason)
    if column in row.by_definition:
        return Cell(
            row.name, column, _shared_value(each), paper, units=len(each), kind="by definition"
        )
    kind = table.kinds.get(column, "bounded")
    ours = units.estimate(each, kind, *_column_range(table, column))
    spread = units.spread(each) if table.deviations else None
    shown: Literal["mean", "p-value"] = "p-value" if kind == "p-value" else "mean"
    return Cell(row.name, column, ours, paper, "", spread, len(each), shown)


def _differences(table: Table, found: Mapping[str, Sequence[Piece]]) -> tuple[Cell, ...]:
    """Cells pair by pair: each column's mean difference over units."""
    return tuple(
        _difference(table, one, other, column, found)
        for one, other in table.pairs
        for column in table.columns
    )


def _difference(
    table: Table, one: str, other: str, column: str, found: Mapping[str, Sequence[Piece]]
) -> Cell:
    name, kind = f"{one}, less {other}", table.kinds.get(column, "bounded")
    if kind == "p-value":
        return Cell(name, column, None, None, "p-values have no difference")
    first, second = (units.row_units(table, found[row], column) for row in (one, other))
    each = units.paired_difference(first, second)
    if reason := _lack_of_units(each):
        return Cell(name, column, None, None, reason)
    if column in table.common:
        return Cell(name, column, _shared_value(each), None, units=len(each), kind="by definition")
    low, high = _column_range(table, column)
    # differences of shares are means over a unit's trials
    ours = units.estimate(each, "normal" if kind == "clustered" else kind, low - high, high - low)
    return Cell(name, column, ours, None, units=len(each))


def _shared_value(each: units.Units) -> Estimate:
    """Value that all units have by definition; if one differs, the table is wrong."""
    (value,) = set(units.means(each))
    return Estimate(value, value, value)


def _lack_of_units(each: units.Units) -> str:
    return f"{len(each)} units, of 2 needed" if len(each) < 2 else ""


def _column_range(table: Table, column: str) -> tuple[float, float]:
    return table.smallest.get(column, 0.0), table.largest.get(column, 1.0)


def _record_provenance(
    name: str, size: Size, found: Iterable[Piece], crew: CellWorkers
) -> Provenance:
    return Provenance(
        command=f"divulge reproduce {name} --size {size}",
        commit=_checkout_commit(),
        cores=cores(),
        processes=crew.processes,
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        cpu_seconds=round(sum(piece.seconds for piece in found), 1),
        divulge=version("divulge"),
    )


def _checkout_commit() -> str:
    """Git commit of the checkout that this file belongs to; empty if it belongs to none."""
    git, here = shutil.which("git"), Path(__file__)
    if git is None:
        return ""

    def run_git(*words: str) -> str:
        command = [git, "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (git, and words of ours)
        return done.stdout.strip()

    if not run_git("ls-files", here.name):
        return ""
    return run_git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
