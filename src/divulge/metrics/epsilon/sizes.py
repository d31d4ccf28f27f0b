"""How many guesses are counted when an ε is tested: fixed before any score is seen.

For each ε the number is chosen with which the weakest Gaussian leak would refute it. That
depends on the number of records, on ε, δ and the permitted error, and on nothing that was measured.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float64, Int
from scipy import special, stats

_TOGETHER = (8.0, 3.0, 1.5)
"""How probable a run is in which records leak together, in units of the permitted error."""


@lru_cache(maxsize=4096)
def approximate(epsilon: float, delta: float, records: int, error: float) -> int:
    """Guesses at both ends together, for a test of (ε, δ)-differential privacy."""
    sizes = _candidates(records)
    odds = float(special.expit(epsilon))
    # exceptions that share one unlucky run, of probability ``error``; each is right anyway with
    # the odds of the others
    exceptions = records * delta / error * (1 - odds)
    hits = np.asarray(stats.binom.isf(error, sizes, odds) + 1 + exceptions)
    return _weakest(sizes, hits, records)


@lru_cache(maxsize=4096)
def gaussian(mu: float, records: int, error: float) -> int:
    """Guesses at both ends together, for a test of μ-Gaussian differential privacy.

    Records may leak together in a few runs only, and more then: the hits that this permits
    are estimated from runs of several probabilities.
    """
    sizes = _candidates(records)
    hits = np.zeros(len(sizes))
    for chance in (1.0, *(min(1.0, times * error) for times in _TOGETHER)):
        right = _right(mu, chance * sizes / records)
        hits = np.maximum(hits, stats.binom.isf(error / chance, sizes, right) + 1)
    return _weakest(sizes, hits, records)


def _candidates(records: int) -> Int[np.ndarray, " sizes"]:
    return np.unique(np.geomspace(min(8, records), records, 32).astype(np.int64))


def _right(mu: float, share: Float64[np.ndarray, " sizes"]) -> Float64[np.ndarray, " sizes"]:
    """The chance to be right under μ-Gaussian privacy in an event with this share of guesses."""
    low, high = np.full(len(share), 0.5), np.ones(len(share))
    for _ in range(40):
        middle = (low + high) / 2
        less = special.ndtri(share * middle) - special.ndtri(share * (1 - middle)) < mu
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return low


def _weakest(
    sizes: Int[np.ndarray, " sizes"], hits: Float64[np.ndarray, " sizes"], records: int
) -> int:
    """The size whose hits the weakest Gaussian leak brings."""
    share, right = sizes / records, np.clip(hits / sizes, 0.5, 1 - 0.5 / sizes)
    needed = special.ndtri(right * share) - special.ndtri((1 - right) * share)
    return int(sizes[np.argmin(np.where(hits > sizes, np.inf, needed))])
