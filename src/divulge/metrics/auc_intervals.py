"""Areas under ROC curves with their intervals, for many splits of the same records at once.

And the covariances of the areas of several attacks on the same records.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Shaped
from scipy import special

from divulge.metrics.intervals import CONFIDENCE, normal_quantile

Counts = Float64[np.ndarray, "splits levels"]
"""How many records of a group have each of the distinct scores, which ascend."""


class Areas(NamedTuple):
    """The AUC of each split, with the limits of its interval."""

    value: Float64[np.ndarray, " splits"]
    low: Float64[np.ndarray, " splits"]
    high: Float64[np.ndarray, " splits"]


def areas(
    score: Float[np.ndarray, " records"],
    members: Bool[np.ndarray, "splits records"],
    confidence: float = CONFIDENCE,
) -> Areas:
    """The AUC of each row of members, with the interval that `membership.auc` explains.

    Scores are sorted once, however many splits there are, and from then on counted.

    Args:
        score: one finite score a record; higher means more likely a member.
        members: true for the members of each split; in each, at least one record is a member and
            one is not.
        confidence: the coverage of the intervals.

    References:
        DeLong et al. (1988), Comparing the areas under two or more correlated receiver operating
        characteristic curves, equations 3 to 5; Agresti and Caffo (2000).
    """
    distinct, level = np.unique(score, return_inverse=True)
    split, record = np.nonzero(members)
    shape = len(members), len(distinct)
    place = split * len(distinct) + level[record]
    inside = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    return areas_of_counts(inside, np.bincount(level) - inside, confidence)


def areas_of_counts(
    inside: Shaped[np.ndarray, "splits levels"],
    outside: Shaped[np.ndarray, "splits levels"],
    confidence: float = CONFIDENCE,
) -> Areas:
    """See `areas`. Counts that are floating-point numbers are overwritten.

    Args:
        inside: how many members of each split have each of the distinct scores, which ascend.
        outside: the same of non-members.
        confidence: the coverage of the intervals.
    """
    inside, outside = (group.astype(np.float64, copy=False) for group in (inside, outside))
    value, low, high = _delong(inside, outside, confidence)
    if inside.shape[1] == 1:  # no ends: records beyond it keep its interval from being a point
        inside, outside = (np.pad(group, ((0, 0), (1, 1))) for group in (inside, outside))
    for group in (inside, outside):
        # Agresti and Caffo's idea for an AUC: one record more at either end of each group
        group[:, [0, -1]] += 1
    _, lower, higher = _delong(inside, outside, confidence)
    return Areas(
        value, np.minimum.reduce([value, low, lower]), np.maximum.reduce([value, high, higher])
    )


def _delong(inside: Counts, outside: Counts, confidence: float) -> Areas:
    """The interval on the logit scale; a point where no variance shows."""
    m, n = inside.sum(1), outside.sum(1)
    above = _share_lower(outside, n)  # a member: non-members below it
    value = np.einsum("sl,sl->s", inside, above) / m
    # eqs. 3 to 5: variances of both groups' placements, each over its number
    spread = _variance(inside, above, value, m)
    del above
    below = 1 - _share_lower(inside, m)  # a non-member: members above it
    spread += _variance(outside, below, value, n)
    shown = (np.minimum(m, n) > 1) & (spread > 0) & (value > 0) & (value < 1)
    centre = special.logit(value[shown])
    # delta method: the logit's derivative at the AUC is 1 / (AUC (1 - AUC))
    half = normal_quantile(confidence) * np.sqrt(spread[shown]) / (value * (1 - value))[shown]
    low, high = value.copy(), value.copy()
    low[shown], high[shown] = special.expit(centre - half), special.expit(centre + half)
    return Areas(value, low, high)


def _share_lower(
    count: Counts, size: Float64[np.ndarray, " splits"]
) -> Float64[np.ndarray, "splits levels"]:
    """The share of a group below each of the scores; ties count half."""
    share: Float64[np.ndarray, "splits levels"] = np.cumsum(count, 1)
    share -= count / 2
    share /= size[:, None]
    return share


def _variance(
    count: Counts,
    share: Float64[np.ndarray, "splits levels"],
    mean: Float64[np.ndarray, " splits"],
    size: Float64[np.ndarray, " splits"],
) -> Float64[np.ndarray, " splits"]:
    """The variance of a mean of shares, which are overwritten."""
    share -= mean[:, None]
    share *= share
    squares = np.einsum("sl,sl->s", count, share)
    return np.asarray(squares / np.maximum(size - 1, 1) / size)


def covariances(
    scores: Collection[Float[np.ndarray, " records"]], member: Bool[np.ndarray, " records"]
) -> Float64[np.ndarray, "attacks attacks"]:
    """The covariance of the AUCs of any two attacks on the same records.

    Args:
        scores: of each attack, one finite score a record; higher means more likely a member.
        member: true for members; at least one record is a member and one is not.

    References:
        DeLong et al. (1988), as for `areas`, equations 4 to 6; Sun and Xu (2014), Fast
        implementation of DeLong's algorithm.
    """
    total = np.zeros((len(scores), len(scores)))
    for group, others in ((member, ~member), (~member, member)):
        share = np.empty((len(scores), int(group.sum())))
        for own, score in zip(share, scores, strict=True):
            own[:] = _share_below(score[others], score[group])
        share -= share.mean(1, keepdims=True)
        # eqs. 4 to 6: the placements' covariances, added over both groups
        total += share @ share.T / max(1, share.shape[1] - 1) / share.shape[1]
    return total


def _share_below(
    others: Shaped[np.ndarray, " others"], score: Shaped[np.ndarray, " group"]
) -> Float64[np.ndarray, " group"]:
    """The share of the others that score lower; ties count half."""
    ranked, order = np.sort(others), np.argsort(score)
    ascending = score[order]  # in their order, which a cache likes
    below = np.searchsorted(ranked, ascending, "left") + np.searchsorted(ranked, ascending, "right")
    share: Float64[np.ndarray, " group"] = np.empty(len(score))
    share[order] = below / (2 * len(others))
    return share
