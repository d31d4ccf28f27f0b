"""LiRA: a likelihood ratio between Gaussians of shadows with the record and without it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_scores import Column, ScaledLogits, in_out_means, scaled_logits
from divulge.core import ModelView, Need, Scores
from divulge.errors import NotApplicable

ENOUGH_SHADOWS = 16
"""Number of shadows on each side from which on a variance per record beats one for all."""

Variance = Literal["auto", "global", "record"]


@check_arguments
@dataclass(frozen=True, slots=True)
class LiRA:
    """The likelihood ratio attack, online or offline as the shadows are.

    Online: the log density of φ under the Gaussian of shadows trained with the record, less that
    under the Gaussian of the others. Offline, where no shadow was trained on candidates: the
    standard deviations of φ above the others' mean, one-sided, so that an unusually low
    confidence is no evidence of membership. Where the candidates were asked about in several
    ways, the scores of all ways are added up, as for independent answers.

    Args:
        variance: ``global`` pools the residuals of all records; ``record`` takes each record's
            own; ``auto`` takes the latter where every side has 16 shadows or more.

    References:
        Carlini et al. (2022), Membership inference attacks from first principles, algorithm 1 and
        section IV (offline); the fixed variance is that of section VI, as are several queries with
        independent Gaussians.
    """

    variance: Variance = "auto"

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
        said = scaled_logits(view)
        scores = [self._score_query(said, way) for way in range(len(said.target))]
        # one way at a time and in place, which for a single way is its own score, bit for bit
        return Scores(np.add.reduce(scores))

    def _score_query(self, said: ScaledLogits, way: int) -> Column:
        """The score from the candidates themselves, or from one augmentation of them."""
        phi = said.target[way]
        means = in_out_means((block.phi[way], block.member) for block in said.blocks())
        outside = self._record_variance(said, way, means.outside, side=False)
        if not said.shadows.online:
            surplus: Column = (phi - means.outside) / np.sqrt(outside)
            return surplus
        inside = self._record_variance(said, way, means.inside, side=True)
        ratio: Column = _gaussian_log_density(phi, means.inside, inside)
        ratio -= _gaussian_log_density(phi, means.outside, outside)
        return ratio

    def _record_variance(self, said: ScaledLogits, way: int, mean: Column, *, side: bool) -> Column:
        """The variance of φ over the shadows trained on a record, or over the others."""
        squares, counts = np.empty_like(mean), np.empty_like(mean)
        for block in said.blocks():
            mask = block.member == side
            distance = block.phi[way] - mean[block.rows, None]
            squares[block.rows] = np.where(mask, distance**2, 0.0).sum(axis=1)
            counts[block.rows] = mask.sum(axis=1)
        freedom = counts - 1
        own = self.variance == "record" or (
            self.variance == "auto" and freedom.min() >= ENOUGH_SHADOWS - 1
        )
        known = np.maximum(freedom, 0)
        pooled = float(squares.sum() / known.sum()) if known.sum() else 0.0
        pooled = pooled or 1.0  # one shadow a side shows no spread: compare the means alone
        if not own:
            return np.full(len(mean), pooled)
        floor = 1e-4 * pooled
        return np.where(freedom > 0, np.maximum(squares / np.maximum(freedom, 1), floor), pooled)


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
