"""The Gaussian estimate of ε: near the truth, and its interval covers it as often as it says."""

import numpy as np
import pytest

from divulge.errors import SpecError
from divulge.metrics.epsilon import gaussian_estimate
from divulge.metrics.epsilon.curves import gaussian_epsilon


@pytest.mark.parametrize("mu", [0.7, 3.0])
def test_the_interval_covers_the_truth(mu: float) -> None:
    rng, truth = np.random.default_rng(0), gaussian_epsilon(mu, 1e-5)
    covered, values = 0, []
    for _ in range(300):
        member = rng.random(200) < 0.5
        found = gaussian_estimate(rng.normal(size=200) + mu * member, member, 1e-5)
        covered += found.low <= truth <= (found.high or 0)
        values.append(found.value)
    assert 272 <= covered <= 296  # 2.5 % to 97.5 % of a binomial of 300 at 95 %, less 4 below
    error = np.sqrt(np.pi / 2) * np.std(values) / np.sqrt(len(values))  # of a median
    assert np.median(values) == pytest.approx(truth, abs=4 * error)


def test_what_cannot_be_told_apart_is_nothing_and_what_is_certain_is_finite() -> None:
    member = np.arange(40) % 2 == 0
    assert gaussian_estimate(np.zeros(40), member, 1e-5).value == 0
    assert gaussian_estimate(-1.0 * member, member, 1e-5).value == 0
    assert 1000 < gaussian_estimate(1.0 * member, member, 1e-5).value < 1e5


def test_what_has_no_estimate_is_refused() -> None:
    member = np.arange(40) % 2 == 0
    with pytest.raises(SpecError, match="delta above 0"):
        gaussian_estimate(np.zeros(40), member, 0.0)
    with pytest.raises(SpecError, match="groups of 1 and 39"):
        gaussian_estimate(np.zeros(40), np.arange(40) == 0, 1e-5)
