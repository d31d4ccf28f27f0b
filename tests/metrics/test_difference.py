"""Differences of figures: DeLong's covariance by pairs, and how often intervals hold the truth."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from divulge.core import Estimate
from divulge.metrics.difference import auc_correlation, subtract
from divulge.metrics.membership import auc


def slow_correlation(later: np.ndarray, earlier: np.ndarray, member: np.ndarray) -> float:
    """DeLong's equations, pair by pair."""

    def covariance(one: np.ndarray, other: np.ndarray) -> float:
        total = 0.0
        for side in (0, 1):
            parts = []
            for score in (one, other):
                inside, outside = score[member], score[~member]
                wins = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in outside] for a in inside]
                parts.append(np.array(wins).mean(1 - side))
            total += float(np.cov(*parts)[0, 1]) / len(parts[0])
        return total

    shared = covariance(later, earlier)
    return shared / math.sqrt(covariance(later, later) * covariance(earlier, earlier))


@pytest.mark.parametrize("seed", range(3))
def test_the_correlation_is_that_of_delongs_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(30) < 13)
    shared = rng.normal(size=30)
    one, other = (np.round(shared + rng.normal(size=30) + member, 1) for _ in range(2))
    assert auc_correlation(one, other, member) == pytest.approx(
        slow_correlation(one, other, member), abs=1e-12
    )


def test_an_auc_goes_with_itself_and_one_that_cannot_vary_with_nothing() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(40) < 20
    score = rng.normal(size=40)
    assert auc_correlation(score, score, member) == pytest.approx(1.0)
    assert auc_correlation(score, -score, member) == pytest.approx(-1.0)
    assert auc_correlation(score, np.zeros(40), member) == 0.0
    assert auc_correlation(score, member.astype(float), member) == 0.0


def test_a_difference_of_independent_figures_is_wider_than_each_and_turns_round() -> None:
    one, other = Estimate(0.7, 0.6, 0.75), Estimate(0.6, 0.55, 0.7)
    less, more = subtract(one, other), subtract(other, one)
    assert less.value == pytest.approx(-more.value)
    assert less.high is not None
    assert more.high is not None
    assert (less.low, less.high) == pytest.approx((-more.high, -more.low))
    assert less.value - less.low == pytest.approx(math.hypot(0.1, 0.1))
    same = subtract(one, one, 1.0)
    assert same.value == 0.0
    assert same.low == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("shared", "shifts"),
    [(0.0, (0.5, 1.0)), (0.9, (0.5, 1.0)), (0.9, (0.0, 0.0)), (0.5, (3.0, 2.5))],
)
def test_the_interval_of_a_difference_covers_as_promised(
    shared: float, shifts: tuple[float, float]
) -> None:
    rng, tries, size = np.random.default_rng(7), 300, 80
    member = np.arange(2 * size) < size
    truths = [NormalDist().cdf(shift / math.sqrt(2)) for shift in shifts]
    hits = 0
    for _ in range(tries):
        common = math.sqrt(shared) * rng.normal(size=2 * size)
        one, other = (
            common + math.sqrt(1 - shared) * rng.normal(size=2 * size) + shift * member
            for shift in shifts
        )
        less = subtract(auc(other, member), auc(one, member), auc_correlation(other, one, member))
        hits += truths[1] - truths[0] in less
    # 95 % less four standard errors of 300 tries: 90 %
    assert hits / tries >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / tries)
