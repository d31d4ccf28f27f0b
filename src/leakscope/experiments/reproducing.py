"""From a table's settings to our figures beside the published ones, in a run folder."""

import datetime as dt
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from leakscope import atomic
from leakscope.core import Estimate
from leakscope.errors import SpecError, did_you_mean
from leakscope.experiments import pieces
from leakscope.experiments.crew import Crew, cores
from leakscope.experiments.outcome import Cell, Made, Outcome
from leakscope.experiments.pieces import Piece
from leakscope.experiments.table import Size, Table, find
from leakscope.metrics import intervals
from leakscope.progress import Track, untracked


def reproduce(
    name: str,
    size: Size,
    folder: Path,
    track: Track[Any] = untracked,
    crew: Crew | None = None,
    earlier: Sequence[Path] = (),
) -> Outcome:
    """Measure a table; what the folder holds already is not measured again.

    Args:
        name: of the table.
        size: ``small`` is for a look, ``full`` is the paper's.
        folder: for the pieces of work; made if it is not there. ``table.md`` and ``table.json``
            come last.
        track: shows progress.
        crew: who works; by default this process alone.
        earlier: folders of tables measured before, whose work is not done again where this table
            needs the same.

    Raises:
        SpecError: there is no such table or size.
        StoreError: the folder cannot be written, or a piece in it is damaged.
    """
    table = find(name)
    if size not in get_args(Size):
        raise SpecError(f"expected a size, got {size!r}: {did_you_mean(size, get_args(Size))}")
    with atomic.said(folder):
        (folder / "cells").mkdir(parents=True, exist_ok=True)
    crew = crew or Crew(1)
    todo = pieces.works(table, size, folder, tuple(earlier))
    coming = crew.each(pieces.done, todo)
    found = [piece for _, piece in zip(track(todo, f"Measuring {name}"), coming, strict=True)]
    outcome = Outcome(
        table=name,
        size=size,
        title=table.title,
        source=table.source,
        rows=tuple(row.name for row in table.rows),
        columns=table.columns,
        differs=table.differs[size],
        cells=_cells(table, sorted(found, key=lambda piece: piece.seed)),
        made=_made(name, size, found, crew),
        drawn=table.drawn,
    )
    outcome.save(folder)
    return outcome


def _cells(table: Table, found: Sequence[Piece]) -> tuple[Cell, ...]:
    """Row by row, each column's mean over all that its pieces hold."""
    cells = []
    for row in table.rows:
        own = [piece for piece in found if piece.row == row.name]
        reason = next((piece.reason for piece in own if piece.reason), "")
        for column in table.columns:
            values = [value for piece in own for value in piece.values.get(column, [])]
            why = reason or (f"{len(values)} values, of 2 needed" if len(values) < 2 else "")
            ends = table.smallest.get(column, 0.0), table.largest.get(column, 1.0)
            ours = None if why else _mean(values, *ends)
            spread = float(np.std(values, ddof=1)) if table.deviations and ours else None
            cells.append(Cell(row.name, column, ours, row.paper.get(column), why, spread))
    return tuple(cells)


def _mean(values: Sequence[float], smallest: float, largest: float) -> Estimate:
    mean = float(np.mean(values))
    # of each record whether it was found: a rate, exactly; a difference of 0 is none
    if smallest >= 0 and set(values) <= {0.0, 1.0}:
        low, high = intervals.clopper_pearson(int(sum(values)), len(values))
    else:
        low, high = intervals.mean(values)
    return Estimate(mean, max(smallest, low), min(largest, high))


def _made(name: str, size: Size, found: Iterable[Piece], crew: Crew) -> Made:
    return Made(
        command=f"leakscope reproduce {name} --size {size}",
        commit=_commit(),
        cores=cores(),
        processes=crew.processes,
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        cpu_seconds=round(sum(piece.seconds for piece in found), 1),
        leakscope=version("leakscope"),
    )


def _commit() -> str:
    """Of the checkout that this file belongs to, if it does."""
    git, here = shutil.which("git"), Path(__file__)
    if git is None:
        return ""

    def said(*words: str) -> str:
        command = [git, "-C", str(here.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (git, and words of ours)
        return done.stdout.strip()

    if not said("ls-files", here.name):
        return ""
    return said("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
