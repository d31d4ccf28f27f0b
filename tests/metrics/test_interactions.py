"""Figures per user against plain definitions; intervals over users keep their promise."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.core import Interactions, Reconstruction
from divulge.errors import DataError
from divulge.metrics import interactions

cases = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=2, max_size=5
).filter(lambda case: len({acted for _, acted, _ in case}) == 2)


@given(cases)
def test_figures_of_a_user_are_those_of_the_definitions(
    case: list[tuple[int, bool, bool]],
) -> None:
    score = np.array([s / 3 for s, _, _ in case])
    acted = np.array([a for _, a, _ in case])
    decided = np.array([d for _, _, d in case])
    found = interactions.measure_user(Reconstruction(score, decided), Interactions(acted))
    pairs = [(a > b) + (a == b) / 2 for a in score[acted] for b in score[~acted]]
    assert found.auc == pytest.approx(np.mean(pairs))
    right = (decided & acted).sum()
    if right:
        precision, recall = right / decided.sum(), right / acted.sum()
        assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    else:
        assert found.f1 == 0
    k = int(acted.sum())
    orders = [
        acted[list(order)][:k].mean()
        for order in itertools.permutations(range(len(case)))
        if (np.diff(score[list(order)]) <= 0).all()
    ]
    assert found.precision_at_count == pytest.approx(np.mean(orders))
    assert (found.acted, found.recovered) == (k, right)


@pytest.mark.slow
def test_the_interval_over_users_covers_the_mean() -> None:
    rng = np.random.default_rng(0)
    for low in (0.5, 0.9, 0.99):  # users at 0.5 with probability 1 - low, else at 1
        truth = 0.5 + low / 2
        runs = [
            interactions.mean_over_users(np.where(rng.random(60) < low, 1.0, 0.5).tolist())
            for _ in range(400)
        ]
        assert np.mean([truth in run for run in runs]) >= 0.93


def test_users_who_are_all_alike_leave_some_doubt() -> None:
    certain = interactions.mean_over_users([1.0] * 20)
    assert (certain.value, certain.high) == (1.0, 1.0)
    assert 0.7 < certain.low < 1.0
    assert 0.5 in interactions.mean_over_users([0.3])


def test_measure_gives_every_metric() -> None:
    guess = Reconstruction(np.array([0.9, 0.1]), np.array([True, False]))
    some, all_ = Interactions(np.array([True, False])), Interactions(np.array([True, True]))
    found = interactions.measure([guess] * 3, [some, some, all_])
    assert tuple(found.metrics) == interactions.METRICS
    assert all(estimate.value == 1.0 for estimate in found.metrics.values())
    assert tuple(interactions.measure([guess], [all_]).unmeasured) == interactions.METRICS


@pytest.mark.parametrize("acted", [np.ones(3, bool), np.zeros(3, bool)])
def test_a_user_of_one_kind_is_refused(acted: np.ndarray) -> None:
    guess = Reconstruction(np.zeros(3), np.zeros(3, bool))
    with pytest.raises(DataError):
        interactions.measure_user(guess, Interactions(acted))


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(DataError, match="none"):
        interactions.mean_over_users([])
    with pytest.raises(DataError, match="none"):
        interactions.f1(np.zeros(2, bool), np.zeros(2, bool))
    with pytest.raises(DataError, match="1 of 2 scores outside"):
        Reconstruction(np.array([0.5, 1.5]), np.array([True, True]))
    with pytest.raises(DataError, match="2 of 2 scores outside"):
        Reconstruction(np.array([np.nan, -1.0]), np.array([True, True]))
