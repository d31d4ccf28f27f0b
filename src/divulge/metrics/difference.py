"""How much more one model leaks than another: differences of figures with their intervals."""

import math

import numpy as np
from jaxtyping import Bool

from divulge.core import Estimate
from divulge.metrics import auc_intervals, membership
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score, rank


def subtract(later: Estimate, earlier: Estimate, correlation: float = 0.0) -> Estimate:
    """The later figure less the earlier one, with the interval that both intervals give.

    The method of variance estimates recovery (MOVER): distances of the limits from the values add
    as deviations of correlated estimates do. The interval has the confidence of the two given.

    Args:
        later: a figure with both limits.
        earlier: the same figure of another audit, with both limits, at the same confidence.
        correlation: of the two estimates; 0 where they come from different records.

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures; for
        correlated estimates Zou (2007), Toward using confidence intervals to compare correlations.

    Examples:
        >>> one, other = Estimate(0.7, 0.66, 0.74), Estimate(0.6, 0.57, 0.63)
        >>> [round(limit, 3) for limit in (subtract(one, other).low, subtract(one, other).high)]
        [0.05, 0.15]
        >>> round(subtract(one, other, 0.75).low, 3)
        0.074
    """
    assert later.high is not None
    assert earlier.high is not None
    value = later.value - earlier.value
    below = _combine(later.value - later.low, earlier.high - earlier.value, correlation)
    above = _combine(later.high - later.value, earlier.value - earlier.low, correlation)
    return Estimate(value, value - below, value + above)


def _combine(first: float, second: float, correlation: float) -> float:
    # MOVER: distances of limits combine as deviations of correlated estimates do
    return math.sqrt(max(0.0, first**2 + second**2 - 2 * correlation * first * second))


def auc_correlation(later: Score, earlier: Score, member: Member) -> float:
    """How two AUCs of the same records go together, by DeLong's covariance; 0 if one cannot vary.

    Args:
        later: scores of one attack on one model.
        earlier: scores of the same records on another.
        member: which records are members, of both models.
    """
    covariance = auc_intervals.covariances([later, earlier], member)
    spread = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return max(-1.0, min(1.0, float(covariance[0, 1]) / spread)) if spread > 0 else 0.0


def paired_auc(
    score: Score, other: Score, member: Member, confidence: float = CONFIDENCE
) -> Estimate:
    """The AUC of one attack less that of another on the same candidates.

    Args:
        score: scores of the one.
        other: scores of the other.
        member: which candidates are members.
        confidence: the coverage of the interval, `subtract` with DeLong's covariance.

    Examples:
        >>> member = np.arange(8) < 4
        >>> found = paired_auc(np.arange(8.0)[::-1], np.arange(8.0), member)
        >>> found.value
        1.0
    """
    if _rank_alike(score, other):
        return Estimate(0.0, 0.0, 0.0)
    first, second = (membership.auc(each, member, confidence) for each in (score, other))
    return subtract(first, second, auc_correlation(score, other, member))


def paired_tpr(
    score: Score, other: Score, member: Member, fpr: float, confidence: float = CONFIDENCE
) -> Estimate:
    """The TPR of one attack at a FPR less that of another on the same candidates.

    Both TPRs vary with the members that were drawn, and, through their thresholds, with the
    non-members. The correlation of the two is between those of who is accused in either group; the
    lower one is taken, which makes the interval no shorter.

    Args:
        score: scores of the one.
        other: scores of the other.
        member: which candidates are members.
        fpr: the false-positive rate of both.
        confidence: the coverage of the interval, by `subtract`.

    References:
        Newcombe (1998), Improved confidence intervals for the difference between binomial
        proportions based on paired data, method 10: the correlation of paired proportions.

    Raises:
        Unmeasurable: see `membership.tpr_at_fpr`.
    """
    if _rank_alike(score, other):
        return Estimate(0.0, 0.0, 0.0)
    first, second = (
        membership.tpr_at_fpr(each, member, fpr, confidence) for each in (score, other)
    )
    accused = [_accuse(each, member, fpr) for each in (score, other)]
    alike = min(_correlate(*(mask[group] for mask in accused)) for group in (member, ~member))
    return subtract(first, second, alike)


def _rank_alike(score: Score, other: Score) -> bool:
    """Whether two attacks rank all candidates in the same order, so that they are one attack."""
    _, level = np.unique(score, return_inverse=True)
    _, other_level = np.unique(other, return_inverse=True)
    return bool(np.array_equal(level, other_level))


def _accuse(score: Score, member: Member, fpr: float) -> Bool[np.ndarray, " records"]:
    """Who scores at least as high as the threshold with at most this false-positive rate."""
    ranked = rank(score, member)
    corners = ranked.corners
    at, _ = corners.around(float(math.floor(fpr * corners.alarms[-1] + 1e-9)))
    if at == 0:
        return np.zeros(len(score), bool)
    accused: Bool[np.ndarray, " records"] = score >= ranked.score[ranked.last_of_tie[at - 1]]
    return accused


def _correlate(first: Bool[np.ndarray, " group"], second: Bool[np.ndarray, " group"]) -> float:
    """The correlation of two yes-or-no answers; 0 where one never varies."""
    spread = float(first.std() * second.std())
    if spread == 0:
        return 0.0
    covariance = float((first & second).mean() - first.mean() * second.mean())
    return max(-1.0, min(1.0, covariance / spread))
