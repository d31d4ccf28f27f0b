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
    """Score each record by one signal of the model's answer; high scores are members.

    p is the answer for a record of class y.

    Args:
        signal: ``loss``: log p_y; ``scaled_logit``: log p_y - log(1 - p_y), which orders records as
            ``loss`` does; ``margin``: log p_y less the log of the largest other p_j;
            ``confidence``: log odds of the largest p_j; ``entropy``: the sum of p_j log p_j;
            ``modified_entropy``: (1 - p_y) log p_y plus the sum of p_j log(1 - p_j) over the other
            classes. ``confidence`` and ``entropy`` do not use the label.
        per_class: subtract the median signal of the class over the reference records; the median of
            n records counts n / (n + 10), that of all the rest.

    References:
        Yeom et al. (2018), Privacy risk in machine learning (loss); Salem et al. (2019), ML-Leaks
        (confidence, entropy); Song and Mittal (2021), Systematic evaluation of privacy risks,
        section 3 (classes) and eq. 6 (modified entropy); Carlini et al. (2022), eq. 3 (scaled
        logit).
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
            # section 3 of Song and Mittal: thresholds by class are one on what exceeds the median
            score = score - signals.class_statistics(
                np.median, reference, view.reference.y, of=view.records.y
            )
        return Scores(score)


@dataclass(frozen=True, slots=True)
class Residual:
    """Minus the size of the residual, -|y - f(x)|, which memorisation makes small.

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
