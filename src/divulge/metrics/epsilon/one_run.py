"""If training is private, guesses about one training run are right only so often.

A fair coin decides for each of N records whether it is a member. From what training gives out, an
attack guesses about r of them. W of its guesses are right. How large can P(W ≥ v) be?

Let a(j) = P(W ≥ j). Take one record and one guess about it that is right while W ≥ j. Had its coin
fallen the other way, the same output would make this guess wrong and leave W ≥ j - 1. So privacy
bounds the first probability by the second, for each record and each way its coin falls. The curve
is concave, so the bound holds for the mean over records, over their coins and over all others':

    E[W; W ≥ j] / N  ≤  1 - f( E[r - W; W ≥ j - 1] / N )

Nothing is said about how records depend on each other. Both expectations are sums of a(j), so that
a(v), a(v + 1) = 0 and the inequality give the least that a(v - 1), a(v - 2), ... can be. If one of
them exceeds 1, P(W ≥ v) is less than the a(v) that was assumed.

References:
    Mahloujifar, Melis and Chaudhuri (2024), Auditing f-differential privacy in one run: the
    inequality; the recursion here is written for P(W ≥ j), theirs for sums over W.
    Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run, theorem 5.2.
"""

import math

import numpy as np
from jaxtyping import Float64, Int
from scipy import special

from divulge.metrics.epsilon.curves import TradeOffCurve

_MOST = 10_000
"""Most exceptions that are considered; where more matter, so many guesses are right that `is_rarer`
gives the same answer."""


def is_rarer(curve: TradeOffCurve, records: int, guesses: int, hits: int, chance: float) -> bool:
    """Whether so many hits are rarer than this chance under a trade-off curve.

    Args:
        curve: what training promises for adding or removing one record.
        records: the number of records, each a member by a fair coin of its own.
        guesses: the number of records that the attack guesses about.
        hits: the number of right guesses.
        chance: a probability above 0.

    Examples:
        >>> from divulge.metrics.epsilon.curves import approximate_dp_curve
        >>> is_rarer(approximate_dp_curve(2.5, 0.0), 100, 50, 50, 0.05)
        True
        >>> is_rarer(approximate_dp_curve(3.0, 0.0), 100, 50, 50, 0.05)
        False
    """
    reached, beyond = chance, 0.0  # a(j), and the sum of a(i) over i > j
    for j in range(hits, 0, -1):
        # E[W; W ≥ j] / N = (j a(j) + Σ a(i) over i > j) / N
        right = (j * reached + beyond) / records
        if right >= 1:
            return True
        beyond += reached
        # the inequality solved for a(j - 1)
        before = (records * curve(right) + beyond) / (guesses - j + 1)
        if before > 1:
            return True
        if before <= reached:  # a(j) stays as it is from here on
            return False
        reached = before
    return False


def steinke_tail_bound(
    epsilon: float, delta: float, records: int, guesses: int, hits: int
) -> float:
    """The most that P(W ≥ hits) can be under (ε, δ)-differential privacy.

    With δ = 0 each guess is right with odds e^ε at most, whichever others are, so the binomial
    tail bounds it. δ adds what i further hits, together in one run, would need in probability.

    Args:
        epsilon: ε of the guarantee for adding or removing one record.
        delta: δ of the same guarantee.
        records: see `is_rarer`.
        guesses: see `is_rarer`.
        hits: see `is_rarer`.

    Examples:
        >>> steinke_tail_bound(0.0, 0.0, 10, 4, 4)
        0.0625
    """
    odds = float(special.expit(epsilon))
    tail = float(_binomial_tail(np.array([hits]), guesses, odds)[0])
    if delta == 0:
        return tail
    # further away the probability hardly grows, and its share an exception only falls
    spread = 8 * math.sqrt(guesses * odds * (1 - odds))
    most = min(hits, max(1, math.ceil(hits - guesses * odds + spread)))
    if most > _MOST:
        return 1.0
    exceptions = np.arange(1, most + 1)
    each = (_binomial_tail(hits - exceptions, guesses, odds) - tail) / exceptions
    # theorem 5.2: δ buys i further hits in one run, at its best i
    return min(1.0, tail + 2 * records * delta * float(each.max(initial=0.0)))


def _binomial_tail(
    hits: Int[np.ndarray, " counts"], guesses: int, odds: float
) -> Float64[np.ndarray, " counts"]:
    """The upper tail of the binomial; SciPy's own object for it is many times slower."""
    tail = special.betainc(np.maximum(hits, 1), guesses - hits + 1, odds)
    return np.where(hits > 0, tail, 1.0)
