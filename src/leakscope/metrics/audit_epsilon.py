"""A lower bound on the differential-privacy parameter, from one trained model.

If training is (ε, δ)-differentially private and membership was drawn at random, then whatever the
score of a record, the odds that it is a member are at most e^ε times the odds before anybody
looked, apart from a share δ of records. So among the k highest scores the number of members is at
most a binomial count with success odds e^ε · members / non-members; seeing too many refutes ε.
The same holds for non-members among the k lowest scores.

Several k are tried, from an eighth of all records downwards in steps of four. Each gets an equal
share of the permitted error (Bonferroni), so the bound holds for all of them together. Peers that
take the best of many thresholds without paying for the choice print positive "bounds" in 40 % of
runs on models that leak nothing.
"""

import math

import numpy as np

from leakscope.core import Estimate
from leakscope.metrics.intervals import CONFIDENCE, lower_limit
from leakscope.metrics.membership import Member, Score, Unmeasurable, split

SMALLEST_GROUP = 32
"""Smaller groups are not worth their share of the error: 32 of 32 right prove ε > 2.1 at best."""


def epsilon_lower_bound(
    score: Score, member: Member, delta: float = 0.0, confidence: float = CONFIDENCE
) -> Estimate:
    """The largest ε that the scores refute, zero if they refute none.

    Args:
        score: higher means more likely a member.
        member: drawn at random among the records, as in an honest audit.
        delta: the δ of the guarantee to be refuted; 0 bounds pure ε.
        confidence: the bound exceeds the true ε with probability ``1 - confidence`` at most.

    Returns:
        An estimate whose value is the bound itself and which has no upper end.

    References:
        Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run, theorem
        5.2, generalised here to unequal groups; Clopper-Pearson limits over thresholds.

    Raises:
        Unmeasurable: fewer than 256 records.
    """
    inside, outside = split(score, member)
    sizes = group_sizes(len(score))
    if not sizes:
        raise Unmeasurable(
            f"{len(score)} records cannot bound epsilon: give at least {8 * SMALLEST_GROUP}"
        )
    error = (1 - confidence) / (2 * len(sizes))
    if delta > 0:
        error *= 0.9  # the tenth pays for the exceptions that delta permits
    prior = len(inside) / len(outside)
    descending, ascending = np.sort(score)[::-1], np.sort(score)
    bounds = [0.0]
    for size in sizes:
        top = score >= descending[size - 1]  # all of a tie, or none
        bounds.append(
            _log_odds(top, member, error, _exceptions(len(inside), delta, error)) - math.log(prior)
        )
        bottom = score <= ascending[size - 1]
        bounds.append(
            _log_odds(bottom, ~member, error, _exceptions(len(outside), delta, error))
            + math.log(prior)
        )
    bound = max(bounds)
    return Estimate(bound, bound, None)


def group_sizes(records: int) -> list[int]:
    """The group sizes tried: an eighth of the records, and quarters of that down to 32.

    Examples:
        >>> group_sizes(4000)
        [500, 125]
    """
    sizes = []
    size = records // 8
    while size >= SMALLEST_GROUP:
        sizes.append(size)
        size //= 4
    return sizes


def _log_odds(group: Member, right: Member, error: float, exceptions: int) -> float:
    """The log odds of being right in the group, at their lower limit."""
    trials = int(group.sum())
    hits = max(0, int((group & right).sum()) - exceptions)
    share = lower_limit(hits, trials, error)
    return math.log(share / (1 - share)) if share > 0 else -math.inf


def _exceptions(records: int, delta: float, error: float) -> int:
    """How many records may escape the odds bound: a count exceeded with a tenth of the error.

    Each may with probability delta, and all may do so together, so nothing but their mean is
    known; the limit is Markov's.
    """
    return math.ceil(records * delta / (error / 9)) - 1 if delta > 0 else 0
