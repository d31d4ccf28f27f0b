"""FedMIA: a client's update, judged by what all other clients' updates say about a record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.round_evidence import Evidence, RoundsUsed, assign_by_evidence
from divulge.core import Assignment, FederationView, Need, RoundSignals
from divulge.errors import SpecError

Measurement = Literal["cosine", "loss", "difference", "norm"]
FEWEST = 3
"""Clients with an own update below which no spread of the others can be seen."""

OUTLIER = 3.0
"""Standard deviations above the others' mean beyond which an update is taken for a member's."""

VARIANCE_FLOOR = 1e-8
"""Added to the others' variance, as in the published code."""


@check_arguments
@dataclass(frozen=True, slots=True)
class FedMIA:
    """How much higher a client's update scores than the other clients', averaged over rounds.

    A measurement says how well a client's update fits the record. A round's evidence is the normal
    probability of values below the client's, with the mean and variance of the other clients'
    values for the same record: nearly all of them were trained without it. A candidate is assigned
    to the client with the highest score among those above their threshold.

    Args:
        measurement: ``cosine`` of the record's gradient and the client's pseudo-gradient
            (FedMIA-II); ``loss``: the record's log probability under the client's weights
            (FedMIA-I); ``difference``: |G|² - |G - g|² for the gradient g and the pseudo-gradient
            G; ``norm``: -|g|, the same for all clients, so ``others`` must be false.
        others: whether the client is compared with the others. Without, the measurement itself is
            the evidence: with ``loss``, Blackbox-Loss and Loss-Series; with ``cosine``, Grad-Cosine
            and Avg-Cosine; with ``difference``, Grad-Diff; with ``norm``, Grad-Norm.
        rounds: ``all`` is the mean over the rounds of a client; ``last`` takes its last one.
        fpr: share of a client's external records whose score may exceed its threshold.

    References:
        Zhu et al. (2025), FedMIA: an effective membership inference attack exploiting the "all for
        one" principle in federated learning (CVPR), equations 5 and 7 to 12; comparisons of its
        section 4.1 as its published code has them. Departures: the paper leaves the threshold open,
        and asks about one client at a time; the threshold from external records, and the choice
        among several clients, are ours. Gradients are taken in evaluation mode.
    """

    measurement: Measurement = "cosine"
    others: bool = True
    rounds: RoundsUsed = "all"
    fpr: float = 0.05

    name: ClassVar[str] = "fedmia"
    paper: ClassVar[str] = "Zhu et al. 2025"
    needs: ClassVar[Need] = Need.UPDATES | Need.LABELS | Need.REFERENCE

    def __post_init__(self) -> None:
        if not 0 < self.fpr < 1:
            raise SpecError(f"expected fpr above 0 and below 1, got {self.fpr}")
        if self.measurement == "norm" and self.others:
            raise SpecError(
                "expected others = false with measurement = 'norm', got true: a record's gradient "
                "is the same for all clients"
            )

    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        """The client of each candidate, and the evidence for each."""
        del rng
        updates = view.updates
        assert updates is not None
        judge: Callable[[Evidence], Evidence] = _compare_with_others if self.others else np.copy
        measure = _MEASUREMENTS[self.measurement]
        return assign_by_evidence(
            view,
            lambda records: [judge(measure(played)) for played in updates.signals(records)],
            self.rounds,
            self.fpr,
            fewest=FEWEST,
        )


def _measure_cosine(signals: RoundSignals) -> Evidence:
    size = signals.gradient_norm[:, None] * signals.update_norm
    # FedMIA-II: the cosine of the record's gradient and the client's pseudo-gradient
    cosine: Evidence = signals.inner / np.where(size > 0, size, 1.0)
    return cosine


def _measure_loss(signals: RoundSignals) -> Evidence:
    return -signals.loss


def _measure_difference(signals: RoundSignals) -> Evidence:
    # |G|² - |G - g|² without the difference of two large squares
    shorter: Evidence = 2 * signals.inner - signals.gradient_norm[:, None] ** 2
    return shorter


def _measure_norm(signals: RoundSignals) -> Evidence:
    there = ~np.isnan(signals.update_norm)
    return np.where(there, -signals.gradient_norm[:, None], np.nan)


_MEASUREMENTS: dict[Measurement, Callable[[RoundSignals], Evidence]] = {
    "cosine": _measure_cosine,
    "loss": _measure_loss,
    "difference": _measure_difference,
    "norm": _measure_norm,
}


def _compare_with_others(measured: Evidence) -> Evidence:
    """Normal probability of less than each value, by the other clients' mean and variance."""
    probability = np.full(measured.shape, np.nan)
    there = np.flatnonzero(~np.isnan(measured).any(axis=0))
    if len(there) < FEWEST:
        return probability
    for k in there:
        others = measured[:, there[there != k]]
        # another member's update would widen the spread that non-members are judged by
        limit = others.mean(axis=1) + OUTLIER * others.std(axis=1)
        usual = (others <= limit[:, None]) | (others == others.min(axis=1, keepdims=True))
        inliers = np.where(usual, others, np.nan)
        # as in the published code: others that agree exactly would make any value certain
        spread = np.sqrt(np.nanvar(inliers, axis=1) + VARIANCE_FLOOR)
        probability[:, k] = special.ndtr((measured[:, k] - np.nanmean(inliers, axis=1)) / spread)
    return probability
