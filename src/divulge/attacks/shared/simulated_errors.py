"""How far off guesses of class shares are, by clients that the attacker simulates and knows."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial.distance import cdist

from divulge.core import Proportions, SimulatedErrors

ALIKE = 40
"""Number of simulated clients whose errors stand for those of a victim."""

SimulatedShares = Float64[np.ndarray, "clients classes"]
SimulatedNulls = Bool[np.ndarray, "clients classes"]
Distances = Float64[np.ndarray, " clients"]


class SimulatedGuesses(NamedTuple):
    """Guesses about simulated clients, each learned from others, and what these clients hold."""

    share: SimulatedShares
    null: SimulatedNulls
    true_share: SimulatedShares
    """The shares that they hold."""

    def errors_like(self, guess: Proportions, far: float) -> SimulatedErrors:
        """Errors of the clients whose guesses are nearest to this one.

        What counts as near depends on the guess, so on the update alone. Among clients whose
        updates lead to such a guess, a victim is one more: its error is exchangeable with theirs
        if its mix and its records are drawn alike. Neighbours stand for a category that is fixed
        beforehand, and classes in other shares than theirs are beyond them: so an approximation,
        whose coverage is measured.

        Args:
            guess: about a victim.
            far: see `SimulatedErrors`.

        References:
            Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world, section 4.5
            (categories in which clients are exchangeable).
        """
        off = np.abs(self.share - guess.share).sum(axis=1)
        near = np.argsort(off, kind="stable")[:ALIKE]
        share, null, true_share = (part[near] for part in self)
        lacks = true_share == 0
        counts = [null, null & ~lacks, lacks, lacks & ~null]
        return SimulatedErrors(
            near,
            np.abs(share - true_share).sum(axis=1),
            np.abs(1 / true_share.shape[1] - true_share).sum(axis=1),
            np.column_stack([part.sum(axis=1) for part in counts]),
            far,
        )


def nearest_distances(
    simulated: Float64[np.ndarray, "clients features"],
    victims: Float64[np.ndarray, "victims features"],
) -> tuple[Distances, Float64[np.ndarray, " victims"]]:
    """Distances of simulated clients to the nearest other, and of victims to the nearest of them.

    Each feature is divided by its deviation among simulated clients.
    """
    spread = simulated.std(axis=0)
    # 1e-12: what never changes tells nothing, and rounding of it is no distance
    varies = spread > 1e-12 * np.abs(simulated).max(axis=0)
    inside, outside = (part[:, varies] / spread[varies] for part in (simulated, victims))
    between = cdist(inside, inside)
    np.fill_diagonal(between, np.inf)
    return between.min(axis=1), cdist(outside, inside).min(axis=1)


def far_p_value(mine: float, others: Distances) -> float:
    """P-value of the hypothesis that a victim's distance is one more of simulated clients'.

    Examples:
        >>> far_p_value(2.0, np.array([1.0, 1.5, 3.0]))
        0.5
    """
    return float((1 + (others >= mine).sum()) / (1 + len(others)))


def evenness_p_value(
    guess: Float64[np.ndarray, " classes"], even: Float64[np.ndarray, "clients classes"]
) -> float:
    """P-value of the hypothesis that a client holds equally many records of each class.

    Args:
        guess: guessed shares of the victim.
        even: guessed shares of simulated clients that hold equally many, each by a fit without it.
    """
    spread = np.abs(even - 1 / even.shape[1]).sum(axis=1)
    mine = np.abs(guess - 1 / len(guess)).sum()
    return float((1 + (spread >= mine).sum()) / (1 + len(spread)))
