"""The accountant against closed forms, and against dp-accounting called directly."""

import math

import dp_accounting
import pytest
from scipy import optimize, stats

from divulge.defences.training.dp_sgd.accounting import calibrate_noise, dp_sgd_epsilon
from divulge.errors import SpecError

DELTA = 1e-5


def gaussian_epsilon(noise: float, delta: float) -> float:
    """The exact ε of one Gaussian mechanism of sensitivity 1: Balle and Wang (2018), theorem 8."""

    def excess(epsilon: float) -> float:
        near, far = 1 / (2 * noise) - epsilon * noise, -1 / (2 * noise) - epsilon * noise
        return float(stats.norm.cdf(near) - math.exp(epsilon) * stats.norm.cdf(far) - delta)

    return float(optimize.brentq(excess, 0, 200, xtol=1e-12))


@pytest.mark.parametrize("steps", [1, 25])
@pytest.mark.parametrize("noise", [1.0, 2.0, 8.0])
def test_full_batches_are_one_gaussian_mechanism(noise: float, steps: int) -> None:
    exact = gaussian_epsilon(noise / math.sqrt(steps), DELTA)
    ours = dp_sgd_epsilon(noise, 1.0, steps, DELTA)
    assert exact <= ours + 1e-9  # an accountant rounds against the claim
    assert ours == pytest.approx(exact, rel=1e-3)  # and by less than ten steps of its grid


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(1.0, 0.05, 400), (4.0, 0.1, 50), (0.6, 0.01, 300)]
)
def test_poisson_batches_as_dp_accounting_counts_them(
    noise: float, rate: float, steps: int
) -> None:
    batch = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    direct = dp_accounting.pld.PLDAccountant()
    direct.compose(dp_accounting.SelfComposedDpEvent(batch, steps))
    ours = dp_sgd_epsilon(noise, rate, steps, DELTA)
    assert ours == pytest.approx(direct.get_epsilon(DELTA), rel=1e-3)  # their grids differ


def test_more_noise_fewer_steps_and_rarer_records_spend_less() -> None:
    spent = dp_sgd_epsilon(1.0, 0.05, 200, DELTA)
    assert dp_sgd_epsilon(1.5, 0.05, 200, DELTA) < spent
    assert dp_sgd_epsilon(1.0, 0.05, 100, DELTA) < spent
    assert dp_sgd_epsilon(1.0, 0.02, 200, DELTA) < spent
    assert dp_sgd_epsilon(1.0, 0.05, 200, 1e-3) < spent


@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_hardly_any_noise_promises_nothing_and_is_counted_all_the_same(noise: float) -> None:
    assert dp_sgd_epsilon(noise, 0.05, 400, DELTA) > 1e4


def test_noise_that_drowns_everything_keeps_a_positive_epsilon() -> None:
    assert 0 < dp_sgd_epsilon(1e6, 0.05, 400, DELTA) < 1e-3


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 90.0])
def test_calibrated_noise_keeps_the_target_and_wastes_little(epsilon: float) -> None:
    noise = calibrate_noise(epsilon, 0.05, 400, DELTA)
    spent = dp_sgd_epsilon(noise, 0.05, 400, DELTA)
    assert 0.98 * epsilon < spent <= epsilon * (1 + 1e-6)


def test_an_epsilon_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(SpecError, match="some noise keeps"):
        calibrate_noise(math.nan, 0.05, 400, DELTA)
