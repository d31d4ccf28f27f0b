"""Errors of simulated clients, and whether victims train as they do, on made-up updates."""

import numpy as np
from scipy import stats

from divulge.attacks.shared.simulated_errors import (
    SimulatedGuesses,
    likeness_p_values,
    log_lengths,
)
from divulge.core import Proportions


def shares(many: int, rng: np.random.Generator) -> np.ndarray:
    drawn: np.ndarray = rng.dirichlet(np.full(4, 0.8), many)
    return drawn


def lengths(share: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of three tensors; uneven mixes move them further."""
    uneven = (share**2).sum(axis=1, keepdims=True)
    moved: np.ndarray = uneven * [1.0, 0.5, 0.2]
    return moved + rng.normal(0, 0.05, (len(share), 3))


def test_updates_of_another_recipe_are_unlike_and_others_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    far, p_values = [], []
    for _ in range(20):
        held, mine = shares(100, rng), shares(10, rng)
        of_each = lengths(held, rng)
        own = lengths(mine, rng)
        p_values.append(likeness_p_values(held, of_each, mine, own))
        far.append(likeness_p_values(held, of_each, mine, own + np.log(2)))
    low = int((np.array(p_values) <= 0.1).sum())
    # p <= 0.1 are 10 ranks of 101: Beta(10, 91) in each of 20 sets of clients, who share it
    spread = np.sqrt(200 * 0.099 * 0.901 * (1 + 9 / 102))
    assert low <= 200 * 0.1 + 4 * spread
    assert low >= 200 * 0.1 - 4 * spread
    assert np.mean(np.array(far) <= 0.05) > 0.9


def test_errors_are_those_of_the_clients_with_the_nearest_guesses() -> None:
    rng = np.random.default_rng(1)
    held = shares(100, rng)
    guess = np.abs(held + rng.normal(0, 0.02, held.shape))
    guess /= guess.sum(axis=1, keepdims=True)
    null = guess < 0.05
    victim = Proportions(guess[7], null[7])
    errors = SimulatedGuesses(guess, null, held).errors_like(victim, 0.5)
    off = np.abs(guess - guess[7]).sum(axis=1)
    assert set(errors.which) == set(np.argsort(off)[:40])
    for place, client in enumerate(errors.which):
        assert errors.l1[place] == np.abs(guess[client] - held[client]).sum()
        assert errors.null[place].tolist() == [null[client].sum(), null[client].sum(), 0, 0]
    covered = [
        (errors.l1 <= limit).mean() for limit in stats.scoreatpercentile(errors.l1, [90, 100])
    ]
    assert covered[1] == 1 >= covered[0] >= 0.9


def test_lengths_of_no_change_at_all_are_finite() -> None:
    found = log_lengths([np.zeros((2, 3)), np.ones((2, 4))])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 1], np.log(2))
