"""Confidence intervals for proportions, and the way to combine two of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from scipy import special

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


def normal_quantile(confidence: float) -> float:
    """The two-sided standard normal quantile: 1.96 for 95 %."""
    return float(special.ndtri(0.5 + confidence / 2))


def clopper_pearson(hits: int | float, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The exact interval of a proportion.

    Args:
        hits: successes seen, 0 to ``trials``; a mean of several counts may be no whole number.
        trials: independent trials, at least 1.
        confidence: the coverage promised; the true one is never lower.

    References:
        Clopper and Pearson (1934), The use of confidence or fiducial limits.

    Examples:
        >>> clopper_pearson(0, 100)
        Interval(low=0.0, high=0.036216...)
    """
    tail = (1 - confidence) / 2
    return Interval(lower_limit(hits, trials, tail), 1 - lower_limit(trials - hits, trials, tail))


def lower_limit(hits: int | float, trials: int | float, error: float) -> float:
    """The exact one-sided lower limit of a proportion, wrong with probability ``error`` at most."""
    return float(special.betaincinv(hits, trials - hits + 1, error)) if hits > 0 else 0.0


def wilson(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The score interval of a proportion: shorter than the exact one, right on average.

    References:
        Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    z2 = normal_quantile(confidence) ** 2
    share = hits / trials
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Student's interval of the mean of independent values, two or more, about normal.

    References:
        Student (1908), The probable error of a mean.

    Examples:
        >>> [round(limit, 3) for limit in mean([1.0, 2.0, 3.0])]
        [-0.484, 4.484]
    """
    n = len(values)
    centre = sum(values) / n
    variance = sum((value - centre) ** 2 for value in values) / (n - 1)
    half = float(special.stdtrit(n - 1, 0.5 + confidence / 2)) * math.sqrt(variance / n)
    return Interval(centre - half, centre + half)


def clustered(
    hits: Int[np.ndarray, " groups"],
    trials: Int[np.ndarray, " groups"],
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of a proportion whose trials come in groups, each group alike within.

    The exact interval of so many independent trials as would vary as much as the groups do. Where
    the groups do not vary at all, nothing shows how alike their trials are: then each counts once.

    Args:
        hits: successes in each group.
        trials: trials in each group, above 0; two groups or more.
        confidence: the coverage promised, approximately: of ten groups, 92 % instead of 95 %
            where trials of a group nearly always end alike.

    References:
        Korn and Graubard (1998), Confidence intervals for proportions with small expected number
        of positive counts estimated from survey data, section 2.
    """
    groups, total = len(trials), int(trials.sum())
    share = float(hits.sum() / total)
    spread = float(((hits - share * trials) ** 2).sum())
    variance = groups / (groups - 1) * spread / total**2
    worth = float(groups)
    if variance > 0 and 0 < share < 1:
        quantiles = [float(special.stdtrit(n - 1, 0.5 + confidence / 2)) for n in (total, groups)]
        worth = min(share * (1 - share) / variance * (quantiles[0] / quantiles[1]) ** 2, total)
    tail = (1 - confidence) / 2
    low = lower_limit(share * worth, worth, tail)
    return Interval(low, 1 - lower_limit((1 - share) * worth, worth, tail))


def combine(value: float, *parts: Interval) -> Interval:
    """The interval of a value that is uncertain for several independent reasons.

    Each part is the interval that one reason alone would give around the same value; their
    distances from it add in quadrature (the method of variance estimates recovery, MOVER).

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures, eq. 4.
    """
    below = math.hypot(*(value - part.low for part in parts))
    above = math.hypot(*(part.high - value for part in parts))
    return Interval(value - below, value + above)
