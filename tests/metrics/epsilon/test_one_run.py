import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from divulge.metrics.epsilon import curves, one_run


def most_likely(epsilon: float, delta: float, records: int, guesses: int, hits: int) -> float:
    """The largest P(W ≥ hits) that the inequalities of all tails allow: a linear programme."""
    count = np.arange(guesses + 1)
    rows, limits = [], []
    for j in range(1, guesses + 1):
        right = count * (count >= j)
        wrong = (guesses - count) * (count >= j - 1)
        rows += [right - math.exp(epsilon) * wrong]
        limits += [records * delta]
        # the other branch of the curve: 1 - right ≥ e^-ε (1 - δ - wrong), times the records
        rows += [right - math.exp(-epsilon) * wrong]
        limits += [records * (1 - math.exp(-epsilon) * (1 - delta))]
    found = optimize.linprog(
        -(count >= hits).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, guesses + 1)),
        b_eq=[1.0],
    )
    assert found.fun is not None
    return float(-found.fun)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.02])
@pytest.mark.parametrize(("records", "guesses", "hits"), [(12, 8, 7), (12, 12, 9), (40, 15, 15)])
def test_the_recursion_solves_the_linear_programme(
    epsilon: float, delta: float, records: int, guesses: int, hits: int
) -> None:
    most = most_likely(epsilon, delta, records, guesses, hits)
    curve = curves.approximate_dp_curve(epsilon, delta)
    if most < 0.99:
        assert one_run.is_rarer(curve, records, guesses, hits, most * 1.001)
    assert not one_run.is_rarer(curve, records, guesses, hits, most * 0.999)


@pytest.mark.parametrize("guesses", [1, 7, 100])
@pytest.mark.parametrize("epsilon", [0.0, 1.3])
def test_without_delta_the_tail_is_the_binomials(guesses: int, epsilon: float) -> None:
    for hits in range(guesses + 1):
        tail = one_run.steinke_tail_bound(epsilon, 0.0, 2 * guesses, guesses, hits)
        exact = stats.binom.sf(hits - 1, guesses, special.expit(epsilon))
        assert tail == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-5, 1e-3])
@pytest.mark.parametrize(("guesses", "hits"), [(30, 25), (200, 150), (200, 120), (200, 3)])
def test_the_price_of_delta_is_the_papers(delta: float, guesses: int, hits: int) -> None:
    """Theorem 5.2 as it stands, over every number of exceptions."""
    chance = special.expit(0.5)
    beta = stats.binom.sf(hits - 1, guesses, chance)
    alpha = max(
        (stats.binom.sf(hits - i - 1, guesses, chance) - beta) / i for i in range(1, hits + 1)
    )
    found = one_run.steinke_tail_bound(0.5, delta, 500, guesses, hits)
    assert found == pytest.approx(min(1.0, beta + 2 * 500 * delta * alpha), rel=1e-6)


@pytest.mark.parametrize("chance", [0.002, 0.03, 0.2])
@pytest.mark.parametrize("guesses", [10, 60])
def test_records_that_leak_together_are_within_the_bound(chance: float, guesses: int) -> None:
    """In a few runs all guesses are right with odds e^ε, else half are: exact, and private for μ.

    The corner of its trade-off curve lies on that of the noise, so no bound may refute it.
    """
    epsilon = 1.5
    right = float(special.expit(epsilon))
    mu = float(special.ndtri(chance * right) - special.ndtri(chance * (1 - right)))
    for hits in range(1, guesses + 1):
        tail = chance * stats.binom.sf(hits - 1, guesses, right)
        tail += (1 - chance) * stats.binom.sf(hits - 1, guesses, 0.5)
        assert not one_run.is_rarer(
            curves.gaussian_dp_curve(mu), guesses, guesses, hits, tail * 0.999
        )


def test_independent_noise_is_within_the_bound() -> None:
    mu = 0.9
    right = float(special.ndtr(mu / 2))
    for guesses in (5, 50):
        for hits in range(1, guesses + 1):
            tail = stats.binom.sf(hits - 1, guesses, right)
            assert not one_run.is_rarer(
                curves.gaussian_dp_curve(mu), guesses, guesses, hits, tail * 0.999
            )
