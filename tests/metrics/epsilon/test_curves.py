import math

import numpy as np
import pytest
from scipy import integrate, stats

from divulge.metrics.epsilon import curves


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_the_delta_of_gaussian_noise_is_the_mass_that_stands_out(mu: float, epsilon: float) -> None:
    def excess(x: float) -> float:
        return max(0.0, float(stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x)))

    begin = epsilon / mu + mu / 2  # below it nothing stands out
    mass, _ = integrate.quad(excess, begin, begin + 15)
    assert curves.gaussian_delta(mu, epsilon) == pytest.approx(mass, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 20.0, 77.0])
def test_epsilon_is_where_delta_is_spent(mu: float, delta: float) -> None:
    epsilon = curves.gaussian_epsilon(mu, delta)
    if epsilon == 0:
        assert curves.gaussian_delta(mu, 0.0) <= delta
    else:
        assert curves.gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize(
    "curve",
    [
        curves.approximate_dp_curve(1.0, 0.01),
        curves.approximate_dp_curve(0.0, 0.0),
        curves.gaussian_dp_curve(0.8),
    ],
)
def test_a_curve_rises_is_convex_and_never_asks_for_more(curve: curves.TradeOffCurve) -> None:
    y = np.linspace(0, 1, 201)
    least = np.array([curve(float(at)) for at in y])
    assert (np.diff(least) >= -1e-12).all()
    assert (np.diff(least, 2) >= -1e-9).all()
    assert (least <= y + 1e-12).all()


def test_both_sides_of_the_guarantee_count() -> None:
    """Of an event of probability .99 the opposite has .01, and e · .01 + δ at most."""
    curve = curves.approximate_dp_curve(1.0, 0.02)
    assert curve(0.99) == pytest.approx(1 - (math.e * 0.01 + 0.02))
    assert curve(0.01) == 0.0
