"""Local noise: what it is worth, three ways; what it clips; what it refuses."""

import itertools
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from divulge.defences.updates import local_dp
from divulge.defences.updates.local_dp import LocalNoise
from divulge.errors import DataError, SpecError

from . import rounds

EPSILONS = (0.01, 0.5, 1.0, 10.0, 100.0, 500.0)
DELTAS = (1e-8, 1e-5, 0.1)


def hockey_stick(epsilon: float, shift: float, density: Any) -> float:
    """∫ max(0, p(x) - e^ε p(x + shift)) dx: δ at this ε, by the definition."""

    def excess(x: float) -> float:
        return max(0.0, float(density.pdf(x) - math.exp(epsilon) * density.pdf(x + shift)))

    width = 12 * density.std()
    points = np.linspace(-width - shift, width, 41)
    pieces = [
        integrate.quad(excess, low, high, epsabs=1e-13, epsrel=1e-9, limit=400)[0]
        for low, high in itertools.pairwise(points)
    ]
    return math.fsum(pieces)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_analytic_scale_is_that_of_the_accountant(epsilon: float, delta: float) -> None:
    noise = LocalNoise(epsilon, delta, clip=0.7)
    # Theirs is approached to 1e-12 absolutely in units of a sensitivity of 1.
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert noise.scale / 1.4 == pytest.approx(theirs, abs=1e-11, rel=1e-10)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_the_scale_gives_the_promised_delta_by_integration(epsilon: float, delta: float) -> None:
    noise = LocalNoise(epsilon, delta, clip=3.0)
    found = hockey_stick(epsilon, 2 * noise.clip, stats.norm(scale=noise.scale))
    assert found == pytest.approx(delta, rel=1e-6)  # the integral's own tolerance


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_laplace_promises_epsilon_and_no_less_by_integration(epsilon: float) -> None:
    noise = LocalNoise(epsilon, 0.0, clip=3.0, mechanism="laplace")
    density = stats.laplace(scale=noise.scale)
    assert hockey_stick(epsilon, 6.0, density) == pytest.approx(0, abs=1e-9)
    # The whole distance is 1 - exp((ε' - ε) / 2) at a smaller ε'.
    wanted = 1 - math.exp(-0.05 * epsilon)
    assert hockey_stick(0.9 * epsilon, 6.0, density) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.1, 0.9])
def test_the_classic_formula_is_sound_and_noisier(epsilon: float, delta: float) -> None:
    classic = LocalNoise(epsilon, delta, 1.0, "gaussian")
    assert classic.scale == pytest.approx(2 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon)
    assert math.exp(local_dp.log_delta(epsilon, 2.0 / classic.scale)) <= delta
    assert classic.scale > LocalNoise(epsilon, delta, 1.0).scale


@settings(max_examples=200)
@given(st.floats(-6, 6), st.floats(-300, -0.001))
def test_calibration_and_accounting_undo_each_other(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10**log_epsilon, 10**log_delta
    mu = local_dp.gaussian_mechanism_mu(epsilon, delta)
    # Differences of nearly equal Mills ratios lose up to four digits at the ends of these ranges;
    # ε also moves by the error of μ over how much μ depends on it.
    assert local_dp.log_delta(epsilon, mu) == pytest.approx(math.log(delta), rel=1e-6, abs=1e-6)
    step = abs(local_dp.gaussian_mechanism_mu(epsilon * 1.01, delta) / mu - 1) / 0.01
    assert local_dp.gaussian_mechanism_epsilon(mu, delta) == pytest.approx(
        epsilon, rel=1e-9 / max(step, 1e-6)
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_delta_is_that_of_the_accountant(epsilon: float) -> None:
    for mu in (0.5, 2.0, 20.0):
        theirs = dp_accounting.get_epsilon_gaussian(1 / mu, 1e-5)
        assert local_dp.gaussian_mechanism_epsilon(mu, 1e-5) == pytest.approx(
            theirs, abs=1e-10, rel=1e-10
        )


def test_so_much_noise_that_epsilon_is_zero() -> None:
    assert local_dp.gaussian_mechanism_epsilon(1e-9, 1e-5) == 0.0
    assert local_dp.log_delta(0.0, 1e-200) == pytest.approx(local_dp.LOG_OF_ZERO, abs=1)


def test_opposite_updates_reach_the_sensitivity() -> None:
    noise = LocalNoise(1.0, 1e-5, clip=0.5)
    far = np.array([30.0, -40.0])
    np.testing.assert_allclose(noise.clip_to_norm(far), [0.3, -0.4], rtol=1e-15)
    assert np.linalg.norm(noise.clip_to_norm(far) - noise.clip_to_norm(-far)) == pytest.approx(1.0)
    assert LocalNoise(1.0, 0.0, 0.7, "laplace").clip_to_norm(far).tolist() == pytest.approx(
        [0.3, -0.4]
    )


def test_short_updates_are_not_stretched() -> None:
    noise = LocalNoise(1.0, 1e-5, clip=5.0)
    for short in (np.zeros(3), np.array([3.0, 4.0]), np.array([1e-320, 0.0])):
        np.testing.assert_array_equal(noise.clip_to_norm(short), short)


@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (LocalNoise(3.0, 1e-5, 1.0), stats.norm),
        (LocalNoise(0.5, 1e-5, 1.0, "gaussian"), stats.norm),
        (LocalNoise(3.0, 0.0, 1.0, "laplace"), stats.laplace),
    ],
    ids=lambda value: getattr(value, "mechanism", ""),
)
def test_the_noise_has_the_law_and_the_scale_it_claims(noise: LocalNoise, law: Any) -> None:
    silent = {"a": np.zeros((50, 100)), "b": np.zeros(5000)}
    sent = noise.on_client(silent, rounds.begin(noise, like=silent)[0])
    drawn = np.concatenate([sent["a"].ravel(), sent["b"]])
    assert stats.kstest(drawn, law(scale=noise.scale).cdf).pvalue > 0.001  # one draw, fixed seed
    # 10,000 draws tell a scale that is off by a tenth: half or twice the noise would not pass.
    assert stats.kstest(drawn, law(scale=1.1 * noise.scale).cdf).pvalue < 0.001


def test_an_attacker_who_knows_both_data_sets_gains_what_delta_allows_and_no_more() -> None:
    """The whole hook, clip included: the best test between two opposite updates, counted."""
    noise = LocalNoise(1.0, 0.3, clip=1.0)
    runs = 3_000
    update = {"w": np.array([2.0, 0.0])}
    other = {"w": np.array([-2.0, 0.0])}
    context = rounds.begin(noise, like=update)[0]
    here = np.array([noise.on_client(update, context)["w"][0] for _ in range(runs)])
    there = np.array([noise.on_client(other, context)["w"][0] for _ in range(runs)])
    # Likelihood ratio e^ε: the threshold where the hockey-stick divergence is reached.
    threshold = noise.epsilon * noise.scale**2 / noise.sensitivity
    hit, alarm = (here > threshold).mean(), (there > threshold).mean()
    gained = hit - math.exp(noise.epsilon) * alarm
    error = math.sqrt(
        hit * (1 - hit) / runs + math.exp(2 * noise.epsilon) * alarm * (1 - alarm) / runs
    )
    assert abs(gained - noise.delta) < 4 * error
    assert 4 * error < 0.3 * noise.delta  # so that noise for half the sensitivity would be noticed


@pytest.mark.parametrize("rounds_", [2, 50, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 200.0])
def test_rounds_add_up_as_the_accountant_says(epsilon: float, rounds_: int) -> None:
    noise = LocalNoise(epsilon, 1e-5, clip=2.0)
    promised = noise.guarantee(rounds_)
    theirs = dp_accounting.get_epsilon_gaussian(noise.scale / 4.0 / math.sqrt(rounds_), 1e-5)
    assert promised.epsilon == pytest.approx(theirs, rel=1e-8)
    assert promised.delta == 1e-5
    assert f"{rounds_} rounds" in promised.mechanism


def test_what_is_promised_for_one_round_is_what_was_asked_for() -> None:
    for noise in (LocalNoise(0.7, 1e-5, 1.0), LocalNoise(0.7, 1e-5, 1.0, "gaussian")):
        assert (noise.guarantee().epsilon, noise.guarantee().delta) == (0.7, 1e-5)
    laplace = LocalNoise(0.7, 0.0, 1.0, "laplace")
    assert (laplace.guarantee(10).epsilon, laplace.guarantee(10).delta) == (7.0, 0.0)
    with pytest.raises(SpecError, match="one round or more"):
        laplace.guarantee(0)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((0.0, 1e-5, 1.0), "epsilon above 0"),
        ((math.inf, 1e-5, 1.0), "epsilon of LocalNoise to be a finite number"),
        ((math.nan, 1e-5, 1.0), "epsilon of LocalNoise to be a finite number"),
        ((1.0, 0.0, 1.0), "delta above 0 and below 1 for analytic-gaussian"),
        ((1.0, 1.0, 1.0), "delta above 0 and below 1"),
        ((1.0, 1e-5, 0.0), "clip above 0"),
        ((1.5, 1e-5, 1.0, "gaussian"), "epsilon up to 1"),
        ((1.0, 1e-5, 1.0, "laplace"), "delta 0 for laplace"),
    ],
)
def test_settings_that_promise_nothing_are_refused(given_: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        LocalNoise(*given_)


def test_noise_that_the_type_cannot_hold_is_refused() -> None:
    narrow = {"w": np.ones(100, np.float16)}
    noise = LocalNoise(0.01, 1e-5, clip=1e6)
    with pytest.raises(DataError, match="range of float16"):
        noise.on_client(narrow, rounds.begin(noise, like=narrow)[0])
