"""From a table's settings to our figures beside the published ones, in a run folder."""

import datetime as dt
import itertools
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from divulge import atomic
from divulge.core import Estimate
from divulge.errors import SpecError, did_you_mean
from divulge.experiments import pieces
from divulge.experiments.crew import Crew, cores
from divulge.experiments.outcome import Cell, Made, Outcome
from divulge.experiments.pieces import Piece
from divulge.experiments.table import Size, Table, find
from divulge.metrics import intervals
from divulge.progress import Track, untracked


def reproduce(
    folders: Mapping[str, Path],
    size: Size,
    track: Track[Any] = untracked,
    crew: Crew | None = None,
) -> Iterator[Outcome]:
    """Measure tables, and give each as soon as it is whole; what several need is measured once.

    What the folders hold already is not measured again.

    Args:
        folders: of each table, by its name, for the pieces of its work; made if they are not
            there. ``table.md`` and ``table.json`` come last.
        size: ``small`` is for a look, ``full`` is the paper's.
        track: shows progress.
        crew: who works; by default this process alone.

    Raises:
        SpecError: there is no such table or size.
        StoreError: a folder cannot be written, or a piece in it is damaged.
    """
    tables = {folder: find(name) for name, folder in folders.items()}
    if size not in get_args(Size):
        raise SpecError(f"expected a size, got {size!r}: {did_you_mean(size, get_args(Size))}")
    for folder in tables:
        with atomic.said(folder):
            (folder / "cells").mkdir(parents=True, exist_ok=True)
    crew = crew or Crew(1)
    todo = pieces.works(tables, size)
    missing = {
        name: {key for key, *_ in pieces.keyed(tables[folder], size)}
        for name, folder in folders.items()
    }
    text = f"Measuring {next(iter(folders)) if len(folders) == 1 else f'{len(folders)} tables'}"
    found: dict[str, Piece] = {}
    for _, (key, piece) in zip(track(todo, text), crew.each(pieces.done, todo), strict=True):
        found[key] = piece
        for name in [name for name, keys in missing.items() if keys <= found.keys()]:
            del missing[name]
            outcome = _outcome(name, size, found, crew)
            outcome.save(folders[name])
            yield outcome


def _outcome(name: str, size: Size, found: Mapping[str, Piece], crew: Crew) -> Outcome:
    table = find(name)
    by_row: dict[str, list[Piece]] = {row.name: [] for row in table.rows}
    for key, row, _ in pieces.keyed(table, size):
        by_row[row.name].append(found[key])
    return Outcome(
        table=name,
        size=size,
        title=table.title,
        source=table.source,
        rows=tuple(by_row),
        columns=table.columns,
        differs=table.differs[size],
        cells=_cells(table, by_row),
        made=_made(name, size, itertools.chain(*by_row.values()), crew),
        drawn=table.drawn,
        measures=table.measures,
    )


def _cells(table: Table, found: Mapping[str, Sequence[Piece]]) -> tuple[Cell, ...]:
    """Row by row, each column's mean over all that its pieces hold."""
    cells = []
    for row in table.rows:
        own = found[row.name]
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
    # of each record whether it was found: a rate, exactly; differences and ratios are none
    if smallest >= 0 and largest <= 1 and set(values) <= {0.0, 1.0}:
        low, high = intervals.clopper_pearson(int(sum(values)), len(values))
    else:
        low, high = intervals.mean(values)
    return Estimate(mean, max(smallest, low), min(largest, high))


def _made(name: str, size: Size, found: Iterable[Piece], crew: Crew) -> Made:
    return Made(
        command=f"divulge reproduce {name} --size {size}",
        commit=_commit(),
        cores=cores(),
        processes=crew.processes,
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        cpu_seconds=round(sum(piece.seconds for piece in found), 1),
        divulge=version("divulge"),
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
