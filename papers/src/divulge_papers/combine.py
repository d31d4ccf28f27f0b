"""Combine the measured pieces of a table into figures beside the published ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from divulge.core import Estimate
from divulge.errors import DataError
from divulge_papers import cells as reproduce_cells
from divulge_papers import units
from divulge_papers.budget import Costs
from divulge_papers.cells import Piece, key_pieces
from divulge_papers.controls import add_up
from divulge_papers.figure import NOT_YET, Cell
from divulge_papers.provenance import Provenance
from divulge_papers.result import Completeness, MeasuredPiece, Outcome
from divulge_papers.table import Row, Size, Table, find_table


def combine(
    name: str, size: Size, pieces_by_key: Mapping[str, Piece], costs: Costs, made: Provenance
) -> Outcome:
    """Combine the measured pieces of a table.

    Args:
        name: name of the table.
        size: size of the pieces.
        pieces_by_key: pieces by key, of this table and of others.
        costs: costs that have learned from the pieces.
        made: provenance of the table; its CPU seconds become those of the pieces.
    """
    table = find_table(name)
    by_row: dict[str, list[Piece]] = {row.name: [] for row in table.rows}
    for key, row, _ in key_pieces(table, size):
        by_row[row.name] += [pieces_by_key[key]] if key in pieces_by_key else []
    there = {row: [piece for piece in own if not piece.reason] for row, own in by_row.items()}
    pieces = [
        MeasuredPiece(row, piece.seed, piece.made) for row, own in there.items() for piece in own
    ]
    seeds = table.seeds[size]
    cells = _cells(table, by_row, seeds)
    return Outcome(
        table=name,
        size=size,
        title=table.title,
        source=table.source,
        rows=tuple(by_row),
        columns=table.columns,
        differs=table.differs[size],
        cells=cells,
        made=replace(
            made, cpu_seconds=round(math.fsum(piece.made.cpu_seconds for piece in pieces), 1)
        ),
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
        state=_completeness(table, size, pieces_by_key, costs),
        pieces=tuple(pieces),
    )


def _completeness(
    table: Table, size: Size, pieces: Mapping[str, Piece], costs: Costs
) -> Completeness:
    """How much of a table is measured, and by which source."""
    keys = [key for key, *_ in key_pieces(table, size)]
    measured = [pieces[key] for key in keys if key in pieces and not pieces[key].reason]
    source = reproduce_cells.source_of(table.work)
    return Completeness(
        len(measured),
        len(keys),
        costs.core_hours(key for key in keys if key not in pieces or pieces[key].reason),
        sum(piece.made.source != source for piece in measured),
    )


def _cells(table: Table, pieces: Mapping[str, Sequence[Piece]], seeds: int) -> tuple[Cell, ...]:
    """Cells row by row: each column's mean over units."""
    return tuple(
        _cell(table, row, column, pieces[row.name], seeds)
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
    table: Table, pieces: Mapping[str, Sequence[Piece]], seeds: int
) -> tuple[Cell, ...]:
    """Cells pair by pair: each column's mean difference over units."""
    return tuple(
        _difference(table, first, other, column, pieces, seeds)
        for first, other in table.pairs
        for column in table.columns
    )


def _difference(
    table: Table,
    first_row: str,
    second_row: str,
    column: str,
    pieces_by_row: Mapping[str, Sequence[Piece]],
    seeds: int,
) -> Cell:
    name, kind = f"{first_row}, less {second_row}", table.kinds.get(column, "bounded")
    if kind == "p-value":
        return Cell(name, column, None, None, "p-values have no difference")
    # units of a seed pair up only where both rows have that seed
    both = {p.seed for p in pieces_by_row[first_row]} & {p.seed for p in pieces_by_row[second_row]}
    pieces = (
        [piece for piece in pieces_by_row[row] if piece.seed in both]
        for row in (first_row, second_row)
    )
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
