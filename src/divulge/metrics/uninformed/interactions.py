"""Tests whether guesses of what users acted on beat guesses that know nothing of it."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float64
from scipy import stats

from divulge.core import Interactions, Reconstruction
from divulge.metrics.interactions import is_mixed
from divulge.metrics.uninformed.draws import (
    RandomisationTest,
    log_arrangements,
    number_of_draws,
    permute_within_groups,
)

FEWEST_TO_FLIP = 5
"""Number of users from which on signs are flipped: fewer could give no p-value of 5 % or less."""


def randomise(
    guesses: Sequence[Sequence[Reconstruction] | None],
    truths: Sequence[Interactions],
    rng: np.random.Generator,
) -> RandomisationTest:
    """Draw what guesses achieve if they know nothing of what users acted on, as mean AUC.

    Two ways of drawing, of which a leak must stand out in both:

    * Within each user, it is permuted which items were acted on. That is valid where any of them
      could have been, without an update to look at. It is not where items are alike: a guess that
      follows features at random is right about many similar items at once, or wrong.
    * From `FEWEST_TO_FLIP` users on, each user's AUC is reversed at random (0.8 into 0.2). That
      is valid where a guess without information is as often right as wrong about a user, however
      alike the items of a user are.

    Args:
        guesses: the guesses of each attack, one a user; None for an attack that is not done.
        truths: what each user acted on; users who acted on all items or on none are left out.
        rng: draws permutations and signs.
    """
    done = [k for k, guess in enumerate(guesses) if guess is not None]
    users = [u for u, truth in enumerate(truths) if is_mixed(truth)]
    draws = number_of_draws(sum(len(truths[u].acted) for u in users)) + 1
    each = np.full((max(1, len(users)), draws, len(done)), 0.5)
    for at, u in enumerate(users):
        scores = [guess[u].score for guess in guesses if guess is not None]
        each[at] = _draw_aucs(scores, truths[u], rng, draws)
    drawn = [each.mean(axis=0)]
    ways = sum(log_arrangements([int(t.sum()), int((~t).sum())])
               for t in (truths[u].acted for u in users))  # fmt: skip
    smallest = math.exp(-ways)
    if len(users) >= FEWEST_TO_FLIP:
        drawn.append(0.5 + _signs(len(users), rng) @ (each[:, 0] - 0.5) / len(users))
        smallest = max(smallest, 0.5 ** len(users))
    return RandomisationTest(tuple((k, "auc") for k in done), tuple(drawn), smallest)


def _draw_aucs(
    scores: Sequence[Float[np.ndarray, " items"]],
    truth: Interactions,
    rng: np.random.Generator,
    draws: int,
) -> Float64[np.ndarray, "draws attacks"]:
    """The AUC of each attack on one user; all attacks see the same permutations."""
    acted = int(truth.acted.sum())
    left = len(truth.acted) - acted
    ranks = [stats.rankdata(score) for score in scores]
    worth = (np.array(ranks).reshape(len(scores), -1).T - (acted + 1) / 2) / (acted * left)
    everywhere = np.zeros(len(truth.acted), np.int64)
    return permute_within_groups(truth.acted.astype(np.float64), everywhere, rng, draws) @ worth


def _signs(users: int, rng: np.random.Generator) -> Float64[np.ndarray, "draws users"]:
    """Signs of users, the first row all plus: all combinations, or some where there are many."""
    draws = number_of_draws(users) + 1
    if 2**users <= draws:
        return 1.0 - 2.0 * ((np.arange(2**users)[:, None] >> np.arange(users)) & 1)
    signs = rng.choice([-1.0, 1.0], (draws, users))
    signs[0] = 1
    return signs
