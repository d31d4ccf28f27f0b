"""The blind control of attacks on federations: what they see is shuffled, and the truth is not.

An attack whose guess still fits the truth knows that from elsewhere: it was told, by a bug or on
purpose.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divulge._util.progress import Track, untracked
from divulge._util.random import stream
from divulge.audits import attempt
from divulge.audits.controls import FALSE_ALARM
from divulge.audits.secrets import AssignmentSecret, CompositionSecret
from divulge.core import (
    Assignment,
    AssignmentAttack,
    AssignmentFacts,
    BlindRun,
    CompositionAttack,
    CompositionFacts,
    FederationView,
    Proportions,
    Round,
    Rounds,
    UpdateView,
)
from divulge.metrics import assignment, composition
from divulge.metrics.permutation import matches_p, pairing_p
from divulge.targets.shuffled import Shuffled

FEWEST = 8
"""Clients below which no pairing by chance is as rare as `FALSE_ALARM`: 7! is less than 10,000."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """Rounds whose clients go by each other's names."""

    rounds: Rounds
    names: Mapping[str, str]
    """The new name of each client that gets one."""

    def __len__(self) -> int:
        return len(self.rounds)

    def __getitem__(self, index: int, /) -> Round:
        """One round; IndexError beyond the last."""
        return self._renamed(self.rounds[index])

    def __iter__(self) -> Iterator[Round]:
        return map(self._renamed, self.rounds)

    def _renamed(self, played: Round) -> Round:
        received = {self.names.get(name, name): got for name, got in played.received.items()}
        return replace(played, received=received)


def on_updates(
    views: Sequence[UpdateView],
    facts: CompositionFacts,
    attack: CompositionAttack,
    seed: int,
    track: Track[Any] = untracked,
) -> BlindRun | None:
    """An attack on exchanged updates; None where nobody said what clients hold."""
    truths = facts.truth
    if truths is None:
        return None
    moved, measure = exchanged(views, seed), CompositionSecret(facts).measure
    finding, guesses = attempt.run_on_clients(moved, measure, attack, seed, track)
    if guesses is None:
        return BlindRun(None, None, passed=False, reason=finding.reason)
    return of_shares(guesses, truths, seed)


def on_answers(
    view: FederationView,
    facts: AssignmentFacts,
    attack: AssignmentAttack,
    seed: int,
    track: Track[Any] = untracked,
) -> BlindRun | None:
    """An attack on shuffled answers; None where nobody said who trained on the candidates."""
    truth = facts.truth
    if truth is None or view.collusion.records.all():
        return None
    moved, measure = shuffled(view, seed), AssignmentSecret(facts).measure
    finding, guess = attempt.run_on_federation(moved, measure, attack, seed, track)
    if guess is None:
        return BlindRun(None, None, passed=False, reason=finding.reason)
    return of_clients(guess, truth, view, seed)


def exchanged(views: Sequence[UpdateView], seed: int) -> tuple[UpdateView, ...]:
    """The views with the clients' updates shuffled among them: each has the name of one alone.

    Args:
        views: one a client.
        seed: of the audit.
    """
    order = stream(seed, "shuffled updates").permutation(len(views))
    names = {views[other].victim: view.victim for view, other in zip(views, order, strict=True)}
    return tuple(
        replace(views[other], victim=view.victim, rounds=Renamed(views[other].rounds, names))
        for view, other in zip(views, order, strict=True)
    )


def of_shares(guesses: Sequence[Proportions], truths: Sequence[Proportions], seed: int) -> BlindRun:
    """Guesses on exchanged updates, held against the real class shares of each client.

    p is the chance that guesses and truths that are paired at random are as near by L1.
    """
    table = np.array([
        [composition.distance(guess, truth)["l1"] for truth in truths] for guess in guesses
    ])  # fmt: skip
    p_value = pairing_p(table, stream(seed, "blind control"))
    measured = composition.measure(guesses, truths).metrics.get("l1")
    few = "" if len(truths) >= FEWEST else f"{len(truths)} clients are too few for this control"
    return BlindRun(measured, p_value, passed=p_value > FALSE_ALARM, reason=few)


def shuffled(view: FederationView, seed: int) -> FederationView:
    """The view with all models' answers shuffled among the candidates of unknown clients.

    All models shuffle alike. The colluding client's own records stay, as it knows them.
    """
    unknown = ~view.collusion.records
    targets = tuple(
        Shuffled(target, (view.records,), stream(seed, "shuffled answers"), chosen=unknown)
        for target in view.targets
    )
    return replace(view, targets=targets)


def of_clients(guess: Assignment, truth: Assignment, view: FederationView, seed: int) -> BlindRun:
    """A guess on shuffled answers, held against the real client of each candidate.

    The truth is permuted within classes: clients may hold other classes than each other.
    """
    unknown = ~view.collusion.records
    seen, real = (Assignment(one.client[unknown]) for one in (guess, truth))
    label, rng = view.records.y[unknown], stream(seed, "blind control")
    p_value = matches_p(seen.client, real.client, label, rng)
    return BlindRun(assignment.accuracy(seen, real), p_value, passed=p_value > FALSE_ALARM)
