"""LiRA without shadow models compares a record with known non-members of the same target."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import ModelView, Need, Scores
from divulge.errors import SpecError
from divulge.metrics import signals


@check_arguments
@dataclass(frozen=True, slots=True)
class External:
    """Standardise the signal by a Gaussian fitted to known non-members of the same target.

    The score is (signal - mean) / max(standard deviation, ``floor``), over the reference records.
    With one Gaussian for all it ranks records as the plain threshold does: what is new is the
    scale.

    Args:
        signal: see `Threshold`; the paper uses the loss.
        per_class: one Gaussian per class, shrunk to that of all as the medians of `Threshold`.
        floor: smallest standard deviation, in nats.

    References:
        nist-stacking (arXiv 2604.12737), section 4.1, its variance-based formulation of LiRA from
        external records. Departure: the floor is 0.001 nats, where its code adds 1e-9.
    """

    signal: signals.SignalName = "loss"
    per_class: bool = False
    floor: float = 1e-3

    name: ClassVar[str] = "external"
    paper: ClassVar[str] = "nist-stacking 2026, section 4.1"

    def __post_init__(self) -> None:
        signals.check_name(self.signal)
        if self.floor <= 0:
            raise SpecError(f"expected floor above 0, got {self.floor}")

    @property
    def needs(self) -> Need:
        """The model's probabilities, and reference records."""
        return Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The signal of each candidate, in standard deviations above the mean of non-members."""
        del rng
        assert view.reference is not None
        score, reference = signals.tame(
            signals.compute_for_records(self.signal, view, view.records),
            signals.compute_for_records(self.signal, view, view.reference),
        )
        classes = view.reference.y if self.per_class else np.zeros(len(reference), np.int64)
        of = view.records.y if self.per_class else np.zeros(len(score), np.int64)
        mean = signals.class_statistics(np.mean, reference, classes, of=of)
        variance = signals.class_statistics(np.var, reference, classes, of=of)
        # section 4.1; departure: a floor, since a few records may agree exactly
        return Scores((score - mean) / np.maximum(np.sqrt(variance), self.floor))
