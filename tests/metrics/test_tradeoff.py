"""AOP: its range, what it equals where nothing leaks, and an interval that holds what it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from divulge.core import Estimate
from divulge.errors import SpecError
from divulge.metrics import membership
from divulge.metrics.intervals import clopper_pearson
from divulge.metrics.utility import aop, aop_estimate

rates = st.floats(0, 1)
weights = st.floats(0, 50)


@given(rates, rates, weights)
def test_it_lies_between_what_is_left_of_accuracy_and_accuracy(
    accuracy: float, auc: float, weight: float
) -> None:
    # one rounding of the power, one of the product
    assert accuracy * 0.5**weight * (1 - 1e-12) <= aop(accuracy, auc, weight) <= accuracy


@given(rates, st.floats(0, 0.5), weights)
def test_it_is_accuracy_where_the_attack_is_no_better_than_chance(
    accuracy: float, auc: float, weight: float
) -> None:
    assert aop(accuracy, auc, weight) == accuracy


@given(rates, rates, weights, weights)
def test_it_falls_as_privacy_counts_more(
    accuracy: float, auc: float, one: float, other: float
) -> None:
    assert aop(accuracy, auc, max(one, other)) <= aop(accuracy, auc, min(one, other))


@given(rates, rates, rates, rates, weights)
def test_it_rises_with_accuracy_and_falls_with_the_attack(
    accuracy: float, more: float, auc: float, worse: float, weight: float
) -> None:
    low, high = sorted((accuracy, more))
    weak, strong = sorted((auc, worse))
    assert aop(low, strong, weight) <= aop(high, weak, weight)


@pytest.mark.parametrize(
    ("accuracy", "auc", "printed"),
    [(0.784, 0.648, 0.467), (0.932, 0.552, 0.765), (0.871, 0.506, 0.850), (0.418, 0.503, 0.413)],
)
def test_it_gives_what_the_paper_prints(accuracy: float, auc: float, printed: float) -> None:
    # accuracy and AUC are printed with three digits, each off by 5e-4 at most
    assert aop(accuracy, auc) == pytest.approx(printed, abs=5e-4 + 5e-4 + 4 * 5e-4)


def test_what_is_no_rate_is_refused() -> None:
    for accuracy, auc, weight in (
        (80.0, 0.5, 2.0),
        (0.8, -0.1, 2.0),
        (0.8, 0.5, -1.0),
        (np.nan, 0.5, 2.0),
    ):
        with pytest.raises(SpecError, match="rates, and not percentages"):
            aop(accuracy, auc, weight)
    with pytest.raises(SpecError, match="two ends"):
        aop_estimate(Estimate(0.8, 0.7, None), Estimate(0.6, 0.5, 0.7))


@given(rates, rates, rates, rates, rates, rates, weights)
def test_the_interval_holds_the_value_and_grows_with_its_parts(
    a: float, b: float, c: float, d: float, e: float, f: float, weight: float
) -> None:
    (low, value, high), (worst, auc, best) = sorted((a, b, c)), sorted((d, e, f))
    accuracy, attack = Estimate(value, low, high), Estimate(auc, worst, best)
    found = aop_estimate(accuracy, attack, weight)
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    alone = aop_estimate(accuracy, Estimate(auc, auc, auc), weight)
    assert alone.high is not None
    slack = 1e-12  # of the square root
    assert found.low - slack <= alone.low
    assert alone.high <= found.high + slack


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    accuracy, shift, records, trials = 0.7, 0.5, 300, 400
    auc = float(stats.norm.cdf(shift / np.sqrt(2)))
    member = np.arange(2 * records) < records
    covered = 0
    for _ in range(trials):
        hits = int(rng.binomial(records, accuracy))
        right = Estimate(hits / records, *clopper_pearson(hits, records))
        score = rng.normal(size=2 * records) + shift * member
        covered += aop(accuracy, auc) in aop_estimate(right, membership.auc(score, member))
    # fewer would be seen in one of a thousand choices of the seed, were it 95 %
    assert covered >= stats.binom.ppf(1e-3, trials, 0.95)
