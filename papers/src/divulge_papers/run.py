"""Measure the cells of published tables, and store our figures beside the published ones."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from divulge._util.folders import take_folder
from divulge._util.progress import Progress, as_track
from divulge.errors import SpecError, did_you_mean
from divulge_papers import cells as reproduce_cells
from divulge_papers import datasets
from divulge_papers.budget import Budget, Costs
from divulge_papers.cells import Piece, Work, key_pieces
from divulge_papers.combine import combine
from divulge_papers.pool import AnyCellWorkers, CellWorkers, cores
from divulge_papers.provenance import Provenance, checkout_commit
from divulge_papers.result import Outcome
from divulge_papers.table import Size, Table, find_table


def reproduce(
    folders: Mapping[str, Path],
    size: Size,
    cell_workers: AnyCellWorkers | None = None,
    *,
    rows: Sequence[str] = (),
    budget: str | None = None,
    refresh: bool = False,
    progress: Progress = False,
) -> Iterator[Outcome]:
    """Measure tables, and yield each when it is complete; pieces of several are measured once.

    Pieces that the folders hold already are not measured again.

    Args:
        folders: run folder of each table by its name, made if need be. ``table.md`` and
            ``table.json`` are written last.
        size: size of the experiment: ``small`` is for a look, ``paper`` is the paper's.
        cell_workers: pool of worker processes; by default this process works alone.
        rows: patterns of the rows to measure, such as ``Fashion-MNIST: DAP_v*`` (``*`` stands for
            any text); by default all.
        budget: time on the clock, such as ``2h``, ``90m`` or ``1h30m``. The missing pieces of all
            tables are then taken cheapest first, and none is begun that would end later by its
            estimate. Tables that are still incomplete are yielded last.
        refresh: whether pieces that an older source of the study measured are measured again.
        progress: True shows how far the work is; see `divulge.Options`.

    Raises:
        SpecError: there is no such table, size or row, or the budget is none.
        DataError: none of the data sets of a table is there; see `divulge_papers.datasets`.
        StoreError: a folder cannot be written, or a piece in it is damaged.
    """
    tables = {folder: find_table(name) for name, folder in folders.items()}
    if size not in get_args(Size):
        raise SpecError(f"expected a size, got {size!r}: {did_you_mean(size, get_args(Size))}")
    for table in tables.values():
        datasets.check_any_there(table.data)
    wanted = _matching_rows(tables.values(), size, rows)
    cell_workers, costs = cell_workers or CellWorkers(1), Costs(tables.values(), size)
    limit = None if budget is None else Budget(budget, costs)
    with ExitStack() as stack:
        for folder in tables:
            stack.enter_context(take_folder(folder))
        run = _Run(dict(folders), tables, size, costs, cell_workers.processes)
        todo = [work for work in run.missing(refresh=refresh) if work.key in wanted]
        if limit is None:
            measured = cell_workers.each(reproduce_cells.measure_piece, todo)
        else:
            todo = limit.cheapest_first(todo)
            measured = cell_workers.in_order(reproduce_cells.measure_piece, todo, limit.allows)
        text = f"Measuring {next(iter(folders)) if len(folders) == 1 else f'{len(folders)} tables'}"
        shown = as_track(progress)(todo, text, len(run.works) - len(todo))
        yield from run.take_up((piece for _, piece in zip(shown, measured, strict=False)), todo)


def _matching_rows(tables: Iterable[Table], size: Size, patterns: Sequence[str]) -> set[str]:
    """Keys of the pieces whose row matches a pattern; of all pieces without patterns.

    Raises:
        SpecError: a pattern matches no row.
    """
    pieces = [(key, row.name) for table in tables for key, row, _ in key_pieces(table, size)]
    names = list(dict.fromkeys(name for _, name in pieces))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise SpecError(
                f"expected a row of the table, got {pattern!r}: {did_you_mean(pattern, names)}; "
                "* stands for any text"
            )
    return {
        key
        for key, name in pieces
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    }


class _Run:
    """Tables of one command, and the pieces of them that are there."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        tables: Mapping[Path, Table],
        size: Size,
        costs: Costs,
        processes: int,
    ) -> None:
        self._folders, self._size, self._costs, self._processes = folders, size, costs, processes
        self._commit = checkout_commit()
        self.works = reproduce_cells.works(tables, size, self._commit, cores())
        self._sources = {work.key: work.made.source for work in self.works}
        self._found: dict[str, Piece] = {}
        stored = {folder: reproduce_cells.read_pieces(folder) for folder in tables}
        for work in self.works:
            there = [stored[folder].get(work.key) for folder in work.folders]
            piece = next((stored_piece for stored_piece in there if stored_piece is not None), None)
            if piece is not None:
                self._keep(
                    piece,
                    [
                        f
                        for f, stored_piece in zip(work.folders, there, strict=True)
                        if not stored_piece
                    ],
                )

    def missing(self, *, refresh: bool) -> list[Work]:
        """Pieces that are not there; with ``refresh`` also those by an older source."""
        return [
            work
            for work in self.works
            if work.key not in self._found or (refresh and self._is_older(self._found[work.key]))
        ]

    def take_up(self, measured: Iterator[Piece], todo: Sequence[Work]) -> Iterator[Outcome]:
        """Store each piece when it comes, and yield each table when it is whole, or last."""
        targets = {work.key: work.folders for work in todo}
        waiting = {
            name: {work.key for work in todo if folder in work.folders}
            for name, folder in self._folders.items()
        }
        yield from self._finish(waiting)
        for piece in measured:
            self._keep(piece, targets[piece.key])
            for keys in waiting.values():
                keys.discard(piece.key)
            yield from self._finish(waiting)
        for name in waiting:
            yield self._save(name)

    def _finish(self, waiting: dict[str, set[str]]) -> Iterator[Outcome]:
        for name in [name for name, keys in waiting.items() if not keys]:
            del waiting[name]
            yield self._save(name)

    def _keep(self, piece: Piece, folders: Sequence[Path]) -> None:
        self._found[piece.key] = piece
        if piece.reason:  # what failed may have been a passing fault, such as data not there
            return
        self._costs.learn(piece)
        for folder in folders:
            reproduce_cells.add_piece(folder, piece)

    def _is_older(self, piece: Piece) -> bool:
        return piece.made.source != self._sources[piece.key]

    def _save(self, name: str) -> Outcome:
        outcome = combine(name, self._size, self._found, self._costs, self._made(name))
        outcome.save(self._folders[name])
        return outcome

    def _made(self, name: str) -> Provenance:
        return Provenance(
            command=f"divulge reproduce {name} --size {self._size}",
            commit=self._commit,
            cores=cores(),
            processes=self._processes,
            date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            cpu_seconds=0.0,
            divulge=version("divulge"),
        )
