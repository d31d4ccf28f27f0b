"""Shadow attacks share these scores of the candidates, by the target and by its shadow models.

A matrix of records and shadows may lie on disk and be larger than memory, so it is read in blocks
of records. What is kept whole has one number a record.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Real

from divulge.core import ModelView, PoolPredictions, Records, Shadows
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.metrics import signals

Matrix = Float64[np.ndarray, "records models"]
Mask = Bool[np.ndarray, "records models"]
Column = Float64[np.ndarray, " records"]

PRIOR = 4.0
"""Weight of the common variance against a record's own, as a number of shadows."""

PAPERS_FACTOR = 0.3
"""RMIA's best factor for CIFAR-10, used where the shadows cannot tell a better one."""

TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Temperatures of RMIA's likelihood that shadows choose from."""

WEIGHTS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Weights of p_in in RMIA's likelihood that shadows choose from."""

BLOCK = 2**20
"""Numbers of a matrix in memory at a time: 8 MiB, and as much for each temporary."""


class RecordBlock(NamedTuple):
    """φ of a block of consecutive records."""

    rows: slice
    """Positions of the block's records."""
    phi: tuple[Matrix, ...]
    """φ under each shadow: one matrix for the records, and one for each augmentation."""
    member: Mask
    """True where a shadow was trained on a record."""


@dataclass(frozen=True, slots=True)
class ShadowSignals:
    """φ of the candidates and of their augmentations, changed alike for all models."""

    target: tuple[Column, ...]
    """φ under the target: one column for the candidates, and one for each augmentation."""
    shadows: Shadows
    change: Callable[[np.ndarray], np.ndarray]
    """What is made of each φ, such as its size."""

    def blocks(self, of: Shadows | PoolPredictions | None = None) -> Iterator[RecordBlock]:
        """Yield the shadows' φ of the candidates, or of their pool, in blocks of records."""
        for block in read_blocks(self.shadows if of is None else of):
            yield block._replace(phi=tuple(self.change(matrix) for matrix in block.phi))


@dataclass(frozen=True, slots=True)
class AttackTrainingSet:
    """Training data of an attack: records whose membership in each shadow the attacker knows."""

    shadows: Shadows | PoolPredictions
    """Predictions of the shadows on the records."""
    y: Real[np.ndarray, " records"]
    """The class of each record, or its true value."""


class InOutMeans(NamedTuple):
    """Means per record over two groups of shadows."""

    inside: Column
    """Mean over the shadows that were trained on the record."""
    outside: Column
    """Mean over the shadows that were not."""


def scaled_logits(view: ModelView) -> ShadowSignals:
    """The scaled logits of the candidates, in a view with shadows; saturated values are tamed.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    target = target_signals("scaled_logit", view)
    largest = max(map(signals.largest_unsaturated, target))
    pool = view.shadows.pool
    for shadows in (view.shadows,) if pool is None else (view.shadows, pool):
        for block in read_blocks(shadows):
            largest = max(largest, *map(signals.largest_unsaturated, block.phi))
    tame = partial(signals.tame_beyond, largest)
    return ShadowSignals(tuple(map(tame, target)), view.shadows, tame)


def residuals(view: ModelView, change: Callable[[np.ndarray], np.ndarray]) -> ShadowSignals:
    """The residuals y - f(x) of the candidates, in a view with shadows of a regression model.

    Args:
        view: what the attacker sees.
        change: what is made of each residual.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    target = (signals.compute_residuals(view, records) for records in ways_of_asking(view))
    return ShadowSignals(tuple(map(change, target)), view.shadows, change)


def target_signals(signal: signals.SignalName, view: ModelView) -> tuple[Column, ...]:
    """A signal of the target for the candidates, and for each of their augmentations.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    return tuple(
        signals.compute_for_records(signal, view, records) for records in ways_of_asking(view)
    )


def ways_of_asking(view: ModelView) -> tuple[Records, ...]:
    """The candidates, and each of their augmentations, in a view with shadows.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    if len(view.augmented) != len(view.shadows.augmented_phi):
        raise DataError(
            f"expected one matrix of shadow answers for each of the {len(view.augmented)} further "
            f"ways of asking, got {len(view.shadows.augmented_phi)}: ask the shadows as the target"
        )
    return (view.records, *view.augmented)


def attack_training_set(view: ModelView) -> AttackTrainingSet | None:
    """The training data that shadows give an attack: the candidates or, offline, the shadows' pool.

    It is None for offline shadows that were not queried about their pool.
    """
    assert view.shadows is not None
    if view.shadows.online:
        return AttackTrainingSet(view.shadows, view.records.y)
    pool = view.shadows.pool
    return None if pool is None else AttackTrainingSet(pool, pool.y)


def check_folds(folds: int) -> None:
    """Refuse fewer than two folds: no fold could be scored by what was fitted to others.

    Raises:
        SpecError: there are fewer than two.
    """
    if folds < 2:
        raise SpecError(f"expected folds of 2 or more, got {folds}")


def check_enough_records(records: int, folds: int) -> None:
    """Refuse fewer candidates than folds.

    Raises:
        NotApplicable: a fold would be empty.
    """
    if records < folds:
        raise NotApplicable(f"expected {folds} or more candidates, one a fold, got {records}")


def rank_records(parts: Iterable[RecordBlock]) -> Int[np.ndarray, " records"]:
    """Each record's rank by its mean φ, which does not depend on the order of the records."""
    sums = np.concatenate([mean_over_queries(block.phi).sum(axis=1) for block in parts])
    return np.argsort(np.argsort(sums, kind="stable"), kind="stable")


def read_blocks(shadows: Shadows | PoolPredictions) -> Iterator[RecordBlock]:
    """Yield the shadows' φ unchanged, in blocks of records."""
    matrices = (shadows.phi, *shadows.augmented_phi)
    records, models = shadows.phi.shape
    size = max(1, BLOCK // max(1, models * len(matrices)))
    for start in range(0, records, size):
        rows = slice(start, min(start + size, records))
        # one type and one order: a sum along a row must not depend on how the matrix is stored
        phi = tuple(np.ascontiguousarray(matrix[rows], dtype=np.float64) for matrix in matrices)
        yield RecordBlock(rows, phi, np.ascontiguousarray(shadows.member[rows]))


def mean_over_queries(ways: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over the candidates' own values and those of their augmentations."""
    return ways[0] if len(ways) == 1 else np.mean(ways, axis=0)


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
    inside, outside = 1 - means.inside[both], 1 - means.outside[both]
    # added up exactly: networks of shadow-stack turn rounding by the order of records into scores
    scale = math.fsum(outside**2)
    return float(np.clip(math.fsum(inside * outside) / scale, 0, 1)) if scale else PAPERS_FACTOR


def expected_likelihood(means: InOutMeans, weight: float, a: float) -> Column:
    """RMIA's likelihood p(x), of which p_in is this share.

    Where one of its halves was never seen, the line p_in = a p_out + 1 - a gives it from the other.
    """
    from_outside = a * means.outside + 1 - a
    from_inside = np.maximum(means.inside - 1 + a, 0) / max(a, signals.SMALLEST)
    inside = np.where(np.isnan(means.inside), from_outside, means.inside)
    outside = np.where(np.isnan(means.outside), from_inside, means.outside)
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
    return float(-np.log((above + 1) / (len(others) + 1)).mean())


def log_probability(phi: np.ndarray) -> np.ndarray:
    """The logarithm of p_y from φ, exact at both ends."""
    logarithm: np.ndarray = -np.logaddexp(0.0, -phi)
    return logarithm


def shrink_variance(scatter: np.ndarray, models: np.ndarray, usual: float) -> np.ndarray:
    """Each record's variance over shadows, shrunk to the common one as by `PRIOR` further shadows.

    Args:
        scatter: the sum of squared distances from the record's mean.
        models: the number of shadows that it is of.
        usual: the variance of all records together.
    """
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
    wide = variance * (1 + 1 / np.maximum(models, 1))
    density: Column = -0.5 * np.log(wide) - (freedom + 1) / 2 * np.log1p(
        (phi - mean) ** 2 / (freedom * wide)
    )
    return density
