"""Attacks on which client held a record, on answers that are shuffled among the candidates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import (
    Assignment,
    AssignmentAttack,
    AssignmentFacts,
    BlindRun,
    ControlOutcome,
    FederationView,
    RecordedUpdates,
    Records,
    RoundSignals,
)
from divulge.metrics import assignment
from divulge.metrics.permutation import matches_p
from divulge.secrets.base import FederatedSecret
from divulge.secrets.control_targets.shuffled import ShuffledTarget
from divulge.secrets.controls import judge_p, not_tested, too_few
from divulge.targets.cache import record_keys


@dataclass(frozen=True, slots=True)
class ShuffledUpdates:
    """Updates that, asked about a candidate, speak of another, with that one's class."""

    updates: RecordedUpdates
    records: Records
    order: Int[np.ndarray, " records"]
    """The candidate that each candidate is answered about."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients."""
        return self.updates.clients

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """What each round says; other records than candidates are asked about as they are.

        Raises:
            TargetError: the network could not be made, asked or differentiated.
        """
        return self.updates.signals(self._exchange(records))

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """What no update spans, likewise; errors as of the updates themselves."""
        return self.updates.residuals(self._exchange(records), layer)

    def _exchange(self, records: Records) -> Records:
        """The same records, with others in the places of candidates."""
        place = {key: row for row, key in enumerate(record_keys(self.records.x))}
        places = np.array([place.get(key, -1) for key in record_keys(records.x)])
        rows = np.flatnonzero(places >= 0)
        stands_in = self.order[places[rows]]
        x, y = records.x.copy(), records.y.copy()
        x[rows], y[rows] = self.records.x[stands_in], self.records.y[stands_in]
        return replace(records, x=x, y=y)


def control_on_predictions(
    view: FederationView,
    secret: FederatedSecret[AssignmentFacts, Any],
    attack: AssignmentAttack,
    seed: int,
    track: Track[Any] = track_silently,
) -> BlindRun | None:
    """An attack on shuffled answers; None where nobody said who trained on the candidates."""
    truth = secret.facts.truth
    if truth is None:
        return None
    if view.collusion.records.all():
        return not_tested("all candidates are the colluding client's own")
    finding, guess, _ = secret.attempt(shuffle_predictions(view, seed), attack, seed, track)
    if guess is None:
        return BlindRun(None, None, ControlOutcome.FAILED, finding.reason)
    return judge_clients(guess, truth, view, seed)


def shuffle_predictions(view: FederationView, seed: int) -> FederationView:
    """The view with all models' answers shuffled among the candidates of unknown clients.

    All models shuffle alike, and so do updates. The colluding client's own records stay, as it
    knows them.
    """
    unknown = ~view.collusion.records
    targets = tuple(
        ShuffledTarget(target, (view.records,), stream(seed, "shuffled answers"), chosen=unknown)
        for target in view.targets
    )
    if view.updates is None:
        return replace(view, targets=targets)
    order = np.arange(len(unknown))
    order[unknown] = stream(seed, "shuffled answers").permutation(np.flatnonzero(unknown))
    updates = ShuffledUpdates(view.updates, view.records, order)
    return replace(view, targets=targets, updates=updates)


def judge_clients(
    guess: Assignment, truth: Assignment, view: FederationView, seed: int
) -> BlindRun:
    """A guess on shuffled answers, held against the real client of each candidate.

    The truth is permuted within classes: clients may hold other classes than each other.
    """
    unknown = ~view.collusion.records
    guessed, real = (Assignment(one.client[unknown]) for one in (guess, truth))
    label, rng = view.records.y[unknown], stream(seed, "blind control")
    p_value = matches_p(guessed.client, real.client, label, rng)
    few = too_few(real.client, label, "records of unknown clients")
    return judge_p(assignment.accuracy(guessed, real), p_value, few)
