"""A unit counts once, whatever its seeds and trials; intervals over units keep their promise."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from divulge.errors import DataError
from divulge.metrics import intervals
from divulge_papers import combine, units
from divulge_papers.cells import Piece
from divulge_papers.controls import RowControls
from divulge_papers.figure import figure
from divulge_papers.provenance import Measurement
from divulge_papers.table import IntervalKind, Row, Table
from papers.tests import trial


def piece(row: str, seed: int, values: dict[str, list[float]]) -> Piece:
    made = Measurement("0", "", "", 2)
    return Piece(f"{row} {seed}", row, seed, values, "", RowControls(row, 0), made)


def pieces(*by_seed: list[float]) -> list[Piece]:
    return [piece("row", seed, {"one": values}) for seed, values in enumerate(by_seed)]


def table(**changes: object) -> Table:
    return dataclasses.replace(trial.TABLE, **changes)  # type: ignore[arg-type]


def test_seeds_are_averaged_within_a_unit() -> None:
    found = units.row_units(table(), pieces([0.0, 0.4], [0.2, 0.6]), "one")
    assert units.means(found) == pytest.approx([0.1, 0.5])
    one = units.estimate(found, "normal", 0.0, 1.0)
    known = stats.ttest_1samp([0.1, 0.5], 0.0).confidence_interval()
    assert (one.low, one.high) == (max(0.0, known.low), min(1.0, known.high))


def test_a_seed_that_draws_everything_anew_is_a_unit() -> None:
    apart = table(nested=False)
    found = units.row_units(apart, pieces([0.0, 1.0], [], [1.0, 1.0]), "one")
    assert found == {0: [0.0, 1.0], 2: [1.0, 1.0]}  # the one in between was not measured
    one = units.estimate(found, "clustered", 0.0, 1.0)
    limits = intervals.clustered_proportion(np.array([1, 2]), np.array([2, 2]))
    assert (one.value, one.low, one.high) == (0.75, *limits)


def test_differences_are_of_the_units_that_both_have() -> None:
    apart = table(nested=False)
    one = units.row_units(apart, pieces([0.5, 0.7], [0.9], [0.1]), "one")
    other = units.row_units(apart, pieces([0.1], [], [0.2]), "one")
    assert units.means(units.paired_difference(one, other)) == pytest.approx([0.5, -0.1])


def test_a_pooled_column_has_the_units_of_all_its_columns() -> None:
    pooled = table(columns=("one", "two", "all"), pooled={"all": ("one", "two")})
    each = [piece("row", seed, {"one": [0.0, 1.0], "two": [0.5, 0.7, 0.9]}) for seed in (0, 1)]
    assert units.means(units.row_units(pooled, each, "all")) == [0.0, 1.0, 0.5, 0.7, 0.9]


def test_pooled_columns_differ_by_the_same_unit_of_the_same_column() -> None:
    pooled = table(columns=("one", "two", "all"), pooled={"all": ("one", "two")})
    many, few = (
        units.row_units(pooled, [piece("row", 0, values)], "all")
        for values in (
            {"one": [0.9, 0.8, 0.7], "two": [0.6, 0.5, 0.4]},
            {"one": [0.1], "two": [0.2, 0.3]},
        )
    )
    assert units.means(units.paired_difference(many, few)) == pytest.approx([0.8, 0.4, 0.2])


def test_p_values_of_units_are_combined_and_not_averaged() -> None:
    found = units.row_units(table(nested=False), pieces([0.04], [0.2], [0.01]), "one")
    combined = stats.combine_pvalues([0.04, 0.2, 0.01], method="fisher").pvalue
    assert units.estimate(found, "p-value", 0.0, 1.0).value == pytest.approx(combined)


def test_pairs_and_what_is_so_by_definition() -> None:
    rows = (Row("low", {"offset": 0.0}, by_definition=("other",)), Row("high", {"offset": 0.25}))
    two = table(rows=rows, pairs=(("high", "low"),), columns=("one", "other"), common=())
    found = {
        row.name: [
            piece(row.name, seed, {column: list(each) for column, each in values.items()})
            for seed in range(2)
            for values in [trial.work(seed, "small", offset=offset).values]
        ]
        for row, offset in zip(rows, (0.0, 0.25), strict=True)
    }
    cells = {(cell.row, cell.column): cell for cell in combine._cells(two, found, 2)}
    assert cells["low", "other"].kind == "by definition"
    assert cells["high", "other"].kind == "mean"
    one, _ = combine._differences(two, found, 2)
    assert one.row == "high, less low"
    # both units differ by a quarter: nothing says how much others may, so it is no point
    assert one.ours is not None
    assert one.ours.value == pytest.approx(0.25)
    assert one.ours.low < 0.25 < (one.ours.high or 0.25)
    shared = dataclasses.replace(two, common=("other",))
    found["high"] = [
        dataclasses.replace(p, values=p.values | {"other": [0.0, 0.0]}) for p in found["high"]
    ]
    assert combine._differences(shared, found, 2)[1].kind == "by definition"
    wrong = dataclasses.replace(two, rows=(dataclasses.replace(rows[0], by_definition=("one",)),))
    with pytest.raises(DataError, match="expected one value of 'one' in all units of"):
        combine._cells(wrong, found, 2)


def test_units_may_differ_where_their_share_is_fixed() -> None:
    """A constant guess is right about some candidates of every federation, not about others."""
    fixed = table(rows=(Row("nobody", {}, by_definition=("one",)),), columns=("one",), common=())
    found = {"nobody": pieces([1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0])}
    (cell,) = combine._cells(fixed, found, 2)
    assert (cell.kind, cell.units) == ("by definition", 4)
    assert cell.ours is not None
    assert cell.ours.value == 0.75


def test_a_single_unit_has_a_figure_without_an_interval() -> None:
    """Its figure is shown, and nothing is concluded from it."""
    rows = (Row("low", {}, {"one": 0.2}), Row("high", {}))
    two = table(rows=rows, pairs=(("high", "low"),), columns=("one",), common=(), nested=False)
    found = {row: [piece(row, 0, {"one": [value]})] for row, value in (("low", 0.2), ("high", 0.5))}
    low, high = combine._cells(two, found, 3)
    assert low.paper == low.single == 0.2
    assert (low.ours, low.covers, low.difference) == (None, False, None)
    assert figure(low) == "0.200 of one unit, no interval"
    assert figure(high) == "0.500 of one unit, no interval"
    (less,) = combine._differences(two, found, 3)
    assert less.ours is None
    assert less.single == pytest.approx(0.3)
    found = {row: [*own, piece(row, 1, {"one": [0.4]})] for row, own in found.items()}
    assert all(cell.single is None and cell.ours for cell in combine._cells(two, found, 3))


@pytest.mark.parametrize("alike", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("kind", ["normal", "bounded"])
def test_intervals_over_users_cover_however_alike_their_seeds_are(
    kind: IntervalKind, alike: float
) -> None:
    """Ten users of two seeds each. Pooling users and seeds covered 90, 87 and 84 %."""
    rng, runs, covered = np.random.default_rng(0), 400, 0
    for _ in range(runs):
        own = rng.normal(0, alike**0.5, (10, 1)) + rng.normal(0, (1 - alike) ** 0.5, (10, 2))
        seeds = dict(enumerate(np.clip(0.5 + 0.12 * own, 0, 1).tolist()))
        covered += 0.5 in units.estimate(seeds, kind, 0.0, 1.0)
    # three standard errors of a coverage of exactly 95 %
    assert covered / runs > 0.95 - 3 * (0.95 * 0.05 / runs) ** 0.5


def test_a_difference_is_of_the_seeds_that_both_rows_have() -> None:
    rows = (Row("low", {}), Row("high", {}))
    two = table(rows=rows, pairs=(("high", "low"),), columns=("one",), common=())
    low = [piece("low", seed, {"one": [0.1 + seed, 0.2 + seed]}) for seed in range(3)]
    found = {"low": low, "high": [piece("high", 0, {"one": [0.4, 0.5]})]}
    (one,) = combine._differences(two, found, 3)
    assert one.ours is not None
    assert one.ours.value == pytest.approx(0.3)
    assert one.units == 2


def test_what_intervals_are_over_is_said() -> None:
    said = units.describe(table(), [2, 2], [10, 10])
    assert said.startswith(
        "95 % intervals are over 10 values, and 2 seeds are averaged within each."
    )
    assert "One: Student's interval; other, none: an interval for any distribution" in said
