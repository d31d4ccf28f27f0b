import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from divulge.metrics.intervals import (
    Interval,
    bounded_mean,
    clopper_pearson,
    clustered_proportion,
    combine_intervals,
    lower_limit,
    normal_quantile,
    simultaneous_confidence,
    student_mean,
    student_mean_within,
    wilson,
)
from tests.slow import slow


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (5, 10), (10, 10), (37, 1000)])
def test_clopper_pearson_and_wilson_agree_with_scipy(hits: int, trials: int) -> None:
    reference = stats.binomtest(hits, trials)
    exact = reference.proportion_ci(method="exact")
    assert clopper_pearson(hits, trials) == pytest.approx((exact.low, exact.high))
    score = reference.proportion_ci(method="wilson")
    assert wilson(hits, trials) == pytest.approx((score.low, score.high))


def test_the_lower_limit_is_wrong_as_often_as_it_says() -> None:
    limit = lower_limit(8, 10, 0.05)
    assert stats.binom.sf(7, 10, limit) == pytest.approx(0.05)


def test_independent_reasons_add_in_quadrature() -> None:
    parts = Interval(0.2, 0.9), Interval(0.1, 0.8)
    low, high = combine_intervals(0.5, *parts)
    assert low == pytest.approx(0.5 - (0.3**2 + 0.4**2) ** 0.5)
    assert high == pytest.approx(0.5 + (0.4**2 + 0.3**2) ** 0.5)


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (0, 8), (3, 8), (8, 8), (59, 60)])
def test_the_interval_of_bounded_values_is_exact_for_zeros_and_ones(hits: int, trials: int) -> None:
    values = [1.0] * hits + [0.0] * (trials - hits)
    assert bounded_mean(values) == pytest.approx(clopper_pearson(hits, trials), abs=1e-6)


@given(st.lists(st.integers(-10, 10).map(lambda k: k / 10), min_size=1, max_size=6))
def test_the_interval_of_bounded_values_is_that_of_random_weights(values: list[float]) -> None:
    low, high = bounded_mean(values, -1.0, 1.0)
    assert -1 <= low <= np.mean(values) + 1e-6
    assert np.mean(values) - 1e-6 <= high <= 1
    weights = np.random.default_rng(0).dirichlet(np.ones(len(values) + 1), 4000)
    # of 4000 draws 2.5 % lie beyond each limit: four standard errors either way
    slack = 4 * (0.025 * 0.975 / 4000) ** 0.5
    if high - min(values) > 1e-3:
        assert (weights @ [*values, 1.0] <= high + 1e-6).mean() > 0.975 - slack
        assert (weights @ [*values, 1.0] < high - 1e-4).mean() < 0.975 + slack
    if max(values) - low > 1e-3:
        assert (weights @ [*values, -1.0] >= low - 1e-6).mean() > 0.975 - slack
        assert (weights @ [*values, -1.0] > low + 1e-4).mean() < 0.975 + slack


@pytest.mark.parametrize("n", [5, slow(10), slow(24)])
@pytest.mark.parametrize("odd", [0.0, 0.5, 0.9])
def test_the_interval_of_bounded_values_covers_near_the_end(n: int, odd: float) -> None:
    """One in ten is odd, the rest are 1: Student's interval covers 42 to 92 % there."""
    rng, runs = np.random.default_rng(0), 400
    drawn = np.where(rng.random((runs, n)) < 0.1, odd, 1.0)
    truth = 0.9 + 0.1 * odd
    covered = np.mean([low <= truth <= high for low, high in map(bounded_mean, drawn.tolist())])
    assert covered > 0.95 - 3 * (0.95 * 0.05 / runs) ** 0.5


def test_values_that_do_not_differ_leave_the_doubt_of_any_distribution() -> None:
    assert student_mean_within([0.5] * 3, 0.0, 1.0) == bounded_mean([0.5] * 3)
    rounded = [0.1 + 0.2, 0.3, 0.3]
    assert student_mean_within(rounded, 0.0, 1.0) == bounded_mean(rounded)
    low, high = student_mean([0.1, 0.9, 0.8])
    assert student_mean_within([0.1, 0.9, 0.8], 0.0, 1.0) == (max(0.0, low), min(1.0, high))


def test_groups_alike_with_different_trials_are_worth_all_their_trials() -> None:
    trials = np.full(5, 73)
    assert clustered_proportion(np.full(5, 46), trials) == pytest.approx(
        clopper_pearson(5 * 46, 5 * 73)
    )
    # one hit more changes little: neither limit jumps
    other = clustered_proportion(np.array([47, 46, 46, 46, 46]), trials)
    assert other == pytest.approx(clopper_pearson(5 * 46, 5 * 73), abs=0.01)


def _correlated(size: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(size, size)) + 1.0
    return drawn @ drawn.T


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_intervals_hold_at_once_by_scipys_multivariate_normal(size: int, seed: int) -> None:
    covariance = _correlated(size, seed)
    limit = normal_quantile(simultaneous_confidence(covariance)) * np.sqrt(np.diag(covariance))
    law = stats.multivariate_normal(cov=covariance)
    held = law.cdf(limit, lower_limit=-limit, rng=np.random.default_rng(0))
    # the draws' standard error, and SciPy's own error
    assert held == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 1e5) ** 0.5 + 1e-4)


@given(st.integers(1, 8), st.integers(0, 99))
def test_intervals_that_hold_at_once_lie_between_their_own_and_bonferronis(
    size: int, seed: int
) -> None:
    found = simultaneous_confidence(_correlated(size, seed), 0.9)
    assert 0.9 <= found <= 1 - 0.1 / size


def test_figures_without_variance_count_as_independent() -> None:
    sidak = 0.95 ** (1 / 3)
    for covariance in (np.eye(3), np.diag([1.0, 0.0, 4.0]), np.zeros((3, 3))):
        assert simultaneous_confidence(covariance) == pytest.approx(sidak, abs=3e-4)
    assert simultaneous_confidence(np.ones((3, 3))) == pytest.approx(0.95, abs=2e-3)
