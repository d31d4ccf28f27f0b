"""One model in the target's place, before all shadows but one: what that shows of each record.

A shadow plays the target before the others, and its members are known; so a rule for reading
membership off such rows can be learned. The target itself is then shown in the same way: before
all shadows but one, so that nothing changes but who plays.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from leakscope.attacks.shadow_answers import Column, Mask, Matrix, log_probability

Flags = Bool[np.ndarray, " records"]

PRIOR = 4.0
"""Shadows' worth of belief in the common variance, against a record's own."""

_SMALL = 1e-9  # sums from which one shadow is taken off again are no more exact than this


class Side(NamedTuple):
    """Sums over the shadows that were trained on a record, or over those that were not."""

    count: Column
    phi: Column
    squares: Column
    probability: Column

    def without(self, away: Column, here: Flags) -> "Side":
        """The sums less one shadow, for the records where it stood on this side."""
        return Side(
            self.count - here,
            self.phi - np.where(here, away, 0.0),
            self.squares - np.where(here, away**2, 0.0),
            self.probability - np.where(here, np.exp(log_probability(away)), 0.0),
        )

    @property
    def mean(self) -> Column:
        """The mean φ; NaN for a record with no shadow on this side."""
        return np.where(self.count > 0, self.phi / np.maximum(self.count, 1), np.nan)

    @property
    def scatter(self) -> Column:
        """The sum of squared distances from the mean φ."""
        return np.maximum(self.squares - self.phi**2 / np.maximum(self.count, 1), 0.0)


class Sums(NamedTuple):
    """What all shadows say of each record, from which one of them can be taken off."""

    inside: Side
    outside: Side

    def part(self, rows: slice | np.ndarray) -> "Sums":
        """The sums of some records."""
        inside, outside = (Side(*(column[rows] for column in side)) for side in self)
        return Sums(inside, outside)


class Norm(NamedTuple):
    """What is usual: one number each for all records."""

    gap: float
    """How much higher φ is under the shadows trained on a record."""
    inside: float
    """The variance of φ under these shadows."""
    outside: float


def sums(parts: Iterable[tuple[Matrix, Mask]]) -> Sums:
    """The sums over all shadows."""
    sides = [(_side(phi, member), _side(phi, ~member)) for phi, member in parts]
    inside, outside = (
        Side(*map(np.concatenate, zip(*side, strict=True))) for side in zip(*sides, strict=True)
    )
    return Sums(inside, outside)


def _side(phi: Matrix, mask: Mask) -> Side:
    kept = np.where(mask, phi, 0.0)
    probability = np.where(mask, np.exp(log_probability(phi)), 0.0)
    count = mask.sum(axis=1).astype(np.float64)
    return Side(count, kept.sum(axis=1), (kept**2).sum(axis=1), probability.sum(axis=1))


def norm(of: Sums) -> Norm:
    """What is usual among these records."""
    gaps = of.inside.mean - of.outside.mean
    known = gaps[~np.isnan(gaps)]
    variances = []
    for side in of:
        freedom = np.maximum(side.count - 1, 0).sum()
        variances.append(float(side.scatter.sum() / freedom) if freedom else 0.0)
    # where no record shows any spread, distances are left as they are
    return Norm(float(known.mean()) if len(known) else 0.0, *(v or 1.0 for v in variances))


def features(
    played: Column, away: Column, member: Flags, of: Sums, usual: Norm
) -> Float64[np.ndarray, "records features"]:
    """What is known of each record when one model plays the target and one shadow is away.

    Args:
        played: φ under the model in the target's place.
        away: φ under the shadow that is away; for a stand-in, its own.
        member: which records that shadow was trained on.
        of: the sums over all shadows.
        usual: what is usual among all records.
    """
    inside, outside = of.inside.without(away, member), of.outside.without(away, ~member)
    mean_in, mean_out = inside.mean, outside.mean
    mean_in, mean_out = (
        np.where(np.isnan(mean_in), mean_out + usual.gap, mean_in),
        np.where(np.isnan(mean_out), mean_in - usual.gap, mean_out),
    )
    var_in, var_out = _variance(inside, usual.inside), _variance(outside, usual.outside)
    log_p = log_probability(played)
    p_in = inside.probability / np.maximum(inside.count, 1)
    p_out = outside.probability / np.maximum(outside.count, 1)
    expected = np.where(
        inside.count == 0, p_out, np.where(outside.count == 0, p_in, (p_in + p_out) / 2)
    )
    return np.column_stack([
        played,
        log_p,
        mean_in,
        mean_out,
        played - mean_in,
        played - mean_out,
        log_p - np.log(np.maximum(expected, _SMALL)),
        _surplus(played, mean_in, usual.inside) - _surplus(played, mean_out, usual.outside),
        _student(played, mean_in, var_in, inside.count)
        - _student(played, mean_out, var_out, outside.count),
        np.log(var_in),
        np.log(var_out),
    ])  # fmt: skip


def _variance(side: Side, usual: float) -> Column:
    """Each record's variance, drawn to the usual one as by `PRIOR` further shadows."""
    freedom = np.maximum(side.count - 1, 0)
    return (side.scatter + PRIOR * usual) / (freedom + PRIOR)


def _surplus(phi: Column, mean: Column, variance: float) -> Column:
    density: Column = -((phi - mean) ** 2) / (2 * variance)
    return density


def _student(phi: Column, mean: Column, variance: Column, count: Column) -> Column:
    """The log density of a further φ where the variance itself is uncertain, but a constant."""
    freedom = np.maximum(count - 1, 0) + PRIOR
    wide = variance * (1 + 1 / np.maximum(count, 1))
    density: Column = -0.5 * np.log(wide) - (freedom + 1) / 2 * np.log1p(
        (phi - mean) ** 2 / (freedom * wide)
    )
    return density
