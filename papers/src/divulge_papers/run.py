"""Measure the cells of published tables, and store our figures beside the published ones."""

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

from divulge._util.folders import take_folder
from divulge._util.progress import Progress, as_track
from divulge.core import Estimate
from divulge.errors import DataError, SpecError, did_you_mean
from divulge_papers import cells as reproduce_cells
from divulge_papers import datasets, units
from divulge_papers.budget import Budget, Costs
from divulge_papers.cells import Piece, Work, key_pieces
from divulge_papers.controls import add_up
from divulge_papers.pool import AnyCellWorkers, CellWorkers, cores
from divulge_papers.provenance import Provenance, checkout_commit
from divulge_papers.result import NOT_YET, Cell, Completeness, MeasuredPiece, Outcome
from divulge_papers.table import Row, Size, Table, find_table


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
            piece = next((one for one in there if one is not None), None)
            if piece is not None:
                self._keep(
                    piece, [f for f, one in zip(work.folders, there, strict=True) if not one]
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
        outcome = self._outcome(name)
        outcome.save(self._folders[name])
        return outcome

    def _outcome(self, name: str) -> Outcome:
        table = find_table(name)
        keys = list(key_pieces(table, self._size))
        by_row: dict[str, list[Piece]] = {row.name: [] for row in table.rows}
        for key, row, _ in keys:
            by_row[row.name] += [self._found[key]] if key in self._found else []
        there = {row: [piece for piece in own if not piece.reason] for row, own in by_row.items()}
        pieces = [
            MeasuredPiece(row, piece.seed, piece.made)
            for row, own in there.items()
            for piece in own
        ]
        seeds = table.seeds[self._size]
        cells = _cells(table, by_row, seeds)
        return Outcome(
            table=name,
            size=self._size,
            title=table.title,
            source=table.source,
            rows=tuple(by_row),
            columns=table.columns,
            differs=table.differs[self._size],
            cells=cells,
            made=self._provenance(name, math.fsum(piece.made.cpu_seconds for piece in pieces)),
            drawn=table.drawn,
            measures=table.measures,
            differences=_differences(table, by_row, seeds),
            controls=tuple(
                add_up(row, [piece.controls for piece in own]) for row, own in by_row.items() if own
            ),
            intervals=units.describe(
                table,
                [len(own) for own in there.values() if own],
                [cell.units for cell in cells if cell.units and cell.kind != "by definition"],
            ),
            state=Completeness(
                len(pieces),
                len(keys),
                self._costs.core_hours(key for key, *_ in keys if not self._is_there(key)),
                sum(self._is_older(piece) for own in there.values() for piece in own),
            ),
            pieces=tuple(pieces),
        )

    def _is_there(self, key: str) -> bool:
        return key in self._found and not self._found[key].reason

    def _provenance(self, name: str, seconds: float) -> Provenance:
        return Provenance(
            command=f"divulge reproduce {name} --size {self._size}",
            commit=self._commit,
            cores=cores(),
            processes=self._processes,
            date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            cpu_seconds=round(seconds, 1),
            divulge=version("divulge"),
        )


def _cells(table: Table, found: Mapping[str, Sequence[Piece]], seeds: int) -> tuple[Cell, ...]:
    """Cells row by row: each column's mean over units."""
    return tuple(
        _cell(table, row, column, found[row.name], seeds)
        for row in table.rows
        for column in table.columns
    )


def _cell(table: Table, row: Row, column: str, own: Sequence[Piece], seeds: int) -> Cell:
    each = units.row_units(table, own, column)
    paper = row.paper.get(column)
    if reason := next((piece.reason for piece in own if piece.reason), ""):
        return Cell(row.name, column, None, paper, reason)
    if each and column in row.by_definition:
        fixed = _shared_value(units.seed_units(own, column), row.name, column)
        return Cell(row.name, column, fixed, paper, units=len(each), kind="by definition")
    if reason := _lack_of_units(each, whole=len(own) == seeds):
        return Cell(row.name, column, None, paper, reason, single=_single_value(each))
    kind = table.kinds.get(column, "bounded")
    ours = units.estimate(each, kind, *_column_range(table, column))
    spread = units.spread(each) if table.deviations else None
    shown: Literal["mean", "p-value"] = "p-value" if kind == "p-value" else "mean"
    return Cell(row.name, column, ours, paper, "", spread, len(each), shown)


def _differences(
    table: Table, found: Mapping[str, Sequence[Piece]], seeds: int
) -> tuple[Cell, ...]:
    """Cells pair by pair: each column's mean difference over units."""
    return tuple(
        _difference(table, one, other, column, found, seeds)
        for one, other in table.pairs
        for column in table.columns
    )


def _difference(
    table: Table,
    one: str,
    other: str,
    column: str,
    found: Mapping[str, Sequence[Piece]],
    seeds: int,
) -> Cell:
    name, kind = f"{one}, less {other}", table.kinds.get(column, "bounded")
    if kind == "p-value":
        return Cell(name, column, None, None, "p-values have no difference")
    both = {p.seed for p in found[one]} & {p.seed for p in found[other]}
    pieces = ([piece for piece in found[row] if piece.seed in both] for row in (one, other))
    first, second = (units.row_units(table, own, column) for own in pieces)
    each = units.paired_difference(first, second)
    if reason := _lack_of_units(each, whole=len(both) == seeds):
        return Cell(name, column, None, None, reason, single=_single_value(each))
    if column in table.common:
        shared = _shared_value(each, name, column)
        return Cell(name, column, shared, None, units=len(each), kind="by definition")
    low, high = _column_range(table, column)
    # differences of shares are means over a unit's trials
    ours = units.estimate(each, "normal" if kind == "clustered" else kind, low - high, high - low)
    return Cell(name, column, ours, None, units=len(each))


def _shared_value(each: units.Units, name: str, column: str) -> Estimate:
    """Mean that all units have by definition.

    Raises:
        DataError: one differs; then the table is wrong, or pieces of one seed are of two models.
    """
    value, *others = sorted(set(units.means(each)))
    if others:
        raise DataError(
            f"expected one value of {column!r} in all units of {name!r}, got {[value, *others]}: "
            "were pieces of one seed measured on different processors, whose rounding trains "
            "different models? delete those of one of them from pieces.jsonl and measure them anew"
        )
    return Estimate(value, value, value)


def _single_value(each: units.Units) -> float | None:
    """Figure of the only unit; None if there is none."""
    return next(iter(units.means(each)), None)


def _lack_of_units(each: units.Units, *, whole: bool) -> str:
    """Reason why there is no figure; empty where there are enough units."""
    if len(each) >= 2:
        return ""
    if each:
        return "1 unit, of 2 needed"
    return "0 units, of 2 needed" if whole else NOT_YET


def _column_range(table: Table, column: str) -> tuple[float, float]:
    return table.smallest.get(column, 0.0), table.largest.get(column, 1.0)
