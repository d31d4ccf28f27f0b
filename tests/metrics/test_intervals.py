import pytest
from scipy import stats

from divulge.metrics.intervals import Interval, clopper_pearson, combine, lower_limit, wilson


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
    low, high = combine(0.5, *parts)
    assert low == pytest.approx(0.5 - (0.3**2 + 0.4**2) ** 0.5)
    assert high == pytest.approx(0.5 + (0.4**2 + 0.3**2) ** 0.5)
