"""FedMIA: a client's update, judged by what all other clients' updates say about a record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float64
from scipy import special

from divulge._util.arguments import check_arguments
from divulge.attacks.shared import decision
from divulge.core import NOBODY, Assignment, FederationView, Need, Records, RoundSignals
from divulge.errors import NotApplicable, SpecError

Measurement = Literal["cosine", "loss", "difference", "norm"]
Evidence = Float64[np.ndarray, "records clients"]

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
    rounds: Literal["all", "last"] = "all"
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
        assert view.updates is not None
        clients = decision.clients_under_attack(view)
        sets = [view.records, *(view.external[k] for k in clients)]
        played = view.updates.signals(reduce(Records.joined, sets))
        if not played:
            raise NotApplicable("expected rounds, got none: record one or more")
        evidence = self._evidence(played)
        _refuse_absent(evidence[:, clients], [view.updates.clients[k] for k in clients])
        candidates, *external = np.split(
            evidence, np.cumsum([len(records) for records in sets])[:-1]
        )
        passing = np.full(candidates.shape, fill_value=False)
        for k, known in zip(clients, external, strict=True):
            # "higher": interpolation would let more of the external records pass than fpr allows
            threshold = np.quantile(known[:, k], 1 - self.fpr, method="higher")
            passing[:, k] = candidates[:, k] > threshold
        score = np.where(np.isnan(candidates), 0.0, candidates)
        return decision.assign_known_records(view, _best_client(score, passing), score)

    def _evidence(self, played: Sequence[RoundSignals]) -> Evidence:
        """Each record's evidence against each client; NaN where a client never took part."""
        judge: Callable[[Evidence], Evidence] = _compare_with_others if self.others else np.copy
        by_round = [judge(_MEASUREMENTS[self.measurement](signals)) for signals in played]
        total, count = np.zeros(by_round[0].shape), np.zeros(by_round[0].shape)
        for evidence in reversed(by_round):
            there = ~np.isnan(evidence) & ((count == 0) | (self.rounds == "all"))
            total[there] += evidence[there]
            count += there
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


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


def _refuse_absent(evidence: Evidence, names: Sequence[str]) -> None:
    """Refuse to guess where a client left no evidence.

    Raises:
        NotApplicable: names one of them.
    """
    absent = np.flatnonzero(np.isnan(evidence).all(axis=0))
    if len(absent):
        raise NotApplicable(
            f"expected a round with the own updates of {FEWEST} clients or more, among them "
            f"{names[absent[0]]!r}, got none: where a defence hides single updates, keep it"
        )


def _best_client(score: Evidence, passing: Bool[np.ndarray, "records clients"]) -> np.ndarray:
    """The client with the highest score among those that pass, or nobody."""
    best = np.where(passing, score, -np.inf).argmax(axis=1)
    return np.where(passing.any(axis=1), best, NOBODY)
