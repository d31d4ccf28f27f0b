import math

import numpy as np
import pytest

from divulge.metrics.audit_epsilon import (
    add_or_remove_bound,
    epsilon_lower_bound,
    group_sizes,
)
from divulge.metrics.membership import Unmeasurable

from . import naive


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("levels", [0, 5])
def test_the_bound_agrees_with_the_naive_twin(delta: float, shift: float, levels: int) -> None:
    rng = np.random.default_rng(3)
    member = rng.random(1500) < 0.3
    score = rng.normal(size=1500) + shift * member
    score = np.round(score * levels) / levels if levels else score
    bound = epsilon_lower_bound(score, member, delta)
    assert bound.value == pytest.approx(naive.epsilon(score, member, delta), abs=1e-9)
    assert bound.high is None


def randomised_response(epsilon: float, records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Each record's bit is published truthfully with odds e^epsilon: exactly epsilon-private."""
    rng = np.random.default_rng(seed)
    member = rng.random(records) < 0.5
    truthful = rng.random(records) < math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(truthful, member, ~member) + 0.0, member


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_the_bound_holds_for_a_mechanism_of_known_epsilon(epsilon: float) -> None:
    runs = 400
    above = [
        epsilon_lower_bound(*randomised_response(epsilon, 1000, seed)).value > epsilon
        for seed in range(runs)
    ]
    # 5 % may fail; 400 runs of a bound that just keeps its promise fail more than 35 times in
    # one test of a thousand (binomial)
    assert sum(above) <= 35


def test_the_bound_is_not_idle() -> None:
    bounds = [epsilon_lower_bound(*randomised_response(2.0, 4000, s)).value for s in range(20)]
    assert np.median(bounds) > 1.5


def test_unequal_groups_do_not_pass_for_a_leak() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(4000) < 400
    assert epsilon_lower_bound(rng.normal(size=4000), member).value == 0.0


def test_few_records_bound_nothing() -> None:
    assert group_sizes(255) == []
    with pytest.raises(Unmeasurable, match="at least 256"):
        epsilon_lower_bound(np.arange(255.0), np.arange(255) % 2 == 0)


def test_a_delta_weakens_the_bound() -> None:
    score, member = randomised_response(3.0, 4000, 0)
    assert epsilon_lower_bound(score, member, 1e-3).value < epsilon_lower_bound(score, member).value


def test_records_that_are_given_away_together_do_not_break_the_bound() -> None:
    """(0, delta)-private: with probability delta a whole group of members is published."""
    delta, runs, above = 0.005, 400, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        member = rng.random(2000) < 0.5
        score = rng.normal(size=2000)
        if rng.random() < delta:
            score[np.flatnonzero(member)[:62]] += 10
        above += epsilon_lower_bound(score, member, delta).value > 0
    assert above <= 35  # as above


def test_an_exchange_is_worth_two_changes_of_one_record() -> None:
    score, member = randomised_response(3.0, 4000, 0)
    exchange = epsilon_lower_bound(score, member).value
    assert add_or_remove_bound(score, member).value == exchange / 2
    for delta in (1e-6, 1e-5, 1e-4):
        bound = add_or_remove_bound(score, member, delta).value
        assert 0 < bound < epsilon_lower_bound(score, member, delta).value / 2
        # the place where what is refuted and what is not meet, to the millionth that is searched
        for there, refuted in ((bound - 1e-5, True), (bound + 1e-5, False)):
            exchanged = (1 + math.exp(there)) * delta
            assert (epsilon_lower_bound(score, member, exchanged).value > 2 * there) == refuted


def test_the_best_of_many_tries_keeps_its_promise() -> None:
    """Ten scores that know nothing: their highest bound is above 0 in 5 % of audits at most."""
    runs, above = 200, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        member = rng.random(1000) < 0.5
        bounds = [epsilon_lower_bound(rng.normal(size=1000), member, tries=10) for _ in range(10)]
        above += max(bound.value for bound in bounds) > 0
    assert above <= 20  # 5 % of 200, and the binomial's deviations: exceeded once in a thousand


def test_exceptions_are_paid_for_once_however_many_scores_are_tried() -> None:
    """10 members may escape: 500 members, δ = 5e-5, Markov's limit at 0.05 / 20."""
    member = np.arange(1000) < 500
    score = np.where(np.arange(1000) < 125, 2.0, 0.0) + np.arange(1000) * 1e-9
    for tries in (1, 20):
        with_delta = epsilon_lower_bound(score, member, 5.1e-5, tries=tries).value
        fewer = np.where((np.arange(1000) >= 10) & (np.arange(1000) < 125), 2.0, 0.0)
        fewer[500:510] = 2.0  # ten hits less in the group of 125
        error = 1 - 0.05 * 0.9
        assert with_delta == pytest.approx(
            epsilon_lower_bound(fewer + np.arange(1000) * 1e-9, member, 0.0, error, tries).value
        )
