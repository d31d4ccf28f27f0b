"""LiRA: a likelihood ratio between Gaussians of shadows with the record and without it."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_signals import Column, ShadowSignals, residuals, scaled_logits
from divulge.attacks.shared.shadow_statistics import (
    in_out_means,
    shrink_variance,
    student_log_density,
)
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

ENOUGH_SHADOWS = 16
"""Number of shadows on each side from which on a variance per record beats one for all."""

Variance = Literal["auto", "global", "record", "shrunk", "shrunk-gaussian"]


@check_arguments
@dataclass(frozen=True, slots=True)
class LiRA:
    """Likelihood ratio of the scaled logit φ under shadow models with and without the record.

    Online: the log density of φ under the Gaussian of shadow models trained with the record, less
    that under the Gaussian of the others. Offline, if no shadow model was trained on candidates:
    standard deviations of φ above the others' mean, so that an unusually low confidence is no
    evidence. If candidates are queried in several ways, the scores are added, as for independent
    answers.

    Args:
        variance: ``global`` pools the residuals of all records; ``record`` takes each record's own;
            ``auto`` takes the latter if every side has 16 shadow models or more. ``shrunk`` shrinks
            a record's own to that of all as if by 4 further shadow models, with Student's density
            (BaVarIA-t), ``shrunk-gaussian`` with a Gaussian (BaVarIA-n).

    References:
        Carlini et al. (2022), Membership inference attacks from first principles, algorithm 1,
        sections IV (offline) and VI (fixed variance, several queries); Brännvall (2026), From LiRA
        and RMIA to BaVarIA, of which the first section was at hand: here the prior of the mean is
        flat, and the weight of that of the variance is divulge's.
    """

    variance: Variance = "shrunk"

    name: ClassVar[str] = "lira"
    paper: ClassVar[str] = "Carlini et al. 2022"

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each candidate; offline, its standard score.

        Raises:
            NotApplicable: online, no candidate has shadows both trained on it and not.
        """
        del rng
        _check_both_sides(view)
        return Scores(_score_all_ways(scaled_logits(view), self.variance))


Density = Literal["student", "gaussian"]

ResidualKind = Literal["signed", "size"]


@check_arguments
@dataclass(frozen=True, slots=True)
class ResidualLiRA:
    """Likelihood ratio of the signed residual y - f(x) under models with and without the record.

    Online the residual is compared as `LiRA` compares scaled logits. Offline, nobody knows where a
    member's residual lies: it is assumed to be spread around zero as widely as that of others is
    around their mean. With ``residual="size"`` the score is that of `LiRA`: standard deviations
    above the others' mean.

    Args:
        residual: ``signed``, or minus its ``size``.
        density: ``student`` shrinks a record's variance to that of all records, as if by 4 further
            shadow models, and has Student's tails, which allow for the few shadow models behind it;
            ``gaussian`` takes variances as `LiRA` does with ``variance="auto"``.

    References:
        Carlini et al. (2022), Membership inference attacks from first principles, algorithm 1 and
        section IV, with residuals instead of scaled logits; Smyth (2004), Linear models and
        empirical Bayes methods, section 3, for variances shrunk to a common one.
    """

    residual: ResidualKind = "signed"
    density: Density = "student"

    name: ClassVar[str] = "residual-lira"
    paper: ClassVar[str] = "Carlini et al. 2022"
    needs: ClassVar[Need] = Need.VALUES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log likelihood ratio of each candidate.

        Raises:
            NotApplicable: online, no candidate has shadows both trained on it and not.
        """
        del rng
        _check_both_sides(view)
        signed = self.residual == "signed"
        signals = residuals(view, np.asarray if signed else lambda phi: -np.abs(phi))
        variance: Variance = "auto" if self.density == "gaussian" else "shrunk"
        return Scores(_score_all_ways(signals, variance, home=0.0 if signed else None))


class _Side(NamedTuple):
    """φ of each record over the shadows trained on it, or over the others."""

    mean: Column
    variance: Column
    models: Column | None
    """Number of shadows; None where densities are Gaussian."""

    def log_density(self, phi: Column) -> Column:
        """Of the target's φ, but a constant."""
        if self.models is None:
            return _gaussian_log_density(phi, self.mean, self.variance)
        return student_log_density(phi, self.mean, self.variance, self.models)


def _score_all_ways(
    signals: ShadowSignals, variance: Variance, home: float | None = None
) -> Column:
    """The sum of the scores of all ways of asking.

    Args:
        signals: φ.
        variance: see `LiRA`.
        home: offline, where φ of members lies; None if that is not known.
    """
    scores = [_score_query(signals, way, variance, home) for way in range(len(signals.target))]
    # one way at a time and in place, which for a single way is its own score, bit for bit
    total: Column = np.add.reduce(scores)
    return total


def _score_query(
    signals: ShadowSignals, way: int, variance: Variance, home: float | None
) -> Column:
    """The score from the candidates themselves, or from one augmentation of them."""
    phi = signals.target[way]
    means = in_out_means((block.phi[way], block.member) for block in signals.blocks())
    outside = _describe_side(signals, way, means.outside, variance, side=False)
    if signals.shadows.online:
        inside = _describe_side(signals, way, means.inside, variance, side=True)
    elif home is None:
        # section IV, offline: one-sided, as nothing is known of members. Its Φ would keep the order
        surplus: Column = (phi - means.outside) / np.sqrt(outside.variance)
        return surplus
    else:
        inside = outside._replace(mean=np.full_like(phi, home))
    # algorithm 1: the ratio of the two densities, in logarithms
    ratio: Column = inside.log_density(phi)
    ratio -= outside.log_density(phi)
    return ratio


def _describe_side(
    signals: ShadowSignals, way: int, mean: Column, variance: Variance, *, side: bool
) -> _Side:
    """The variance of φ over the shadows trained on a record, or over the others."""
    squares, counts = np.empty_like(mean), np.empty_like(mean)
    for block in signals.blocks():
        mask = block.member == side
        distance = block.phi[way] - mean[block.rows, None]
        squares[block.rows] = np.where(mask, distance**2, 0.0).sum(axis=1)
        counts[block.rows] = mask.sum(axis=1)
    # one degree of freedom went into the mean
    freedom = counts - 1
    known = np.maximum(freedom, 0)
    pooled = float(squares.sum() / known.sum()) if known.sum() else 0.0
    pooled = pooled or 1.0  # one shadow a side shows no spread: compare the means alone
    if variance in {"shrunk", "shrunk-gaussian"}:
        shrunk = shrink_variance(squares, counts, pooled)
        return _Side(mean, shrunk, counts if variance == "shrunk" else None)
    # section VI: a variance for all records is steadier where shadows are few
    own = variance == "record" or (variance == "auto" and freedom.min() >= ENOUGH_SHADOWS - 1)
    if not own:
        return _Side(mean, np.full(len(mean), pooled), None)
    # shadows that agree by chance would rule out every other φ
    floor = 1e-4 * pooled
    own_variance = np.where(
        freedom > 0, np.maximum(squares / np.maximum(freedom, 1), floor), pooled
    )
    return _Side(mean, own_variance, None)


def _check_both_sides(view: ModelView) -> None:
    """Without a record that has both Gaussians, all ratios are the same constant."""
    assert view.shadows is not None
    member = view.shadows.member
    if view.shadows.online and not (member.any(axis=1) & ~member.all(axis=1)).any():
        raise NotApplicable(
            "expected shadows on both sides of a candidate, trained on it and not, got one side "
            f"alone with {member.shape[1]} in all: train more on random candidates"
        )


def _gaussian_log_density(
    phi: Column, mean: Column, variance: Column
) -> Float64[np.ndarray, " records"]:
    density: Column = -0.5 * np.log(variance) - (phi - mean) ** 2 / (2 * variance)
    return density
