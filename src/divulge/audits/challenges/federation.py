"""Challenges on federations: who trained on which record, what clients hold, what they clicked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from divulge._util.progress import Track, track_silently
from divulge.audits import attempt, wrapped
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges import blind
from divulge.audits.challenges.base import Controls
from divulge.audits.secrets import (
    AssignmentSecret,
    CompositionSecret,
    InteractionSecret,
    encode_beyond,
)
from divulge.core import (
    Assignment,
    AssignmentAttack,
    AssignmentFacts,
    CompositionAttack,
    CompositionFacts,
    FederationView,
    InteractionAttack,
    InteractionFacts,
    Proportions,
    Reconstruction,
    UpdateView,
)
from divulge.metrics.uninformed.interactions import BeyondPublic
from divulge.training.shadows.workers import Workers

C = TypeVar("C")


class FederationChallenge:
    """What the challenges about federations have in common: nothing slow is left to prepare."""

    __slots__ = ()
    compared: ClassVar[str] = ""
    candidates: ClassVar[None] = None

    def prepare(self: C, folder: Path | None, track: Track[Any], workers: Workers | None) -> C:
        """The challenge itself."""
        del folder, track, workers
        return self


@dataclass(frozen=True, slots=True)
class AssignmentChallenge(FederationChallenge):
    """The models of a federation's clients, and records that some of them trained on."""

    view: FederationView
    facts: AssignmentFacts
    digest: str = ""

    def attempt(
        self, attack: AssignmentAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on the clients' models."""
        measure = AssignmentSecret(self.facts).measure
        return attempt.run_on_federation(self.view, measure, attack, seed, track)

    def control(
        self,
        attack: AssignmentAttack,
        guess: Assignment,
        seed: int,
        track: Track[Any] = track_silently,
    ) -> Controls:
        """The attack on shuffled predictions, held against the real clients."""
        del guess
        view = self.view
        if isinstance(attack, wrapped.AfterRounds):
            view, attack = attack.restrict(view), attack.attack
        return Controls(blind=blind.control_on_predictions(view, self.facts, attack, seed, track))


@dataclass(frozen=True, slots=True)
class CompositionChallenge(FederationChallenge):
    """What the server of a federation has against each client."""

    views: tuple[UpdateView, ...]
    facts: CompositionFacts
    digest: str = ""

    def attempt(
        self, attack: CompositionAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on every client."""
        measure = CompositionSecret(self.facts).measure
        return attempt.run_on_clients(self.views, measure, attack, seed, track)

    def control(
        self,
        attack: CompositionAttack,
        guess: Sequence[Proportions],
        seed: int,
        track: Track[Any] = track_silently,
    ) -> Controls:
        """The attack on exchanged updates, held against the real class shares."""
        del guess
        return Controls(blind=blind.control_on_updates(self.views, self.facts, attack, seed, track))


@dataclass(frozen=True, slots=True)
class InteractionChallenge(FederationChallenge):
    """What the server of a federation has against each client that was shown items."""

    views: tuple[UpdateView, ...]
    facts: InteractionFacts
    digest: str = ""

    def attempt(
        self, attack: InteractionAttack, seed: int, track: Track[Any] = track_silently
    ) -> AttackResult:
        """One attack on every client."""
        measure = InteractionSecret(self.facts).measure
        return attempt.run_on_clients(self.views, measure, attack, seed, track)

    def control(
        self,
        attack: InteractionAttack,
        guess: Sequence[Reconstruction],
        seed: int,
        track: Track[Any] = track_silently,
    ) -> Controls:
        """The attack on updates of shuffled clicks, held against the real ones."""
        run, aucs = blind.control_on_interactions(self.views, self.facts, attack, seed, track)
        if self.facts.truth is None:
            return Controls(blind=run)
        left = blind.correlate_beyond_public(guess, self.facts.truth, self.views, seed)
        return Controls(blind=run, arrays=encode_beyond(BeyondPublic(left, aucs)))


def describe_assignment(
    view: FederationView,
    clients: tuple[str, ...],
    truth: Assignment | None,
    rounds: int | None = None,
    notes: tuple[str, ...] = (),
) -> AssignmentFacts:
    """What the run folder keeps of a challenge on these models.

    Args:
        view: of the colluding client, or of the server.
        clients: a name for each model.
        truth: the client of each candidate; None if nobody said.
        rounds: number of rounds in the view's updates.
        notes: what was left out, in sentences.
    """
    known = view.collusion
    return AssignmentFacts(
        clients=clients,
        colluder=known.client,
        candidates=len(view.records),
        labels=tuple(view.records.y.tolist()),
        known=tuple(np.flatnonzero(known.records).tolist()),
        owners=None if truth is None else tuple(truth.client.tolist()),
        rounds=rounds,
        notes=notes,
    )
