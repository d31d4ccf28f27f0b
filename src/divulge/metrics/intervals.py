"""These functions give confidence intervals of proportions and means, and combine intervals."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int
from scipy import optimize, special

from divulge._util.random import stream

CONFIDENCE = 0.95

_DRAWS = 100_000
"""Draws for a quantile of the joint normal distribution."""


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


def normal_quantile(confidence: float) -> float:
    """The two-sided standard normal quantile: 1.96 for 95 %."""
    return float(special.ndtri(0.5 + confidence / 2))


def simultaneous_confidence(
    covariance: Float64[np.ndarray, "figures figures"], confidence: float = CONFIDENCE
) -> float:
    """The confidence of each interval with which the intervals of several figures hold at once.

    The figures are about jointly normal, and only their correlations matter. The more they are
    correlated, the less is lost: from Bonferroni's confidence, which is never exceeded, down to
    that of a single figure. A figure without variance counts as independent of all others, which
    is the worst case (Šidák 1967).

    The equicoordinate quantile is that of 100,000 fixed draws. Its standard error is 0.006, so the
    coverage is off by less than 0.001.

    Args:
        covariance: of the figures, as estimated.
        confidence: the coverage promised for all intervals together.

    References:
        Hothorn, Bretz and Westfall (2008), Simultaneous inference in general parametric models,
        section 3; Šidák (1967), Rectangular confidence regions for the means of multivariate
        normal distributions.

    Examples:
        >>> each = [simultaneous_confidence((1 - r) * np.eye(12) + r) for r in (0, 0.8, 0.9, 1)]
        >>> [round(normal_quantile(one), 1) for one in each]
        [2.9, 2.6, 2.4, 2.0]
    """
    count = len(covariance)
    spread = np.sqrt(np.diag(covariance))
    scale = np.divide(1, spread, out=np.zeros(count), where=spread > 0)
    correlation = covariance * scale * scale[:, None]
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    # of all roots the symmetric one: it is the same whatever vectors belong to values that tie
    root = vectors * np.sqrt(np.clip(values, 0.0, None)) @ vectors.T
    limit = np.quantile(np.abs(root @ _draw(count, _DRAWS)).max(0), confidence)
    each = 1 - 2 * float(special.ndtr(-limit))
    return min(max(confidence, each), 1 - (1 - confidence) / count)


@lru_cache(1)  # a history has many audits of the same attacks
def _draw(count: int, draws: int) -> Float64[np.ndarray, "count draws"]:
    return stream(0, "metrics", "simultaneous", count).standard_normal((count, draws))


def clopper_pearson(hits: int | float, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The exact interval of a proportion.

    Args:
        hits: number of successes, 0 to ``trials``; a mean of several counts may be fractional.
        trials: number of independent trials, at least 1.
        confidence: the coverage promised; the true coverage is never lower.

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


def student_mean(
    values: Sequence[float], confidence: float = CONFIDENCE, covariance: float = 0.0
) -> Interval:
    """Student's interval of the mean of values, two or more, about normal.

    Values of which any two have a positive covariance spread less than their mean varies: the
    variance of the mean is the usual one plus that covariance, which is taken as known. Student's
    degrees of freedom grow with its share, in proportion and not with its square as Satterthwaite
    (1946) has it: with three or four values his interval covers as few as 92 %. For normal values
    and any covariance this one covers 94.7 to 96.3 %.

    Args:
        values: about normal.
        confidence: the coverage promised.
        covariance: of any two values; 0 where they are independent. Below 0 it counts as 0.

    References:
        Student (1908), The probable error of a mean.

    Examples:
        >>> [round(limit, 3) for limit in student_mean([1.0, 2.0, 3.0])]
        [-0.484, 4.484]
        >>> [round(limit, 3) for limit in student_mean([1.0, 2.0, 3.0], covariance=1.0)]
        [-0.663, 4.663]
    """
    n = len(values)
    centre = sum(values) / n
    spread = sum((value - centre) ** 2 for value in values) / (n - 1) / n
    variance = spread + max(0.0, covariance)
    if variance == 0:
        return Interval(centre, centre)
    freedom = (n - 1) * variance / spread if spread else math.inf
    half = float(special.stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(variance)
    return Interval(centre - half, centre + half)


def student_mean_within(
    values: Sequence[float], smallest: float, largest: float, confidence: float = CONFIDENCE
) -> Interval:
    """Student's interval of a mean, cut where its range ends.

    Values that are all equal say nothing about how much others may differ: then the interval is
    that of `bounded_mean`, so that no interval has zero width.

    Args:
        values: independent and about normal, two or more.
        smallest: the lower end of the range.
        largest: the upper end of the range.
        confidence: the coverage promised.
    """
    low, high = student_mean(values, confidence)
    if max(values) - min(values) <= 1e-12 * (largest - smallest):  # alike but for rounding
        return bounded_mean(values, smallest, largest, confidence)
    return Interval(max(smallest, low), min(largest, high))


def bounded_mean(
    values: Sequence[float],
    smallest: float = 0.0,
    largest: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of the mean of independent values in a known range, whatever their distribution.

    Zeros and ones get exactly Clopper and Pearson's interval, of which this is the generalisation:
    the upper limit is a quantile of the mean under random weights, uniform on the simplex, of the
    values and one more at the end of the range; the lower limit likewise. That it covers at least
    as often as promised is proven for zeros and ones, and conjectured, with no counterexample
    known, for all other values.

    Args:
        values: one or more, none outside of the range.
        smallest: the lower end of the range.
        largest: the upper end of the range.
        confidence: the coverage promised.

    References:
        Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean
        of a nonnegative variable; Learned-Miller and Thomas (2020), A new confidence interval for
        the mean of a bounded random variable (arXiv 1905.06208), definition 1.

    Examples:
        >>> [round(limit, 3) for limit in (*bounded_mean([1.0] * 8), *clopper_pearson(8, 8))]
        [0.631, 1.0, 0.631, 1.0]
        >>> [round(limit, 3) for limit in bounded_mean([0.9, 1.0, 0.8, 1.0])]
        [0.366, 0.99]
    """
    tail = (1 - confidence) / 2
    mirrored = [smallest + largest - value for value in values]
    low = smallest + largest - _upper_limit(mirrored, largest, tail)
    return Interval(low, _upper_limit(values, largest, tail))


def _upper_limit(values: Sequence[float], largest: float, error: float) -> float:
    least = min(values)
    if least >= largest:
        return largest

    def excess(limit: float) -> float:
        return _chance_below([*values, largest], limit) - (1 - error)

    return float(optimize.brentq(excess, least, largest, xtol=1e-8 * (largest - least)))


def _chance_below(values: Sequence[float], limit: float) -> float:
    """The chance that the mean of values under uniform random weights stays below a limit.

    Such weights are independent exponential times over their sum. So the question is whether the
    values below the limit, each with its distance times such a time, last longer in all than those
    above. Exponential times forget how long they have lasted: whichever of two ends first, the
    other begins anew. So with i values above and j below, the chance is a weighted mean of those
    with i - 1 and j, and with i and j - 1.
    """
    each = np.asarray(values, np.float64) - limit
    above, below = each[each > 0], -each[each < 0][::-1]
    chances = np.zeros(len(above) + 1)  # by i, for all pairs of one sum i + j after another
    chances[0] = 1.0
    for both in range(2, len(above) + len(below) + 1):
        first, last = max(1, both - len(below)), min(len(above), both - 1)
        start = len(below) - both
        up, down = above[first - 1 : last], below[start + first : start + last + 1]
        share = down / (up + down)  # the one above ends before the one below
        before = chances[first - 1 : last], chances[first : last + 1]
        chances[first : last + 1] = share * before[0] + (1 - share) * before[1]
    return float(chances[-1])


def clustered_proportion(
    hits: Int[np.ndarray, " groups"] | Float[np.ndarray, " groups"],
    trials: Int[np.ndarray, " groups"],
    confidence: float = CONFIDENCE,
) -> Interval:
    """The interval of a proportion whose trials come in groups, each group alike within.

    The exact interval of so many independent trials as would vary as much as the groups do, and
    never more than there are. Where all trials end alike, nothing shows how alike those of a group
    are: then each group counts once.

    Args:
        hits: successes in each group, or the sum of its trials' values in [0, 1].
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
    if 0 < share < 1:
        quantiles = [float(special.stdtrit(n - 1, 0.5 + confidence / 2)) for n in (total, groups)]
        alone = share * (1 - share) * (quantiles[0] / quantiles[1]) ** 2
        worth = alone / max(variance, alone / total)
    tail = (1 - confidence) / 2
    low = lower_limit(share * worth, worth, tail)
    return Interval(low, 1 - lower_limit((1 - share) * worth, worth, tail))


def combine_intervals(value: float, *parts: Interval) -> Interval:
    """The interval of a value that is uncertain for several independent reasons.

    Each part is the interval that one reason alone would give around the same value; their
    distances from it add in quadrature (the method of variance estimates recovery, MOVER).

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures, eq. 4.
    """
    below = math.hypot(*(value - part.low for part in parts))
    above = math.hypot(*(part.high - value for part in parts))
    return Interval(value - below, value + above)
