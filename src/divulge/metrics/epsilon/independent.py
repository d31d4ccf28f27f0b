"""A sharper bound holds if independent Gaussian noise protects each record."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float64
from scipy import special

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

Shares = Float64[np.ndarray, "nodes nodes"]


def tail_bound(mu: float, records: int, top: int, bottom: int, hits: int) -> float:
    """The most that P(W ≥ hits) can be, if records are independent and each is μ-Gaussian private.

    The ``top`` highest scores are called members, the ``bottom`` lowest non-members. Records are
    drawn independently from a population, a fair coin makes each a member, and its score depends on
    it, its coin and noise of its own. Given the highest score that is not called a member, those
    above are right independently of each other, with a probability that depends on the share s of
    the population above it: at most TPR / 2s, where TPR is on the Gaussian curve and TPR + FPR =
    2s. The s of both ends have a Dirichlet distribution, whatever the scores are (order statistics
    of uniforms), so the binomial tail is averaged over it.

    Args:
        mu: the privacy of each record; 0 or more.
        records: the number of records; above ``top + bottom + 1``.
        top: the number of guesses at the upper end.
        bottom: the number of guesses at the lower end.
        hits: the number of right guesses.

    References:
        Dong, Roth and Su (2019), Gaussian differential privacy, definition 2.6. Hoeffding (1956),
        On the distribution of the number of successes in independent trials, theorem 4: unequal
        probabilities make the tail above the mean no heavier.

    Examples:
        >>> round(tail_bound(0.0, 100, 10, 10, 15), 4)  # a fair coin: 15 of 20 or more
        0.0207
    """
    guesses = top + bottom
    if guesses == 0:
        return 1.0
    # order statistics of uniforms: the share above the highest score that is not called a member
    upper = _beta_quantiles(top + 1, records - top)[:, None]
    lower = (1 - upper) * _beta_quantiles(bottom + 1, records - top - bottom - 1)[None]
    right = (top * _hit_probability(upper, mu) + bottom * _hit_probability(lower, mu)) / guesses
    # the binomial tail at the mean probability: Hoeffding's theorem 4
    within = special.betainc(hits, guesses - hits + 1, right) if hits > 0 else np.ones_like(right)
    within = np.where(hits - 1 >= guesses * right, within, 1.0)  # below the mean, no bound
    return float(_WEIGHTS @ within @ _WEIGHTS)


@lru_cache(maxsize=64)
def _beta_quantiles(a: int, b: int) -> Float64[np.ndarray, " nodes"]:
    """Quantiles of a beta variable at the nodes of a Gauss-Hermite rule, for a mean over it."""
    return np.asarray(special.betaincinv(a, b, special.ndtr(_NODES)))


def _hit_probability(share: np.ndarray, mu: float) -> np.ndarray:
    """The largest chance that a guess is right about this share of records, at one end."""
    low, high = np.full(share.shape, -9.0), np.full(share.shape, 9.0 + mu)
    for _ in range(40):  # the threshold beyond which this share lies, to 1e-11
        middle = (low + high) / 2
        more = special.ndtr(mu - middle) + special.ndtr(-middle) > 2 * share
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    # in logarithms: far out both probabilities underflow, and their ratio does not
    inside, outside = special.log_ndtr(mu - low), special.log_ndtr(-low)
    return np.asarray(special.expit(inside - outside))


def guesses_per_end(records: int) -> int:
    """The number of guesses at each end: three tenths of the records, none of three or fewer.

    For a Gaussian mechanism the bound hardly changes from two to four tenths.
    """
    return math.floor(0.3 * records)
