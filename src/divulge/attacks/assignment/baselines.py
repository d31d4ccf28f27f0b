"""Baselines that any attack on a federation must beat: nobody, and two rules on single answers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64
from scipy import special

from divulge.attacks.shared import decision
from divulge.core import NOBODY, Assignment, FederationView, Need, Records
from divulge.metrics import signals

Column = Float64[np.ndarray, " records"]


@dataclass(frozen=True, slots=True)
class Nobody:
    """Assign every record to nobody, except the colluding client's own.

    References:
        divulge's own. If most candidates are non-members it is hard to beat: above the best
        accuracy of nist-stacking (arXiv 2604.12737), table 2, if 44 of its 73 records are.
    """

    name: ClassVar[str] = "nobody"
    paper: ClassVar[str] = "divulge 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """Nobody, with scores of 0."""
        del rng
        records = len(view.records)
        return decision.assign_known_records(
            view, np.full(records, NOBODY), np.zeros((records, len(view.targets)))
        )


@dataclass(frozen=True, slots=True)
class ConfidenceRule:
    """Assign a record to a client whose loss and confidence both beat its non-members' means.

    Of several such clients the most confident gets it.

    References:
        nist-stacking (arXiv 2604.12737), table 2, baseline 2, as its published code has it.
    """

    name: ClassVar[str] = "confidence-rule"
    paper: ClassVar[str] = "nist-stacking 2026, baseline 2"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The rule's client, and each client's confidence where it passes."""
        del rng
        score = np.zeros((len(view.records), len(view.targets)))
        for k in decision.clients_under_attack(view):
            loss, sure = _loss_and_confidence(view, int(k), view.records)
            usual_loss, usual_sure = _loss_and_confidence(view, int(k), view.external[k])
            # Yeom's threshold on the loss and Salem's on the confidence, both by known non-members
            passing = (loss < usual_loss.mean()) & (sure > usual_sure.mean())
            score[:, k] = np.where(passing, sure, 0.0)
        client = np.where(score.any(axis=1), score.argmax(axis=1), NOBODY)
        return decision.assign_known_records(view, client, score)


@dataclass(frozen=True, slots=True)
class VarianceLiRA:
    """The loss in standard deviations below the mean of non-members: the paper's LiRA baseline.

    Within one client it is a threshold on the loss, with the same ROC. What it adds is a common
    scale for several clients, to which the two-sided rule of stacking is applied.

    References:
        nist-stacking (arXiv 2604.12737), section 4.1. Departure: it compares one client only; the
        rule for several, on normal probabilities of the score, is ours.
    """

    name: ClassVar[str] = "variance-lira"
    paper: ClassVar[str] = "nist-stacking 2026, section 4.1"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The two-sided rule's client, and the normal probability of each score."""
        del rng
        score = np.zeros((len(view.records), len(view.targets)))
        for k in decision.clients_under_attack(view):
            loss, _ = _loss_and_confidence(view, int(k), view.records)
            usual, _ = _loss_and_confidence(view, int(k), view.external[k])
            # section 4.1, with the published code's 1e-9; Φ puts clients on one scale
            score[:, k] = special.ndtr((usual.mean() - loss) / (usual.std() + 1e-9))
        return decision.decide_two_sided(view, score)


def _loss_and_confidence(view: FederationView, k: int, records: Records) -> tuple[Column, Column]:
    probabilities = view.targets[k].predict(records.x)
    return -signals.compute_signal("loss", probabilities, records.y), probabilities.max(axis=1)
