"""The hard-label attack, weighed by how often shadow models get a record right."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from divulge.attacks.shared.shadow_signals import Column, read_blocks, ways_of_asking
from divulge.attacks.shared.shadow_statistics import in_out_means
from divulge.core import ModelView, Need, Scores, Shadows

_ERRORS_KEPT = 0.5
"""Offline: a model errs so often on a record it was trained on as against the same unseen."""


@dataclass(frozen=True, slots=True)
class ShadowGap:
    """Likelihood ratio of the model's one label, right or wrong, by shadow models.

    A right label counts more if models that never saw the record get it wrong. q_in and q_out are
    the mean probabilities of the true class over shadow models with and without the record, kept 1
    / (shadows + 2) away from 0 and 1. The score is log(q_in / q_out) for a right label, and log((1
    - q_in) / (1 - q_out)) for a wrong one. Offline there is no q_in; members are then assumed to be
    wrong half as often: q_in = 1 - (1 - q_out) / 2. If candidates are queried in several ways, the
    ratios are added.

    References:
        divulge's own, after the gap attack (Yeom et al. 2018, adversary 1), difficulty calibration
        (Watson et al. 2022) and the ratio of Carlini et al. (2022), here of two Bernoulli
        distributions.
    """

    name: ClassVar[str] = "shadow-gap"
    paper: ClassVar[str] = "divulge 2026"
    needs: ClassVar[Need] = Need.HARD_LABELS | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log ratio for each candidate."""
        del rng
        assert view.shadows is not None
        scores = [
            self._score_query(view, view.shadows, way) for way in range(len(ways_of_asking(view)))
        ]
        return Scores(np.add.reduce(scores))

    def _score_query(self, view: ModelView, shadows: Shadows, way: int) -> Column:
        """The log ratio by the candidates themselves, or by one augmentation of them."""
        records = ways_of_asking(view)[way]
        right = view.target.predict(records.x).argmax(axis=1) == records.y
        means = in_out_means(
            (expit(block.phi[way]), block.member) for block in read_blocks(shadows)
        )
        # half a model more that is right, and half a model that is wrong, on either side
        least = 1 / (shadows.phi.shape[1] + 2)
        outside = np.clip(means.outside, least, 1 - least)
        errors = 1 - outside
        if shadows.online:
            errors_inside = 1 - np.clip(means.inside, least, 1 - least)
        else:  # halved as they are: records that the model gets wrong tie, whatever rounding does
            errors_inside = _ERRORS_KEPT * errors
        ratio = np.where(right, (1 - errors_inside) / outside, errors_inside / errors)
        return np.asarray(np.log(ratio))
