"""From the evidence of each round to a client for each record; external records set thresholds."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from divulge.attacks.shared import decision
from divulge.core import NOBODY, Assignment, FederationView, Records
from divulge.errors import NotApplicable

Evidence = Float64[np.ndarray, "records clients"]

RoundsUsed = Literal["all", "last"]


def assign_by_evidence(
    view: FederationView,
    ask: Callable[[Records], Sequence[Evidence]],
    rounds: RoundsUsed,
    fpr: float,
    *,
    fewest: int,
) -> Assignment:
    """Assign each candidate to the client with the most evidence above its threshold, or to nobody.

    Args:
        view: the federation.
        ask: the evidence of each round about records; NaN where a client took no part.
        rounds: the mean over the rounds of a client, or its last one.
        fpr: share of a client's external records whose evidence may exceed its threshold.
        fewest: clients of whom a round needs own updates, for a message.

    Raises:
        NotApplicable: there are no rounds, or a client left no evidence.
    """
    assert view.updates is not None
    clients = decision.clients_under_attack(view)
    sets = [view.records, *(view.external[k] for k in clients)]
    played = ask(reduce(Records.joined, sets))
    if not played:
        raise NotApplicable("expected rounds, got none: record one or more")
    evidence = _combine(played, rounds)
    _refuse_absent(evidence[:, clients], [view.updates.clients[k] for k in clients], fewest)
    candidates, *external = np.split(evidence, np.cumsum([len(records) for records in sets])[:-1])
    passing = np.full(candidates.shape, fill_value=False)
    for k, known in zip(clients, external, strict=True):
        # "higher": interpolation would let more of the external records pass than fpr allows
        threshold = np.quantile(known[:, k], 1 - fpr, method="higher")
        passing[:, k] = candidates[:, k] > threshold
    score = np.where(np.isnan(candidates), 0.0, candidates)
    return decision.assign_known_records(view, _best_client(score, passing), score)


def _combine(by_round: Sequence[Evidence], rounds: RoundsUsed) -> Evidence:
    """Each record's evidence against each client; NaN where a client never took part."""
    total, count = np.zeros(by_round[0].shape), np.zeros(by_round[0].shape)
    for evidence in reversed(by_round):
        there = ~np.isnan(evidence) & ((count == 0) | (rounds == "all"))
        total[there] += evidence[there]
        count += there
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _refuse_absent(evidence: Evidence, names: Sequence[str], fewest: int) -> None:
    """Refuse to guess where a client left no evidence.

    Raises:
        NotApplicable: names one of them.
    """
    absent = np.flatnonzero(np.isnan(evidence).all(axis=0))
    if len(absent):
        many = f"own updates of {fewest} clients or more" if fewest > 1 else "own update of each"
        raise NotApplicable(
            f"expected a round with the {many}, among them {names[absent[0]]!r}, got none: where a "
            "defence hides single updates, keep it"
        )


def _best_client(score: Evidence, passing: Bool[np.ndarray, "records clients"]) -> np.ndarray:
    """The client with the highest score among those that pass, or nobody."""
    best = np.where(passing, score, -np.inf).argmax(axis=1)
    return np.where(passing.any(axis=1), best, NOBODY)
