"""Difficulty calibration: how much more does the target like this record than shadows do?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakscope.attacks import signals
from leakscope.attacks.shadow_means import in_out
from leakscope.core import ModelView, Need, Scores


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The target's scaled logit less the mean of the shadows' scaled logits.

    No variance is estimated, which makes it the strongest simple rule with 1 to 4 shadows.

    References:
        Watson et al. (2022), On the importance of difficulty calibration in membership inference
        attacks. Departures: scaled logits take the place of losses; with online shadows the mean
        weighs the shadows trained with the record and those without it equally.
    """

    name: ClassVar[str] = "calibrated"
    paper: ClassVar[str] = "Watson et al. 2022"

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The surplus of each candidate."""
        del rng
        assert view.shadows is not None
        phi, shadow_phi = signals.tamed(
            signals.of_records("scaled_logit", view, view.records), view.shadows.phi
        )
        means = in_out(shadow_phi, view.shadows.member)
        return Scores(phi - (means.inside + means.outside) / 2)
