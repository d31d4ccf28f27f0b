"""Assignment: from ``[assignment]`` to the challenge which client trained on each record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divulge._util.digest import digest
from divulge._util.progress import Track, track_silently
from divulge.audits import attempt
from divulge.audits.attempt import AttackResult
from divulge.audits.challenges import blind
from divulge.audits.challenges.base import Controls, FederationChallenge
from divulge.audits.config import AssignmentSpec
from divulge.audits.secrets import AssignmentSecret
from divulge.core import Assignment, AssignmentAttack, AssignmentFacts, FederationView
from divulge.federation import prediction_tables


@dataclass(frozen=True, slots=True)
class AssignmentChallenge(FederationChallenge):
    """The models of a federation's clients, and records that some of them trained on."""

    view: FederationView
    facts: AssignmentFacts
    digest: str

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
        return Controls(
            blind=blind.control_on_predictions(self.view, self.facts, attack, seed, track)
        )


def pose(spec: AssignmentSpec, folder: Path) -> AssignmentChallenge:
    """The challenge that settings describe.

    Args:
        spec: the settings.
        folder: where relative paths start: the folder of ``audit.toml``.

    Raises:
        DivulgeError: a table or the truth cannot be used.
    """
    files = {name: folder / path for name, path in spec.predictions.items()}
    view = prediction_tables.read(
        files,
        spec.colluder,
        probabilities=spec.probabilities,
        label=spec.label,
        output=spec.output,
    )
    truth = None
    if spec.truth is not None:
        truth = prediction_tables.read_owners(folder / spec.truth, tuple(files), view)
    known = view.collusion
    facts = AssignmentFacts(
        clients=tuple(files),
        colluder=known.client,
        candidates=len(view.records),
        labels=tuple(view.records.y.tolist()),
        known=tuple(np.flatnonzero(known.records).tolist()),
        owners=None if truth is None else tuple(truth.client.tolist()),
    )
    predictions = [
        target.predict(np.arange(len(view.records) + len(relevant) + len(external)))
        for target, relevant, external in zip(
            view.targets, view.relevant, view.external, strict=True
        )
    ]
    labels = [part.y for part in (view.records, *view.relevant, *view.external)]
    return AssignmentChallenge(
        view, facts, digest(repr(facts), *predictions, *labels, known.relevant)
    )
