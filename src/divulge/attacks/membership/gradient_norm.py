"""The size of the loss's gradient by the features: small where the model has learned a record."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.core import ModelView, Need, Scores, as_white_box


@dataclass(frozen=True, slots=True)
class GradientNorm:
    """Minus the log of the norm of the loss's gradient by the record's features.

    A model that has memorised a record can improve little there. If only some features are known,
    it is the gradient by the others, at the filled-in record: what one step of a reconstruction
    would move them by.

    References:
        Rezaei and Liu (2021), On the difficulty of membership inference attacks, section 3
        (gradient norm by the input).
    """

    name: ClassVar[str] = "gradient-norm"
    paper: ClassVar[str] = "Rezaei and Liu 2021"

    @property
    def needs(self) -> Need:
        """A model that can be looked into."""
        return Need.AUTOGRAD | Need.FEATURES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The score of each candidate."""
        del rng
        gradient = as_white_box(view.target).gradient(view.records.x, view.records.y)
        if view.known is not None and not view.known.all():
            # what is known does not move: its part of the gradient says nothing of memory
            gradient = np.where(view.known, 0.0, gradient)
        norm = np.linalg.norm(gradient.reshape(len(gradient), -1), axis=1)
        # a saturated answer has a gradient of exactly zero
        return Scores(-np.log(np.maximum(norm, np.finfo(np.float64).tiny)))
