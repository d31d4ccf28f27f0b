"""LT-IQR: records whose loss fell late in the training are those that shadows give away."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import ModelView, Need, Scores


@check_arguments
@dataclass(frozen=True, slots=True)
class LossTraceIQR:
    """Interquartile range of a record's loss over the training, less its loss at the end.

    A model memorised a record whose loss fell late and far. The quartiles are over the checkpoints
    and the final model.

    Args:
        minus_final_loss: whether the loss of the trained model is subtracted. Without that it is
            the published score, which ranks members by their risk, and is no guess of membership.

    References:
        Pollock, Shilov, Dodd and de Montjoye (2025), Free record-level privacy risk evaluation
        through artifact-based methods, section 4, and the authors' code. Departure: they rank the
        members, whose loss ends near 0; a candidate may be none, and its loss may rise, which is a
        wide range too. The final loss then counts against it.
    """

    minus_final_loss: bool = True

    name: ClassVar[str] = "lt-iqr"
    paper: ClassVar[str] = "Pollock, Shilov, Dodd and de Montjoye 2025"

    @property
    def needs(self) -> Need:
        """The loss of each candidate at moments of the training."""
        return Need.LOSS_TRACE | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The score of each candidate, in nats."""
        del rng
        assert view.loss_trace is not None
        # section 4: the interquartile range of the loss over the training
        low, high = np.quantile(view.loss_trace, (0.25, 0.75), axis=1)
        # departure: a candidate that is no member may end at a high loss
        final = view.loss_trace[:, -1] if self.minus_final_loss else 0.0
        return Scores(high - low - final)
