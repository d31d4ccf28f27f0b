"""Combine the stored values of a row into one figure with an interval over units."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from divulge.core import Estimate
from divulge.metrics import intervals, permutation
from divulge_papers.cells import Piece
from divulge_papers.table import IntervalKind, Table

Units = Mapping[Any, Sequence[float]]
"""Values by unit: one a seed in a nested table, otherwise one a trial."""

_KINDS: Mapping[IntervalKind, str] = {
    "bounded": "an interval for any distribution in the range (Gaffke)",
    "clustered": "the interval of a share of trials that come in groups (Korn and Graubard)",
    "normal": "Student's interval",
    "p-value": "p-values combined (Fisher), which have no interval",
}


def row_units(table: Table, pieces: Sequence[Piece], column: str) -> Units:
    """Collect the units of one column of one row.

    Args:
        table: table that defines the units.
        pieces: measured pieces of the row, one a seed.
        column: name of the column.
    """
    if column in table.pooled:
        each = {part: row_units(table, pieces, part) for part in table.pooled[column]}
        return {(part, unit): values for part, own in each.items() for unit, values in own.items()}
    of_seeds = seed_units(pieces, column)
    if not table.nested:
        return of_seeds
    return dict(enumerate(zip(*of_seeds.values(), strict=True)))


def seed_units(pieces: Sequence[Piece], column: str) -> Units:
    """Collect the values of each seed in one column of one row."""
    return {piece.seed: piece.values[column] for piece in pieces if piece.values.get(column)}


def paired_difference(first: Units, second: Units) -> Units:
    """Difference of the means of each unit that both have, first less second."""
    both = [unit for unit in first if unit in second]
    return {unit: (float(np.mean(first[unit]) - np.mean(second[unit])),) for unit in both}


def means(units: Units) -> list[float]:
    """Mean of each unit's values."""
    return [float(np.mean(values)) for values in units.values()]


def estimate(units: Units, kind: IntervalKind, smallest: float, largest: float) -> Estimate:
    """Estimate the mean over units with a 95 % interval, or the p-value of all of them together.

    The kind belongs to the column and is chosen before anything is measured, never by the values:

    * ``bounded``: a unit's figure may lie anywhere in the range, as the AUC of one user;
    * ``clustered``: a unit holds many trials, each a value in [0, 1], and units are few;
    * ``normal``: a unit's figure is a mean over hundreds, or a distance;
    * ``p-value``: units are independent tests of the same.

    Args:
        units: two units or more.
        kind: kind of interval of the column.
        smallest: lower bound of a unit's figure.
        largest: upper bound of a unit's figure.
    """
    each = means(units)
    if kind == "p-value":
        combined = permutation.combine_p_values(each)
        return Estimate(combined, combined, combined)
    if kind == "clustered":
        trials = np.array([len(values) for values in units.values()])
        sums = np.array([float(np.sum(values)) for values in units.values()])
        return Estimate(
            float(sums.sum() / trials.sum()), *intervals.clustered_proportion(sums, trials)
        )
    limits = intervals.bounded_mean if kind == "bounded" else intervals.student_mean_within
    return Estimate(float(np.mean(each)), *limits(each, smallest, largest))


def spread(units: Units) -> float:
    """Standard deviation over units."""
    return float(np.std(means(units), ddof=1))


def describe(table: Table, seeds: Sequence[int], counts: Sequence[int]) -> str:
    """Describe in sentences what the intervals of a table are over.

    Args:
        table: table to describe.
        seeds: numbers of measured seeds of the rows.
        counts: numbers of units of the cells that have an interval; empty where none has.
    """
    if not counts:
        return "No row has two units yet, so there is no interval."
    averaged = table.nested and max(seeds) > 1
    nested = f", and {_range(seeds)} seeds are averaged within each" if averaged else ""
    kinds: dict[IntervalKind, list[str]] = {}
    for column in table.columns:
        kinds.setdefault(table.kinds.get(column, "bounded"), []).append(column)
    how = "; ".join(
        f"{', '.join(columns)}: {_KINDS[kind]}" if len(kinds) > 1 else _KINDS[kind]
        for kind, columns in kinds.items()
    )
    over = f"{_range(counts)} {table.units}{nested}"
    return f"95 % intervals are over {over}. {how[0].upper()}{how[1:]}."


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"
