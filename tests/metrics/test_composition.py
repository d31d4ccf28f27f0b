"""Distances and null classes against their definitions; intervals against what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import Proportions
from divulge.errors import DataError
from divulge.metrics import composition, intervals

PAPER = (0.047, 0.198, 0.238, 0.261, 0.269, 0.239, 0.352, 0.183, 0.061, 0.0)
"""L1 of each of ten clients in the paper's table III: what such distances look like."""


def of(*counts: int) -> Proportions:
    return Proportions.of(np.array(counts))


@given(st.integers(0, 10**6))
def test_distances_are_ordered_bounded_and_zero_only_for_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (Proportions.of(np.append(rng.integers(0, 3, 4), 1)) for _ in range(2))
    found = composition.distance(one, other)
    assert 0 <= found["linf"] <= found["l2"] <= found["l1"] <= 2 + 1e-12
    assert found["l1"] >= 2 * found["linf"] - 1e-12  # what one class gains the others lose
    assert (found["l1"] == 0) == bool((one.share == other.share).all())
    assert found == composition.distance(other, one)


def test_means_over_clients_come_with_students_interval() -> None:
    guesses, truths = [of(1, 1), of(1, 3), of(1, 0)], [of(1, 1), of(1, 1), of(1, 1)]
    found = composition.distances(guesses, truths)
    assert found["l1"].value == pytest.approx((0 + 0.5 + 1) / 3)
    low, high = intervals.student_mean([0.0, 0.5, 1.0])
    assert (found["l1"].low, found["l1"].high) == (max(low, 0), high)


def test_null_classes_are_counted_by_class_and_client() -> None:
    truths = [of(1, 0, 0), of(0, 1, 1), of(1, 1, 1)]
    guesses = [of(1, 1, 0), of(0, 1, 1), of(1, 1, 0)]
    found, unmeasured = composition.measure_null_classes(guesses, truths)
    assert found["null_accuracy"].value == pytest.approx(7 / 9)
    assert found["null_precision"].value == pytest.approx(2 / 3)
    assert found["null_recall"].value == pytest.approx(2 / 3)
    assert not unmeasured
    assert all(one.low <= one.value <= (one.high or 0) for one in found.values())


def test_what_no_client_shows_is_unmeasured_and_says_why() -> None:
    everything = [of(1, 1), of(2, 1)]
    found, unmeasured = composition.measure_null_classes(everything, everything)
    assert set(found) == {"null_accuracy"}
    assert "null classes in two clients" in unmeasured["null_recall"]


def test_shares_of_other_classes_are_refused() -> None:
    with pytest.raises(DataError, match="3 classes, got 2"):
        composition.distance(of(1, 1), of(1, 1, 1))
    with pytest.raises(DataError, match="sum to 1"):
        Proportions(np.array([0.5, 0.6]), np.zeros(2, np.bool_))
    with pytest.raises(DataError, match="got none"):
        of(0, 0)


def test_the_interval_of_a_mean_distance_covers_it_about_as_often_as_promised() -> None:
    """Ten clients drawn from the paper's own ten distances, skewed as they are."""
    rng, runs = np.random.default_rng(0), 4000
    drawn = rng.choice(PAPER, (runs, len(PAPER)))
    covered = sum(
        low <= np.mean(PAPER) <= high for low, high in map(intervals.student_mean, drawn.tolist())
    )
    # Student's interval is exact for normal values; for these it is 1.5 points short at most
    assert covered / runs > 0.935 - 3 * (0.95 * 0.05 / runs) ** 0.5


@pytest.mark.parametrize(
    ("alike", "share", "promised"), [(1.0, 0.7, 0.94), (10.0, 0.9, 0.94), (1.0, 0.9, 0.92)]
)
def test_the_interval_of_grouped_trials_covers_as_often_as_promised(
    alike: float, share: float, promised: float
) -> None:
    rng, runs, groups, each = np.random.default_rng(1), 1000, 10, 10
    covered = 0
    for _ in range(runs):
        chances = rng.beta(share * alike, (1 - share) * alike, groups)
        hits = rng.binomial(each, chances)
        low, high = intervals.clustered_proportion(hits, np.full(groups, each))
        covered += low <= share <= high
    assert covered / runs > promised - 3 * (promised * (1 - promised) / runs) ** 0.5


def test_groups_that_do_not_vary_count_once_each() -> None:
    low, high = intervals.clustered_proportion(np.full(3, 10), np.full(3, 10))
    exact = intervals.clopper_pearson(3, 3)
    assert (low, high) == pytest.approx(exact)
