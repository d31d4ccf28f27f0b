"""Leave-one-out features compare one model with all shadows but one.

Each shadow takes the target's place and is compared with the other shadows. Its members are known,
so a rule that predicts membership from such features can be learned. The target itself is then
compared with all shadows but one, too, so that nothing changes but the model in its place.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from divulge.attacks.shared.shadow_signals import (
    Column,
    Mask,
    Matrix,
    RecordBlock,
    mean_over_queries,
)
from divulge.attacks.shared.shadow_statistics import (
    TEMPERATURES,
    WEIGHTS,
    InOutMeans,
    expected_likelihood,
    fit_in_out_factor,
    log_probability,
    shrink_variance,
    student_log_density,
)
from divulge.metrics.signals import SMALLEST

LEARNED_RATIOS = [
    TEMPERATURES.index(temperature) * len(WEIGHTS) + WEIGHTS.index(weight)
    for temperature in (1.0, 2.0, 4.0)
    for weight in (0.5, 0.8)
]
"""Columns of RMIA's ratios that networks learn from."""

PLAIN = 10 + len(LEARNED_RATIOS)
"""Number of features before those that are added class by class."""

COMPARED = [0, *range(4, 14)]
"""Columns of the other features that say how a model differs from the others: not what the others
alone say, nor the log of φ's probability."""

CLASS_PRIOR = 10.0
"""Weight of all records together against those of a class, as a number of records."""

Features = Float64[np.ndarray, "records features"]


class SideSums(NamedTuple):
    """Sums over the shadows that were trained on a record, or over those that were not.

    Arrays have shape (records, choices of shadows), or (records,) for all of the shadows.
    """

    models: np.ndarray
    """Number of shadows."""
    phi: np.ndarray
    """Sum of φ."""
    squares: np.ndarray
    """Sum of φ squared."""
    likelihood: np.ndarray
    """Sum of the true class's likelihood: one array for each of the temperatures."""

    def column(self, k: int, rows: np.ndarray | slice) -> "SideSums":
        """The sums over choice k of the shadows, for these rows."""
        return SideSums(*(sums[..., rows, k] for sums in self))

    @property
    def mean(self) -> np.ndarray:
        """The mean φ; NaN where there is no shadow on this side."""
        return np.where(self.models > 0, self.phi / np.maximum(self.models, 1), np.nan)

    @property
    def scatter(self) -> np.ndarray:
        """The sum of squared distances from the mean φ."""
        distance = self.squares - self.phi**2 / np.maximum(self.models, 1)
        return np.where(self.models > 1, np.maximum(distance, 0.0), 0.0)

    @property
    def mean_likelihood(self) -> np.ndarray:
        """The mean likelihood at each temperature; NaN where there is no shadow on this side."""
        return np.where(self.models > 0, self.likelihood / np.maximum(self.models, 1), np.nan)

    @property
    def nothing(self) -> "SideSums":
        """The sums over no shadow, for the same records."""
        return SideSums(*map(np.zeros_like, self))


class InOutSums(NamedTuple):
    """Sums over the shadows that were trained on a record, and over the others."""

    inside: SideSums
    outside: SideSums

    def column(self, k: int, rows: np.ndarray | slice) -> "InOutSums":
        """The sums over choice k of the shadows, for these rows."""
        return InOutSums(self.inside.column(k, rows), self.outside.column(k, rows))

    def known(self, k: int) -> np.ndarray:
        """Which records any shadow of choice k was asked about."""
        known: np.ndarray = self.inside.models[:, k] + self.outside.models[:, k] > 0
        return known


class PooledStatistics(NamedTuple):
    """Statistics of all records together."""

    gap: float
    """Mean difference of φ between shadows trained on a record and the others."""
    inside: float
    """Variance of φ over the shadows trained on a record."""
    outside: float
    """Variance of φ over the other shadows."""
    factors: tuple[float, ...]
    """RMIA's a for each temperature: p_in is taken to be a p_out + 1 - a where one is unknown."""


def leave_one_out_sums(block: RecordBlock, *, inside: bool = True) -> InOutSums:
    """Sums over all shadows but k, for every k.

    Each is the sum of those before and those after it, never that of all less the one: what is
    left over by rounding would tell which side the missing one was on.

    Args:
        block: φ of records.
        inside: also over the shadows that were trained on a record.
    """
    sums = _in_out_sums(block, _sums_without_each)
    return sums if inside else InOutSums(sums.inside.nothing, sums.outside)


def sums_over(block: RecordBlock, choices: Sequence[np.ndarray]) -> InOutSums:
    """Sums over some of the shadows, for each of these choices.

    Args:
        block: φ of records.
        choices: which shadows, for all records or for each.
    """
    return _in_out_sums(
        block,
        lambda values: np.stack(
            [np.where(chosen, values, 0.0).sum(axis=-1) for chosen in choices], axis=-1
        ),
    )


def pooled_statistics(parts: Iterable[RecordBlock]) -> PooledStatistics:
    """Statistics of these records together, with no shadow left out."""
    columns, likelihoods = [], []
    for block in parts:
        inside, outside = _in_out_sums(block, lambda values: values.sum(axis=-1))
        free = [np.maximum(side.models - 1, 0) for side in (inside, outside)]
        columns.append((inside.mean - outside.mean, inside.scatter, outside.scatter, *free))
        likelihoods.append((inside.mean_likelihood, outside.mean_likelihood))
    # added up exactly: rounding that hangs on the order of records would turn into scores
    gaps, *sums = map(np.concatenate, zip(*columns, strict=True))
    scatter_in, scatter_out, free_in, free_out = map(math.fsum, sums)
    known = gaps[~np.isnan(gaps)]
    sides = (np.concatenate(side, axis=1) for side in zip(*likelihoods, strict=True))
    return PooledStatistics(
        math.fsum(known) / max(len(known), 1),
        # where no record shows any spread, distances are left as they are
        scatter_in / free_in if scatter_in else 1.0,
        scatter_out / free_out if scatter_out else 1.0,
        tuple(fit_in_out_factor(InOutMeans(*pair)) for pair in zip(*sides, strict=True)),
    )


def _in_out_sums(block: RecordBlock, add: Callable[[np.ndarray], np.ndarray]) -> InOutSums:
    phi = mean_over_queries(block.phi)
    likelihood = np.exp([log_probability(phi / temperature) for temperature in TEMPERATURES])
    sides = (block.member, ~block.member)
    return InOutSums(*(_side_sums(phi, likelihood, mask, add) for mask in sides))


def _side_sums(
    phi: Matrix, likelihood: np.ndarray, mask: Mask, add: Callable[[np.ndarray], np.ndarray]
) -> SideSums:
    own_phi = np.where(mask, phi, 0.0)
    return SideSums(
        add(mask.astype(np.float64)),
        add(own_phi),
        add(own_phi**2),
        add(np.where(mask, likelihood, 0.0)),
    )


def _sums_without_each(values: np.ndarray) -> np.ndarray:
    sums = np.zeros_like(values)
    np.cumsum(values[..., :-1], axis=-1, out=sums[..., 1:])
    # sums before and after k, and never total less k: see `leave_one_out_sums`
    sums[..., :-1] += np.cumsum(values[..., :0:-1], axis=-1)[..., ::-1]
    return sums


class RecordFeatures(NamedTuple):
    """How one model compares with others on each record."""

    learned: Float64[np.ndarray, "records learned"]
    """What networks learn from."""
    ratios: Float64[np.ndarray, "records ratios"]
    """RMIA's log ratio, one column for each temperature and weight that RMIA chooses from."""


def leave_one_out_features(
    played: Column, others: InOutSums, usual: PooledStatistics
) -> RecordFeatures:
    """Features of each record, with one model in the target's place.

    Args:
        played: φ under the model in the target's place.
        others: sums over the shadows that the model is compared with.
        usual: statistics of all records together.
    """
    inside, outside = others
    mean_in, mean_out = inside.mean, outside.mean
    mean_in, mean_out = (
        np.where(np.isnan(mean_in), mean_out + usual.gap, mean_in),
        np.where(np.isnan(mean_out), mean_in - usual.gap, mean_out),
    )
    var_in = shrink_variance(inside.scatter, inside.models, usual.inside)
    var_out = shrink_variance(outside.scatter, outside.models, usual.outside)
    ratios = likelihood_ratios(played, others, usual)
    learned = np.column_stack([
        played,
        log_probability(played),
        mean_in,
        mean_out,
        played - mean_in,
        played - mean_out,
        ratios[:, LEARNED_RATIOS],
        _gaussian_log_density(played, mean_in, usual.inside)
        - _gaussian_log_density(played, mean_out, usual.outside),
        student_log_density(played, mean_in, var_in, inside.models)
        - student_log_density(played, mean_out, var_out, outside.models),
        np.log(var_in),
        np.log(var_out),
    ])  # fmt: skip
    return RecordFeatures(learned, ratios)


def likelihood_ratios(played: Column, others: InOutSums, usual: PooledStatistics) -> Features:
    """RMIA's log ratio at each temperature and weight, one column each."""
    columns = []
    means = zip(others.inside.mean_likelihood, others.outside.mean_likelihood, strict=True)
    for temperature, a, pair in zip(TEMPERATURES, usual.factors, means, strict=True):
        log_p = log_probability(played / temperature)
        for weight in WEIGHTS:
            expected = expected_likelihood(InOutMeans(*pair), weight, a)
            # RMIA's ratio of the record's likelihood to its mean over models
            columns.append(log_p - np.log(np.maximum(expected, SMALLEST)))
    return np.column_stack(columns)


def add_class_shifts(
    features: Features, y: Int[np.ndarray, " records"], place: Int[np.ndarray, " records"]
) -> Float64[np.ndarray, "records further"]:
    """The features of one model, and those of `COMPARED` less what the model's class shares.

    A model that was trained on more records of a class than others says more of all of that class;
    this is what differs between the classes' means, shrunk as by `CLASS_PRIOR` further records.

    Args:
        features: of the records, with the model in the target's place.
        y: the class of each record.
        place: the records' order, in which sums are added up: they must not hang on another.
    """
    order = np.argsort(place)
    compared, (classes, of) = features[order][:, COMPARED], np.unique(y, return_inverse=True)
    of, away = of[order], compared - compared.mean(axis=0)
    counts = np.bincount(of, minlength=len(classes))
    sums = np.stack([np.bincount(of, column, len(classes)) for column in away.T], axis=1)
    # shrunk to 0, the mean over all classes
    shift = sums / (counts + CLASS_PRIOR)[:, None]
    centred = np.empty_like(compared)
    centred[order] = compared - shift[of]
    return np.column_stack([features, centred])


def _gaussian_log_density(phi: Column, mean: Column, variance: float) -> Column:
    density: Column = -((phi - mean) ** 2) / (2 * variance)
    return density
