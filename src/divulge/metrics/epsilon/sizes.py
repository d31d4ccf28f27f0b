"""The number of guesses to count in a test of ε is fixed here, before any score is seen.

For each ε the number is chosen with which the weakest Gaussian leak would refute it. That
depends on the number of records, on ε, δ and the permitted error, and on nothing that was measured.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy import special

_TOGETHER = (8.0, 3.0, 1.5)
"""Probabilities of a run in which records leak together, in units of the permitted error."""


class GuessChoice(NamedTuple):
    """What a test of ε counts, and under which condition."""

    size: int
    """Number of guesses at both ends together."""
    condition: int
    """Index of the chosen condition among those offered."""


@lru_cache(maxsize=4096)
def choose_for_approximate_dp(
    epsilon: float, delta: float, records: int, conditions: tuple[tuple[float, float], ...]
) -> GuessChoice:
    """What to count in a test of (ε, δ)-differential privacy.

    Args:
        epsilon: the ε that is tested.
        delta: the δ of the same guarantee.
        records: the number of records.
        conditions: pairs of a slack, which adds to ε, and the error that is permitted with it.
    """
    sizes = _candidate_sizes(records)
    needed = []
    for slack, error in conditions:
        odds = float(special.expit(epsilon + slack))
        # exceptions that share one unlucky run, of probability ``error``; each is right anyway
        # with the odds of the others
        exceptions = records * delta / error * (1 - odds)
        hits = _most_by_chance(error, sizes, odds) + 1 + exceptions
        needed.append(_mu_needed(sizes, hits, records))
    which, size = np.unravel_index(np.argmin(needed), (len(needed), len(sizes)))
    return GuessChoice(int(sizes[size]), int(which))


@lru_cache(maxsize=4096)
def choose_for_gaussian_dp(mu: float, records: int, error: float) -> GuessChoice:
    """What to count in a test of μ-Gaussian differential privacy.

    Records may leak together in a few runs only, and more then: the hits that this permits
    are estimated from runs of several probabilities.
    """
    sizes = _candidate_sizes(records)
    hits = np.zeros(len(sizes))
    for chance in (1.0, *(min(1.0, times * error) for times in _TOGETHER)):
        right = _hit_probability(mu, chance * sizes / records)
        hits = np.maximum(hits, _most_by_chance(error / chance, sizes, right) + 1)
    return GuessChoice(int(sizes[np.argmin(_mu_needed(sizes, hits, records))]), 0)


def _most_by_chance(
    error: float, guesses: Int[np.ndarray, " sizes"], odds: float | Float64[np.ndarray, " sizes"]
) -> Int[np.ndarray, " sizes"]:
    """The fewest hits that are exceeded with no more than a probability; ``binom.isf`` of SciPy.

    That function alone would load all of ``scipy.stats``, which takes longer than a whole plan.
    """
    low, high = np.full(len(guesses), -1), guesses
    while (high - low > 1).any():
        middle = (low + high) // 2
        rare = special.betainc(middle + 1, guesses - middle, odds) <= error  # P(more than middle)
        low, high = np.where(rare, low, middle), np.where(rare, middle, high)
    return high


def _candidate_sizes(records: int) -> Int[np.ndarray, " sizes"]:
    return np.unique(np.geomspace(min(8, records), records, 32).astype(np.int64))


def _hit_probability(
    mu: float, share: Float64[np.ndarray, " sizes"]
) -> Float64[np.ndarray, " sizes"]:
    """The chance to be right under μ-Gaussian privacy in an event with this share of guesses."""
    low, high = np.full(len(share), 0.5), np.ones(len(share))
    for _ in range(40):
        middle = (low + high) / 2
        less = special.ndtri(share * middle) - special.ndtri(share * (1 - middle)) < mu
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return low


def _mu_needed(
    sizes: Int[np.ndarray, " sizes"], hits: Float64[np.ndarray, " sizes"], records: int
) -> Float64[np.ndarray, " sizes"]:
    """The weakest Gaussian leak, as a μ, that brings so many hits; infinite if none does."""
    # half a guess is kept from both ends, where the quantile is infinite
    share, right = sizes / records, np.clip(hits / sizes, 0.5, 1 - 0.5 / sizes)
    # how far apart two Gaussians are with these rates of true and false guesses
    needed = special.ndtri(right * share) - special.ndtri((1 - right) * share)
    return np.where(hits > sizes, np.inf, needed)
