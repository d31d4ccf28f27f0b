"""What shadow models say of each record in numbers: means, RMIA's likelihood, variances."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from divulge.attacks.shared.shadow_signals import Column, Mask, Matrix
from divulge.metrics import signals

PRIOR = 4.0
"""Weight of the common variance against a record's own, as a number of shadows."""

PAPERS_FACTOR = 0.3
"""RMIA's best factor for CIFAR-10, used where the shadows cannot tell a better one."""

TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Temperatures of RMIA's likelihood that shadows choose from."""

WEIGHTS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Weights of p_in in RMIA's likelihood that shadows choose from."""


class InOutMeans(NamedTuple):
    """Means per record over two groups of shadows."""

    inside: Column
    """Mean over the shadows that were trained on the record."""
    outside: Column
    """Mean over the shadows that were not."""


def in_out_means(parts: Iterable[tuple[Matrix, Mask]]) -> InOutMeans:
    """The mean of each record over the shadows trained on it, and over the others.

    With few shadows drawn independently, some records are in all of them or in none. Their
    missing mean is the other one moved by the average gap of the records that have both, so
    such a record is compared as an average record would be; with offline shadows the gap is zero.

    Args:
        parts: blocks of values (records, shadows), each with the mask of membership.

    Examples:
        >>> values = np.array([[3.0, 1.0], [5.0, 2.0], [7.0, 9.0]])
        >>> in_out_means([(values, np.array([[True, False], [True, False], [True, True]]))])
        InOutMeans(inside=array([3., 5., 8.]), outside=array([1. , 2. , 5.5]))
    """
    inside, outside = observed_in_out_means(parts)
    both = ~np.isnan(inside) & ~np.isnan(outside)
    gap = float(np.mean(inside[both] - outside[both])) if both.any() else 0.0
    return InOutMeans(
        np.where(np.isnan(inside), outside + gap, inside),
        np.where(np.isnan(outside), inside - gap, outside),
    )


def observed_in_out_means(parts: Iterable[tuple[Matrix, Mask]]) -> InOutMeans:
    """The same means, NaN where a record is in all shadows or in none."""
    means = [(_masked_mean(v, member), _masked_mean(v, ~member)) for v, member in parts]
    inside, outside = (np.concatenate(side) for side in zip(*means, strict=True))
    return InOutMeans(inside, outside)


def fit_in_out_factor(means: InOutMeans) -> float:
    """RMIA's factor a of p_in = a p_out + 1 - a, by least squares over records that have both.

    Args:
        means: likelihoods, NaN where there is none.
    """
    both = ~np.isnan(means.inside) & ~np.isnan(means.outside)
    # p_in = a p_out + 1 - a is 1 - p_in = a (1 - p_out): a slope through the origin
    inside, outside = 1 - means.inside[both], 1 - means.outside[both]
    # added up exactly: networks of shadow-stack turn rounding by the order of records into scores
    scale = math.fsum(outside**2)
    return float(np.clip(math.fsum(inside * outside) / scale, 0, 1)) if scale else PAPERS_FACTOR


def expected_likelihood(means: InOutMeans, weight: float, a: float) -> Column:
    """RMIA's likelihood p(x), of which p_in is this share.

    Where one of its halves was never seen, the line p_in = a p_out + 1 - a gives it from the other.
    """
    from_outside = a * means.outside + 1 - a
    # the same line solved for p_out, which is no less than 0
    from_inside = np.maximum(means.inside - 1 + a, 0) / max(a, signals.SMALLEST)
    inside = np.where(np.isnan(means.inside), from_outside, means.inside)
    outside = np.where(np.isnan(means.outside), from_inside, means.outside)
    # p(x) of RMIA; its paper has the weight one half
    expected: Column = weight * inside + (1 - weight) * outside
    return expected


def _masked_mean(values: Matrix, mask: Mask) -> Column:
    """The mean along each row where the mask is true; NaN where it never is."""
    counts = mask.sum(axis=1)
    means = np.where(mask, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def mean_log_rank(members: np.ndarray, others: np.ndarray) -> float:
    """Minus the mean log of the share of non-members that stand as high as a member.

    It weighs all false-positive rates alike on a logarithmic scale.
    """
    if not len(members) or not len(others):
        return 0.0
    # ties stay ties, whatever their last bit: the choice must not depend on the processor
    members, others = members.round(9), np.sort(others.round(9))
    above = len(others) - np.searchsorted(others, members, side="left")
    # one more than counted: a member above everybody is no infinite surprise
    return float(-np.log((above + 1) / (len(others) + 1)).mean())


def log_probability(phi: np.ndarray) -> np.ndarray:
    """The logarithm of p_y from φ, exact at both ends."""
    # log p by logaddexp: p itself rounds to 0 or 1 from a size of φ of 37 on
    logarithm: np.ndarray = -np.logaddexp(0.0, -phi)
    return logarithm


def shrink_variance(scatter: np.ndarray, models: np.ndarray, usual: float) -> np.ndarray:
    """Each record's variance over shadows, shrunk to the common one as by `PRIOR` further shadows.

    Args:
        scatter: the sum of squared distances from the record's mean.
        models: the number of shadows that it is of.
        usual: the variance of all records together.
    """
    # Smyth (2004), section 3: prior degrees of freedom beside a record's own
    variance: np.ndarray = (scatter + PRIOR * usual) / (np.maximum(models - 1, 0) + PRIOR)
    return variance


def student_log_density(
    phi: Column, mean: np.ndarray | float, variance: np.ndarray, models: np.ndarray
) -> Column:
    """The log density of a further φ where the variance itself is uncertain, but a constant.

    Args:
        phi: of the target.
        mean: over shadows.
        variance: over shadows, as `shrink_variance` gives it.
        models: the number of shadows.
    """
    freedom = np.maximum(models - 1, 0) + PRIOR
    # a further draw varies about a mean that is itself uncertain by variance / models
    wide = variance * (1 + 1 / np.maximum(models, 1))
    density: Column = -0.5 * np.log(wide) - (freedom + 1) / 2 * np.log1p(
        (phi - mean) ** 2 / (freedom * wide)
    )
    return density
