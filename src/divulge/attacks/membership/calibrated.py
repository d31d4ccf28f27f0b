"""Difficulty calibration compares the target's score of a record with the shadows' scores."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.attacks.shared.shadow_signals import mean_over_queries, scaled_logits
from divulge.attacks.shared.shadow_statistics import in_out_means
from divulge.core import ModelView, Need, Scores


@dataclass(frozen=True, slots=True)
class CalibratedLoss:
    """The target's scaled logit less the mean of the shadow models' scaled logits.

    Every model predicts an easy record well; the difference is what memorisation adds. If a record
    is in all shadow models or in none, the average gap replaces the missing mean.

    References:
        Watson et al. (2022), On the importance of difficulty calibration in membership inference
        attacks. Departures: scaled logits instead of losses; with online shadows the mean weighs
        those trained with the record and those without it equally.
    """

    name: ClassVar[str] = "calibrated"
    paper: ClassVar[str] = "Watson et al. 2022"

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The target's score of each candidate less the mean score of the shadows."""
        del rng
        logits = scaled_logits(view)
        means = in_out_means(
            (mean_over_queries(block.phi), block.member) for block in logits.blocks()
        )
        # departure: half of each side online; Watson et al. have models without the record
        return Scores(mean_over_queries(logits.target) - (means.inside + means.outside) / 2)
