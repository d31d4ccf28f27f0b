"""The accountant against closed forms, and against dp-accounting called directly."""

import math
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses
from scipy import optimize, stats

from divulge.defences.training.dp_sgd.accounting import (
    _GRID,
    _ORDERS,
    calibrate_noise,
    dp_sgd_epsilon,
)
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


class Setting(NamedTuple):
    """A training, and the δ at which its ε is asked for."""

    noise: float
    rate: float
    steps: int
    delta: float

    @property
    def renyi(self) -> float:
        """The ε by dp-accounting's Rényi divergences, from which our grid follows."""
        batch = dp_accounting.PoissonSampledDpEvent(
            self.rate, dp_accounting.GaussianDpEvent(self.noise)
        )
        accountant = dp_accounting.rdp.RdpAccountant(_ORDERS)
        accountant.compose(dp_accounting.SelfComposedDpEvent(batch, self.steps))
        return float(accountant.get_epsilon(self.delta))


def draw_settings(seed: int) -> Iterator[Setting]:
    """From one step to 30,000, rates from 1e-4 to 1, δ from 1e-10 to 1e-2; ε up to 60."""
    rng = np.random.default_rng(seed)
    while True:
        drawn = Setting(
            float(10 ** rng.uniform(-0.4, 1.5)),
            1.0 if rng.random() < 0.2 else float(10 ** rng.uniform(-4, -0.05)),
            int(10 ** rng.uniform(0, 4.5)),
            float(10 ** rng.uniform(-10, -2)),
        )
        if drawn.renyi <= 60:
            yield drawn


SETTINGS = tuple(islice(draw_settings(52), 20))


def excess(setting: Setting, grid: float) -> float:
    """How far a distribution on this grid may be above the exact one, at 999/1,000 of its δ.

    Connecting the dots (Doroshenko et al. 2022) splits the mass at a loss L among the two grid
    points beside it so that the mean of e^-L stays. By Hoeffding's lemma the loss then grows by
    grid²/8 a step on average, and by Hoeffding's inequality the growth of all steps is farther from
    that than grid * sqrt(steps * ln(1/p) / 2) with a probability of p at most. Whoever adds p, here
    δ / 1,000, to δ may leave these cases out.
    """
    steps = setting.steps
    return steps * grid**2 / 8 + grid * math.sqrt(steps * math.log(1000 / setting.delta) / 2)


def test_settings_reach_the_ends_of_what_people_train() -> None:
    assert any(one.rate == 1 for one in SETTINGS)
    assert min(one.rate for one in SETTINGS) < 1e-3
    assert min(one.steps for one in SETTINGS) == 1
    assert max(one.steps for one in SETTINGS) > 10_000
    assert min(one.delta for one in SETTINGS) < 1e-8
    assert max(one.renyi for one in SETTINGS) > 20


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_twenty_settings_against_a_finer_grid(setting: Setting) -> None:
    """Never below what is spent, and above a grid four times as fine by what ours may cost."""
    noise, rate, steps, delta = setting
    ours = dp_sgd_epsilon(noise, rate, steps, delta)
    grid = _GRID * max(1.0, setting.renyi)
    finer = losses.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=grid / 4
    ).self_compose(steps)
    least = losses.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=grid / 4,
        pessimistic_estimate=False,
        use_connect_dots=False,
    ).self_compose(steps)
    assert ours >= least.get_epsilon_for_delta(delta)
    # our grid has every fourth point, so it is never below but by the rounding of a transform,
    # 1e-13 of all mass
    assert ours >= finer.get_epsilon_for_delta(delta + 1e-13)
    highest = finer.get_epsilon_for_delta(0.999 * delta) + excess(setting, grid)
    assert ours <= max(_GRID, highest)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_twenty_settings_against_the_accountants_of_opacus(setting: Setting) -> None:
    """Not above its Rényi accountant, and within the limits that its PRV accountant gives."""
    accountants = pytest.importorskip("opacus.accountants")
    noise, rate, steps, delta = setting
    ours = dp_sgd_epsilon(noise, rate, steps, delta)
    renyi, prv = accountants.RDPAccountant(), accountants.PRVAccountant()
    renyi.history = prv.history = [(noise, rate, steps)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # other orders are advised, and the logarithm of 0 is taken
        theirs = renyi.get_epsilon(delta)
        distribution = prv._get_dprv(0.01, delta / 1000)
    if theirs > 0:  # it can come out negative, which no ε is
        assert ours <= max(_GRID, theirs)
    # its error in ε is 0.01 and that in δ is δ / 1,000, for which it gives both ends
    low, _, high = distribution.compute_epsilon(delta, delta / 1000, 0.01)
    assert low <= ours
    assert ours <= max(_GRID, high + excess(setting, _GRID * max(1.0, setting.renyi)))
