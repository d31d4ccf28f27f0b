import numpy as np
import pytest

from benchmarks import epsilon_mechanisms as mechanisms
from benchmarks.epsilon_mechanisms import DELTA
from divulge._util.random import stream
from divulge.metrics.epsilon import epsilon_lower_bound, pooled_bound

from .test_lower_bound import RUNS, TOO_MANY

MODELS, RECORDS = 8, 200


def audits(rng: np.random.Generator, epsilon: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    members = [mechanisms.coins(rng, RECORDS) for _ in range(MODELS)]
    return [mechanisms.response(rng, member, epsilon) for member in members], members


def test_models_together_refute_more_than_one() -> None:
    rng = np.random.default_rng(0)
    members = [mechanisms.coins(rng, 1000) for _ in range(MODELS)]
    scores = [mechanisms.gaussian(rng, one, mechanisms.mu_of(4.0)) for one in members]
    scores = [k + (k + 1) * score for k, score in enumerate(scores)]  # no common scale is needed
    each = [
        epsilon_lower_bound(score, member, DELTA, drawn="coins").value
        for score, member in zip(scores, members, strict=True)
    ]
    together = pooled_bound(scores, members, DELTA, blind=True)
    assert together.value > np.mean(each)
    assert together.high is None
    careful = pooled_bound(scores, members, DELTA, blind=False).value
    assert min(each) < careful < together.value


def test_pooled_bounds_stay_below_the_truth() -> None:
    for blind in (True, False):
        wrong = 0
        for k in range(RUNS):
            scores, members = audits(stream(k, "pooled"), 1.0)
            wrong += pooled_bound(scores, members, blind=blind).value > 1.0
        assert wrong <= TOO_MANY


@pytest.mark.slow
def test_guesses_that_rest_on_the_coins_of_others_are_not_pooled_as_one_run() -> None:
    """Nothing leaks, and each guess is the parity of the other models' coins."""
    wrong = {True: 0, False: 0}
    for k in range(80):
        rng = stream(k, "parity")
        members = [mechanisms.coins(rng, RECORDS) for _ in range(MODELS)]
        parity = np.bitwise_xor.reduce(members)
        scores = [(parity ^ member) + 0.0 for member in members]
        for blind in wrong:
            wrong[blind] += pooled_bound(scores, members, blind=blind).value > 0
    assert wrong[False] <= TOO_MANY
    assert wrong[True] > 2 * TOO_MANY


@pytest.mark.parametrize(
    ("models", "place", "error"), [(1, 1, 0.05), (2, 1, 0.025), (3, 2, 0.1 / 3), (5, 3, 0.03)]
)
def test_the_bound_of_half_of_the_models_shares_the_error(
    models: int, place: int, error: float
) -> None:
    """By hand: the k-th highest of T bounds, each wrong with a probability of 5 % · k / T."""
    rng = np.random.default_rng(1)
    members = [mechanisms.coins(rng, RECORDS) for _ in range(models)]
    scores = [mechanisms.response(rng, member, 3.0) for member in members]
    bounds = [
        epsilon_lower_bound(score, member, drawn="coins", confidence=1 - error).value
        for score, member in zip(scores, members, strict=True)
    ]
    expected = sorted(bounds, reverse=True)[place - 1]
    assert expected > 0
    found = pooled_bound(scores, members, blind=False).value
    assert found == pytest.approx(expected, rel=1e-9)
