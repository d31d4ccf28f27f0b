import numpy as np
import pytest
from scipy import special, stats

from divulge.metrics.epsilon import independent


@pytest.mark.parametrize(("records", "mu"), [(100, 0.5), (200, 0.9), (200, 2.0)])
def test_the_tail_is_that_of_simulated_noise(records: int, mu: float) -> None:
    """Where scores are what the curve describes, the tail is exact but for Hoeffding's step."""
    rng = np.random.default_rng(records)
    each, runs = independent.guesses_per_end(records), 20_000
    member = rng.random((runs, records)) < 0.5
    order = np.argsort(rng.normal(size=member.shape) + mu * member, axis=1)
    ranked = np.take_along_axis(member, order, axis=1)
    hits = ranked[:, -each:].sum(axis=1) + (~ranked[:, :each]).sum(axis=1)
    for quantile in (0.9, 0.95, 0.99):
        at = int(np.quantile(hits, quantile)) + 1
        tail = independent.tail_bound(mu, records, each, each, at)
        seen = float((hits >= at).mean())
        # three standard errors of the simulation
        assert abs(seen - tail) < 3 * np.sqrt(tail / runs)


def test_without_a_leak_guesses_are_coins() -> None:
    for hits in range(21):
        tail = independent.tail_bound(0.0, 100, 10, 10, hits)
        exact = stats.binom.sf(hits - 1, 20, 0.5)
        assert tail == pytest.approx(exact if hits > 10 else 1.0, rel=1e-6)


def test_half_of_the_records_at_each_end_are_right_as_the_noise_says() -> None:
    """All but two records are guessed about: nearly Φ(μ / 2) of them rightly."""
    hits = round(2000 * float(special.ndtr(0.5))) + 30  # above the mean by 1.5 deviations
    tail = independent.tail_bound(1.0, 2002, 1000, 1000, hits)
    exact = float(stats.binom.sf(hits - 1, 2000, special.ndtr(0.5)))
    assert exact < tail < 1.02 * exact  # the two records left over, whose place nobody knows


def test_few_records_bound_nothing() -> None:
    assert independent.guesses_per_end(3) == 0
    assert independent.tail_bound(0.0, 3, 0, 0, 0) == 1.0
