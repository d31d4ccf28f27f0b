"""The bound on ε of Xiang et al., written from their formula, to hold divulge's bounds against.

Of n records an attack releases the r guesses that it is surest of. If records are independent and
all alike, the u or fewer errors among them have the probability

    E[ P(Bin(r, g(W)) ≤ u) ],   W ~ Beta(n - r, r + 1),

where W is the quantile of the first guess that is not released, and g(W) is the mean error above
it of the best attack on the mechanism that is to be refuted.

Xiang, Wang, Xiao, Tian and Wang (2025), Tight privacy audit in one run, arXiv 2509.08704, theorem
2, as their own program computes it.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy import special, stats

from divulge.metrics.epsilon.curves import gaussian_epsilon

Family = Literal["gaussian", "approximate"]
"""Mechanisms that are refuted: Gaussian noise, or the worst one that is (ε, δ)-private."""

_ERROR = 0.05
_LEVELS = (np.arange(200) + 0.5) / 200
"""Probabilities whose quantiles of W stand for its distribution."""

_MOST = {"gaussian": 8.0, "approximate": 20.0}

Shares = Float64[np.ndarray, " levels"]


def bound(
    score: np.ndarray,
    member: np.ndarray,
    delta: float,
    released: int,
    family: Family,
    rng: np.random.Generator,
) -> float:
    """The largest ε that they refute with as many guesses at both ends of the scores.

    Args:
        score: one score a record; ties are ordered at random.
        member: who is a member, by a fair coin for each record.
        delta: the δ of the guarantee.
        released: the number of guesses, fixed before the scores are known.
        family: what is refuted.
        rng: orders the ties.
    """
    ranked = member[np.lexsort((rng.random(len(score)), -score))]
    half = released // 2
    top, bottom = ranked[: released - half], ranked[len(ranked) - half :]
    errors = int(np.sum(~top) + np.sum(bottom))
    low, high = 0.0, _MOST[family]
    for _ in range(25):
        middle = (low + high) / 2
        refuted = tail(_error(family, middle, delta), len(score), released, errors) <= _ERROR
        low, high = (middle, high) if refuted else (low, middle)
    return gaussian_epsilon(low, delta) if family == "gaussian" else low


def tail(error: Callable[[Shares], Shares], records: int, released: int, errors: int) -> float:
    """The probability of so few errors, or fewer.

    Args:
        error: the mean error of the best attack on the share of records that it is surest of.
        records: the number of records.
        released: the number of guesses that count; fewer than all.
        errors: the number of wrong ones among them.
    """
    share = special.betaincinv(released + 1, records - released, _LEVELS)  # 1 - W
    return float(np.mean(stats.binom.cdf(errors, released, error(share))))


def _error(family: Family, parameter: float, delta: float) -> Callable[[Shares], Shares]:
    if family == "gaussian":
        return lambda share: gaussian_error(parameter, share)
    # a share δ of all records is exposed, and guessed first
    return lambda share: special.expit(-parameter) * np.maximum(0.0, share - delta) / share


def gaussian_error(mu: float, share: Shares) -> Shares:
    """The mean error on the records furthest from the middle of N(0, 1) and N(μ, 1)."""
    near, far = np.zeros(len(share)), np.full(len(share), 9.0 + mu)
    for _ in range(50):
        middle = (near + far) / 2
        more = special.ndtr(-middle - mu / 2) + special.ndtr(mu / 2 - middle) > share
        near, far = np.where(more, middle, near), np.where(more, far, middle)
    return np.asarray(special.ndtr(-near - mu / 2) / share)
