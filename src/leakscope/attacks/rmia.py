"""RMIA: does the target prefer this record to others of its population more than shadows do?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakscope.attacks import signals
from leakscope.attacks.shadow_answers import (
    Column,
    average,
    blocks,
    in_out,
    log_probability,
    of_target,
)
from leakscope.core import ModelView, Need, Scores
from leakscope.errors import SpecError


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
        a: the factor of the offline approximation, between 0 and 1; the paper's .3 for CIFAR-10.

    References:
        Zarifzadeh, Liu and Shokri (2024), Low-cost high-power membership inference attacks,
        eqs. 3 to 5 and section 3.2; ties: Lassila et al. (2025), BASE, which is the ratio itself.
    """

    gamma: float = 2.0
    a: float = 0.3

    name: ClassVar[str] = "rmia"
    paper: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024"

    def __post_init__(self) -> None:
        if self.gamma <= 0 or not 0 <= self.a <= 1:
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
        means = in_out(
            (np.exp(average([log_probability(phi) for phi in block.phi])), block.member)
            for block in blocks(view.shadows)
        )
        offline = self._offline(means.outside)
        expected = (means.inside + means.outside) / 2 if view.shadows.online else offline
        ratio = self._ratio(average(of_target("loss", view)), expected)
        population = np.exp(log_probability(view.shadows.reference_phi)).mean(axis=1)
        others = np.sort(
            self._ratio(signals.of_records("loss", view, view.reference), self._offline(population))
        )
        beaten = np.searchsorted(others, ratio - np.log(self.gamma), side="left")
        within_step = 1 / (2 + np.exp(-np.clip(ratio, -30, 30)))  # rising, below one half
        return Scores((beaten + within_step) / len(others))

    def _offline(self, outside: Column) -> Column:
        return ((1 + self.a) * outside + 1 - self.a) / 2

    def _ratio(self, log_target: Column, expected: Column) -> Column:
        ratio: Column = log_target - np.log(np.maximum(expected, signals.SMALLEST))
        return ratio
