"""Tests whether guesses of what users acted on beat guesses that know nothing of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from divulge.core import Interactions, Reconstruction
from divulge.metrics import membership
from divulge.metrics.interactions import is_mixed
from divulge.metrics.uninformed.draws import RandomisationTest, number_of_draws

FEWEST = 5
"""Number of users from which on a leak can be shown: fewer give no p-value of 5 % or less."""


@dataclass(frozen=True, slots=True)
class BeyondPublic:
    """What an attack's guess owes to nothing public, by user; 0 and 0.5 for users left out."""

    correlation: Float64[np.ndarray, " users"]
    """What covariates leave of the guess and of what was acted on, correlated, see
    `divulge.metrics.conditional`."""
    shuffled: Float64[np.ndarray, " users"] | None = None
    """The AUC of the attack's guess on an update of shuffled interactions, against the real ones;
    None if there is no such update."""


@dataclass(frozen=True, slots=True)
class SimulatedClicks:
    """How an attack does on a simulated twin of each user, who clicks at random."""

    auc: Float64[np.ndarray, " users"]
    """Of the guess about each twin, against its clicks."""
    longer: Float64[np.ndarray, " users"]
    """Logarithm of the length of the real update over that of the twin's."""


def randomise(
    guesses: Sequence[Sequence[Reconstruction] | None],
    truths: Sequence[Interactions],
    rng: np.random.Generator,
    beyond: Sequence[BeyondPublic | None] = (),
) -> RandomisationTest:
    """Draw what guesses achieve if they know no more than what is public of what users acted on.

    The items of a user are alike: who follows their features at random is right about many at
    once, or wrong. So each user counts once. What an attack achieves on a user changes its sign at
    random, in two ways of which a leak must stand out in both:

    * The AUC, less that of the same attack on an update of shuffled interactions. That is valid
      where the guess is as good without the update, whatever else it knows, such as what is
      popular. Without such an update, 0.5 is subtracted: then the guess must be as often right as
      wrong.
    * The correlation of the guess and the truth that public covariates leave. That is valid where
      the covariates say all that the guess and the truth have in common, and also where a defence
      makes updates unlike shuffled ones.

    Args:
        guesses: the guesses of each attack, one a user; None for an attack that is not done.
        truths: what each user acted on; users who acted on all items or on none are left out.
        rng: draws signs.
        beyond: of each attack, what its guess owes to nothing public. Where one that is done is
            without it, nothing can be decided: nobody can tell what it owes to public knowledge.
    """
    users = [u for u, truth in enumerate(truths) if is_mixed(truth)]
    known = [*beyond, *[None] * (len(guesses) - len(beyond))]
    done = [(k, guess, known[k]) for k, guess in enumerate(guesses) if guess is not None]
    columns = tuple((k, "auc") for k, _, _ in done)
    excess, left = np.zeros((len(users), len(done))), np.zeros((len(users), len(done)))
    for at, (_, guess, owed) in enumerate(done):
        if owed is None:
            continue
        aucs = np.array([membership.auc(guess[u].score, truths[u].acted).value for u in users])
        excess[:, at] = aucs - (0.5 if owed.shuffled is None else owed.shuffled[users])
        left[:, at] = owed.correlation[users]
    signs = _signs(len(users), rng)
    mean = signs / max(1, len(users))
    smallest = 1.0 if any(owed is None for _, _, owed in done) else 0.5 ** len(users)
    return RandomisationTest(columns, (0.5 + mean @ excess, mean @ left), smallest)


def _signs(users: int, rng: np.random.Generator) -> Float64[np.ndarray, "draws users"]:
    """Signs of users, the first row all plus: all combinations, or some where there are many."""
    draws = number_of_draws(users) + 1
    if 2**users <= draws:
        return 1.0 - 2.0 * ((np.arange(2**users)[:, None] >> np.arange(users)) & 1)
    signs = rng.choice([-1.0, 1.0], (draws, users))
    signs[0] = 1
    return signs
