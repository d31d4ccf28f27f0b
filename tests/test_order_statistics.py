"""The bound that divulge's bounds on ε are compared with, and the mechanism that breaks it."""

from functools import partial

import numpy as np
import pytest
from scipy import special, stats

from benchmarks import epsilon_mechanisms as mechanisms
from benchmarks import order_statistics
from divulge.metrics.epsilon import epsilon_lower_bound


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_tail_is_that_of_drawn_order_statistics(mu: float) -> None:
    records, released, runs = 100, 30, 20_000
    rng = np.random.default_rng(0)
    distance = np.abs(rng.normal(size=(runs, records)) + mu / 2)  # from the middle of both means
    surest = np.partition(distance, records - released)[:, records - released :]
    errors = (rng.random(surest.shape) < special.expit(-mu * surest)).sum(1)
    for few in np.quantile(errors, [0.05, 0.5]).astype(int):
        drawn = float(np.mean(errors <= few))
        error = partial(order_statistics.gaussian_error, mu)
        found = order_statistics.tail(error, records, released, int(few))
        assert found == pytest.approx(drawn, abs=5 * (drawn * (1 - drawn) / runs) ** 0.5)


def test_noise_of_one_size_is_as_private_for_each_record_as_noise_of_its_own() -> None:
    mu, runs = 1.0, 4000
    member = np.array([True, False])
    alike = [mechanisms.alike(np.random.default_rng(k), member, mu) for k in range(runs)]
    inside, outside = np.array(alike).T
    assert stats.kstest(inside, stats.norm(mu / 2).cdf).pvalue > 1e-3
    assert stats.kstest(outside, stats.norm(-mu / 2).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_records_that_leak_together_break_it_and_not_the_bound_that_supposes_nothing() -> None:
    """Each record is published with probability .01; 5 % of all, in a fifth of the runs."""
    runs, theirs, ours = 100, 0, 0
    for k in range(runs):
        rng = np.random.default_rng(k)
        member = mechanisms.coins(rng, 1000)
        score = mechanisms.together(rng, member, 1.0, 0.2, 0.05)
        found = order_statistics.bound(score, member, 0.01, 50, "approximate", rng)
        theirs += found > 1.0
        ours += epsilon_lower_bound(score, member, 0.01, drawn="coins").value > 1.0
    allowed = stats.binom.isf(1e-3, runs, 0.05)
    assert ours <= allowed < theirs
