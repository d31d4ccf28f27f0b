"""RMIA asks whether the target prefers a record to its population more than shadows do."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.shadow_scores import (
    Column,
    InOutMeans,
    attack_training_set,
    log_probability,
    mean_over_queries,
    observed_in_out_means,
    read_blocks,
    target_signals,
)
from divulge.core import ModelView, Need, PoolPredictions, Scores, Shadows
from divulge.errors import SpecError
from divulge.metrics import signals

PAPERS_FACTOR = 0.3
"""The paper's best factor for CIFAR-10, used where the shadows cannot tell a better one."""


@check_arguments
@dataclass(frozen=True, slots=True)
class RMIA:
    """Pairwise likelihood ratios against population records.

    The score is the share of reference records z for which
    (p_target(x) / p(x)) / (p_target(z) / p(z)) exceeds gamma. Here p(x) is the mean probability
    over shadows with and without x. Where no shadow was trained on x, and for every z, it is
    ((1 + a) p_out + 1 - a) / 2.

    Seen over one fixed set of z the share is a step function of x's own ratio, and records above
    all or below all of them tie. Records of one share are put in the order of their ratios, which
    no step contradicts.

    Args:
        gamma: how far x must beat z; the paper uses 2.
        a: the factor of the offline approximation p_in = a p_out + 1 - a, between 0 and 1; if
            not given, the least-squares fit to records that some shadows were trained on and
            some were not. Offline that needs the shadows' answers about their own pool; without
            these it is the paper's .3 for CIFAR-10.

    References:
        Zarifzadeh, Liu and Shokri (2024), Low-cost high-power membership inference attacks,
        eqs. 3 to 5 and section 3.2; ties: Lassila et al. (2025), BASE, which is the ratio itself.
        Departures: the paper tunes ``a`` for the AUC on models of its own; where the candidates
        were asked about in several ways, p is the geometric mean over these.
    """

    gamma: float = 2.0
    a: float | None = None

    name: ClassVar[str] = "rmia"
    paper: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024"

    def __post_init__(self) -> None:
        if self.gamma <= 0 or not 0 <= (self.a or 0) <= 1:
            raise SpecError(
                f"expected gamma above 0 and a between 0 and 1, got gamma={self.gamma}, a={self.a}"
            )

    @property
    def needs(self) -> Need:
        """The model's probabilities, shadows, and reference records."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS | Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The share of reference records that each candidate beats."""
        del rng
        assert view.shadows is not None
        assert view.reference is not None
        a = fit_factor(view) if self.a is None else self.a
        ratio = _ratio(
            mean_over_queries(target_signals("loss", view)), _expected_probability(view.shadows, a)
        )
        population = np.exp(log_probability(view.shadows.reference_phi)).mean(axis=1)
        log_p = signals.compute_for_records("loss", view, view.reference)
        others = np.sort(_ratio(log_p, _offline_probability(population, a)))
        beaten = np.searchsorted(others, ratio - np.log(self.gamma), side="left")
        within_step = 1 / (2 + np.exp(-np.clip(ratio, -30, 30)))  # rising, below one half
        return Scores((beaten + within_step) / len(others))


def fit_factor(view: ModelView) -> float:
    """Fit the factor a of p_in = a p_out + 1 - a to the shadows, by least squares.

    Nothing about the target is used, neither its predictions nor its members.
    """
    known = attack_training_set(view)
    if known is None:
        return PAPERS_FACTOR
    means = _mean_probabilities(known.shadows)
    both = ~np.isnan(means.inside) & ~np.isnan(means.outside)
    inside, outside = 1 - means.inside[both], 1 - means.outside[both]
    scale = float(outside @ outside)
    return float(np.clip(inside @ outside / scale, 0, 1)) if scale else PAPERS_FACTOR


def _expected_probability(shadows: Shadows, a: float) -> Column:
    """The probability p(x) of a record that is as likely a member as not.

    Where one of its halves was never seen, the line p_in = a p_out + 1 - a gives it from the other.
    """
    means = _mean_probabilities(shadows)
    from_outside = a * means.outside + 1 - a
    from_inside = np.maximum(means.inside - 1 + a, 0) / max(a, signals.SMALLEST)
    inside = np.where(np.isnan(means.inside), from_outside, means.inside)
    outside = np.where(np.isnan(means.outside), from_inside, means.outside)
    return (inside + outside) / 2


def _mean_probabilities(shadows: Shadows | PoolPredictions) -> InOutMeans:
    return observed_in_out_means(
        (np.exp(mean_over_queries([log_probability(phi) for phi in block.phi])), block.member)
        for block in read_blocks(shadows)
    )


def _offline_probability(outside: Column, a: float) -> Column:
    return ((1 + a) * outside + 1 - a) / 2


def _ratio(log_target: Column, expected: Column) -> Column:
    ratio: Column = log_target - np.log(np.maximum(expected, signals.SMALLEST))
    return ratio
