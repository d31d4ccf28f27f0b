"""How far off guesses of class shares are, by clients that the attacker simulates and knows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from sklearn.covariance import LedoitWolf

from divulge.core import Proportions, SimulatedErrors

ALIKE = 40
"""Number of simulated clients whose errors stand for those of a victim."""

_RIDGE = 0.1
"""Of the regression of lengths, whose columns are from 0 to 1."""

_LEAST = 1e-12
"""Least length: smaller ones are rounding."""

SimulatedShares = Float64[np.ndarray, "clients classes"]
SimulatedNulls = Bool[np.ndarray, "clients classes"]


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
        if its mix and its records are drawn alike. Neighbours stand for a fixed category, and
        victims may hold mixes of another kind: so an approximation, whose coverage is measured.

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


def likeness_p_values(
    guesses: SimulatedShares,
    lengths: Float64[np.ndarray, "clients changes"],
    victims: Float64[np.ndarray, "victims classes"],
    of_victims: Float64[np.ndarray, "victims changes"],
) -> Float64[np.ndarray, " victims"]:
    """P-values of the hypothesis that victims train as simulated clients do.

    What a client holds moves some weights further than others. So the lengths of changes are
    regressed on guesses about simulated clients, each left out of its own fit. What that leaves
    of a client is measured in the covariance of what it leaves of all (Mahalanobis). Its rank
    among simulated clients is the p-value.

    Args:
        guesses: guessed shares of simulated clients, each by a fit without it.
        lengths: logarithms of the lengths of simulated clients' changes, by tensor and round.
        victims: guessed shares of victims.
        of_victims: logarithms of the lengths of their changes.
    """
    rows, at = _basis(guesses), _basis(victims)
    inverse = np.linalg.inv(rows.T @ rows + _RIDGE * np.eye(rows.shape[1]))
    weights = inverse @ rows.T @ lengths
    leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    inside = (lengths - rows @ weights) / (1 - leverage)[:, None]
    outside = of_victims - at @ weights
    fitted = LedoitWolf().fit(inside)
    own, of_each = (fitted.mahalanobis(part) for part in (inside, outside))
    higher = (own >= of_each[:, None]).sum(axis=1)
    p_values: Float64[np.ndarray, " victims"] = (1 + higher) / (1 + len(own))
    return p_values


def log_lengths(
    changes: Sequence[Float64[np.ndarray, "clients _"]],
) -> Float64[np.ndarray, "clients changes"]:
    """Logarithms of the lengths of clients' changes; those of none at all are very low."""
    lengths = [np.linalg.norm(change, axis=1) for change in changes]
    logarithms: Float64[np.ndarray, "clients changes"] = np.log(
        np.maximum(np.column_stack(lengths), _LEAST)
    )
    return logarithms


def _basis(share: Float64[np.ndarray, "clients _"]) -> Float64[np.ndarray, "clients columns"]:
    """What lengths of changes are regressed on: shares, how large they are and how uneven."""
    columns: Float64[np.ndarray, "clients columns"] = np.column_stack([
        np.ones(len(share)), share, share**2, np.sqrt(share)
    ])  # fmt: skip
    return columns


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
