"""How much more one model leaks than another: differences of figures with their intervals."""

import math

import numpy as np

from divulge.core import Estimate
from divulge.metrics import delong
from divulge.metrics.membership import Member, Score


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
    covariance = delong.covariances(np.stack([later, earlier]), member)
    spread = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return max(-1.0, min(1.0, float(covariance[0, 1]) / spread)) if spread > 0 else 0.0
