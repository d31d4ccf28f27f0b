"""Models that are each other's shadows: how far a figure of one goes along with that of another.

Where an attack on one model reads what the others were trained on, two models share more than the
records: LiRA's score of a record grows with the product of what it says of both. Then figures of
several models spread less than their mean varies, and Student's interval of the mean is too short.

Each figure is, but for small terms, a mean over records, to which each record adds its influence.
Records were drawn by coins of their own. So the covariance of two models' figures is the sum, over
records, of the product of both influences, as DeLong's covariance of two attacks on one model is.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from divulge.metrics import measure
from divulge.metrics.membership import Member, RankedScores, Score, rank

Influence = Float64[np.ndarray, " records"]


def covariance_between(influences: Sequence[Influence]) -> float:
    """The covariance of one metric between any two models, on average over all pairs.

    It counts records as drawn anew: where they differ in how exposed they are, it is larger than
    for other models on these very records.

    Args:
        influences: one array a model, two or more, of the same records in the same order.

    References:
        DeLong et al. (1988), Comparing the areas under two or more correlated receiver operating
        characteristic curves, equations 5 and 6.
    """
    each = np.stack(influences)
    pairs = len(each) * (len(each) - 1)
    # products of all pairs of models: the square of the sum less the squares
    return float((np.square(each.sum(0)).sum() - np.square(each).sum()) / pairs)


def influence(name: str, score: Score, member: Member) -> Influence:
    """How far each record moves a metric of a guess away from its mean; they add up to zero.

    Args:
        name: one of `divulge.metrics.measure.METRICS` but ``epsilon``.
        score: score of every candidate.
        member: true for the candidates that are members.

    Raises:
        DataError: a score is not finite, or a group is empty.
    """
    ranked = rank(score, member)
    by_record = np.empty(len(score))
    by_record[ranked.order] = _by_rank(name, ranked)
    return by_record


def _by_rank(name: str, ranked: RankedScores) -> Influence:
    """As `influence`, in the order of the scores."""
    if name == "auc":
        return _of_auc(ranked)
    if name == "advantage":
        return _of_advantage(ranked)
    if name == "balanced_accuracy":
        return _of_advantage(ranked) / 2
    kind, _, at = name.partition("@")
    rate, _, prior = at.partition(":")
    tpr = _of_tpr(ranked, float(rate))
    if kind == "tpr":
        return tpr
    return _slope_of_precision(ranked, float(rate), float(prior)) * tpr


def _of_auc(ranked: RankedScores) -> Influence:
    """DeLong's: the share of the other group that a record is on the right side of."""
    corners, inside = ranked.corners, ranked.member
    ties = np.diff(ranked.last_of_tie, prepend=-1)
    alarms = np.repeat((corners.alarms[1:] + corners.alarms[:-1]) / 2, ties)
    hits = np.repeat((corners.hits[1:] + corners.hits[:-1]) / 2, ties)
    right = np.where(inside, 1 - alarms / corners.alarms[-1], hits / corners.hits[-1])
    return _centred(right, inside)


def _of_tpr(ranked: RankedScores, fpr: float) -> Influence:
    """Members count by themselves; a non-member moves the threshold along the curve."""
    corners = ranked.corners
    allowed = fpr * int(corners.alarms[-1])
    reach = np.sqrt(allowed * (1 - fpr))
    ends = max(0.0, allowed - reach), min(allowed + reach, float(corners.alarms[-1]))
    rise = (corners.hits_at(ends[1]) - corners.hits_at(ends[0])) / corners.hits[-1]
    slope = rise * corners.alarms[-1] / (ends[1] - ends[0])
    moved = _centred(_accused(ranked, allowed), ranked.member)
    return np.where(ranked.member, moved, -slope * moved)


def _accused(ranked: RankedScores, alarms: float) -> Influence:
    """The chance of each record to be accused along with so many non-members."""
    corners = ranked.corners
    start, end = corners.around(alarms)
    first, last = (int(corners.alarms[k] + corners.hits[k]) for k in (start, end))
    accused = np.zeros(len(ranked.score))
    accused[:first] = 1.0
    if first < last:
        tied = corners.alarms[end] - corners.alarms[start]
        accused[first:last] = (alarms - corners.alarms[start]) / tied
    return accused


def _of_advantage(ranked: RankedScores) -> Influence:
    """That of the best threshold, which small changes do not move."""
    accused = (ranked.score >= measure.best_threshold(ranked)).astype(np.float64)
    moved = _centred(accused, ranked.member)
    return np.where(ranked.member, moved, -moved)


def _slope_of_precision(ranked: RankedScores, fpr: float, prior: float) -> float:
    """How fast the precision grows with the TPR."""
    hits = ranked.corners.hits_at(fpr * int(ranked.corners.alarms[-1]))
    accused = prior * hits / int(ranked.corners.hits[-1]) + (1 - prior) * fpr
    # derivative of prior · TPR / (prior · TPR + (1 - prior) · FPR) by the TPR
    return prior * (1 - prior) * fpr / accused**2


def _centred(value: Influence, member: Member) -> Influence:
    """Each record's share in the difference of its group's mean from the truth."""
    centred = np.empty(len(value))
    for group in (member, ~member):
        centred[group] = (value[group] - value[group].mean()) / group.sum()
    return centred
