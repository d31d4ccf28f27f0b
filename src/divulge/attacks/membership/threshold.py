"""A threshold on one signal of the model's answer: the attacks that need nothing else."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import ModelView, Need, Scores
from divulge.metrics import signals
from divulge.metrics.exact_signals import rank_records


@check_arguments
@dataclass(frozen=True, slots=True)
class Threshold:
    """Score each record by one signal; whoever is above the threshold is called a member.

    Args:
        signal: ``loss`` (minus cross-entropy), ``scaled_logit`` (LiRA's φ) and ``margin`` look
            at the true class; ``modified_entropy`` at the true class and the others;
            ``confidence`` and ``entropy`` ignore the label.
        per_class: one threshold a class, moved together: the class's median signal over the
            reference records (shrunk to the median of all where the class is small) is taken
            off. Needs reference records.

    References:
        Yeom et al. (2018), Privacy risk in machine learning; Salem et al. (2019), ML-Leaks;
        Song and Mittal (2021), Systematic evaluation of privacy risks, section 3 (class-dependent
        thresholds); Carlini et al. (2022), eq. 3 (scaled logit).
    """

    signal: signals.SignalName = "loss"
    per_class: bool = False

    name: ClassVar[str] = "threshold"
    paper: ClassVar[str] = "Yeom et al. 2018; Song and Mittal 2021"

    def __post_init__(self) -> None:
        signals.check_name(self.signal)

    @property
    def needs(self) -> Need:
        """The model's probabilities, and reference records for thresholds per class."""
        return Need.PROBABILITIES | Need.LABELS | (Need.REFERENCE if self.per_class else Need.NONE)

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The signal of each candidate."""
        del rng
        score = rank_records(self.signal, view, view.records)
        if self.per_class:
            assert view.reference is not None
            reference = rank_records(self.signal, view, view.reference)
            score = score - signals.class_statistics(
                np.median, reference, view.reference.y, of=view.records.y
            )
        return Scores(score)


@dataclass(frozen=True, slots=True)
class Residual:
    """Minus the size of the residual, |y - f(x)|: small where a regression model has memorised.

    References:
        Yeom et al. (2018), Privacy risk in machine learning, section 3.2: adversary 2 with Gaussian
        errors of one spread, a threshold on the size of the residual.
    """

    name: ClassVar[str] = "residual"
    paper: ClassVar[str] = "Yeom et al. 2018"
    needs: ClassVar[Need] = Need.VALUES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """Minus the size of each candidate's residual, in the unit of the true values."""
        del rng
        return Scores(-np.abs(signals.compute_residuals(view, view.records)))
