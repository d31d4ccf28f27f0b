"""Assignment: which client of a federation trained on each candidate."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pydantic

from divulge._util.arguments import Count
from divulge._util.progress import Track, track_silently
from divulge._util.toml import Section
from divulge.attacks.catalog import UNINFORMED
from divulge.core import (
    NOBODY,
    Assignment,
    AssignmentFacts,
    Attack,
    FederationView,
    Measurements,
)
from divulge.errors import SpecError
from divulge.metrics import assignment
from divulge.metrics.intervals import CONFIDENCE
from divulge.secrets import wrapped
from divulge.secrets.base import Controls, FederatedSecret, unmeasured

_FROM_TRANSCRIPT: tuple[str, ...] = ("transcript", "network", "candidates", "external")
_FROM_TABLES: tuple[str, ...] = ("predictions", "colluder")

if TYPE_CHECKING:
    from divulge.secrets.attempt import AttackResult


class AssignmentSpec(Section):
    """``[assignment]``: which client of a federation trained on each record."""

    transcript: str | None = None
    """Folder of the [transcript](reference/transcript.md), which holds each client's updates."""
    network: str | None = None
    """``file.py:name``: a function that makes an untrained module; required with
    ``transcript``."""
    candidates: str | None = None
    """Records of which some clients trained on some, named as in ``[data]``; required with
    ``transcript``."""
    external: str | None = None
    """Records of the same population that no client trained on, named likewise; required with
    ``transcript``."""
    after_rounds: tuple[Count, ...] = ()
    """With ``transcript``: each attack is also carried out with what the server had after so many
    rounds."""
    predictions: dict[str, str] = pydantic.Field(default={})
    """In place of the five above: for each client, a table of what its
    model answers, see below."""
    colluder: str | None = None
    """The client that attacks the others, and knows its own members; required with
    ``predictions``, and only there."""
    probabilities: str = "p_*"
    """Of ``predictions``: pattern of the columns with the answers, in the order of the classes."""
    label: str = "label"
    """The column with the true class."""
    output: Literal["probabilities", "percentages", "logits"] = "probabilities"
    """Of ``predictions``: what the answers are."""
    truth: str | None = None
    """Where it is known: a ``.csv`` file with the column ``client``, a line for each candidate in
    order; ``nobody`` where no client trained on it."""


class AssignmentSecret(FederatedSecret[AssignmentFacts, FederationView]):
    """Which client trained on each candidate."""

    __slots__ = ()
    kind: ClassVar = "assignment"
    guess: ClassVar = Assignment
    question: ClassVar = "Which client of a federation trained on a record?"
    risk: ClassVar = "Can an attacker find out which client of a federation trained on a record?"
    task: ClassVar = "Assignment of records to clients"
    gated: ClassVar = [name for name in assignment.METRICS if name != "specificity"]
    lead: ClassVar = "accuracy"
    section: ClassVar = "assignment"
    usual: ClassVar = ("cluster-lira", "variance-lira", "confidence-rule", "nobody")

    @property
    def sample(self) -> tuple[int, str]:
        """The records whose clients are guessed."""
        return self.facts.candidates, "records"

    @classmethod
    def check_section(cls, section: AssignmentSpec, where: str) -> None:
        """Refuse other than all of a transcript, or tables with their colluding client."""
        recorded = section.transcript is not None
        wanted = _FROM_TRANSCRIPT if recorded else _FROM_TABLES
        others = _FROM_TABLES if recorded else (*_FROM_TRANSCRIPT, "after_rounds")
        for key in wanted:
            if not getattr(section, key):
                beside = "beside transcript" if recorded else "where there is no transcript"
                raise SpecError(
                    f"{where}: expected the key 'assignment.{key}' {beside}, it is missing: add it"
                )
        for key in others:
            if getattr(section, key):
                raise SpecError(
                    f"{where}: expected no key 'assignment.{key}' "
                    f"{'beside' if recorded else 'without'} transcript, got one: describe either "
                    "what the server recorded, or tables of answers that a client gathered"
                )

    @classmethod
    def default_attacks(cls, section: AssignmentSpec) -> tuple[str, ...]:
        """The usual ones; where updates are recorded, one that looks into them besides."""
        return cls.usual if section.transcript is None else ("fedmia", *cls.usual)

    def repeat(
        self, section: AssignmentSpec, attacks: tuple[Attack[Any, Any], ...]
    ) -> tuple[Attack[Any, Any], ...]:
        """The attacks, and each that looks at anything again after so many rounds.

        Raises:
            SpecError: there are no more rounds than that.
        """
        after, played = section.after_rounds, self.facts.rounds or 0
        if many := [rounds for rounds in after if rounds >= played]:
            raise SpecError(
                f"expected numbers of rounds below {played} in assignment.after_rounds, got "
                f"{many[0]}: attacks see all rounds anyway"
            )
        looking = [attack for attack in attacks if attack.name not in UNINFORMED]
        return (
            *attacks,
            *(wrapped.AfterRounds(attack, rounds) for rounds in after for attack in looking),
        )

    def attempt(
        self, view: Any, attack: Any, seed: int, track: Track[Any] = track_silently
    ) -> "AttackResult":
        """One attack on the clients' models."""
        from divulge.secrets.attempt import run_on_federation  # who reads a run attacks nothing

        return run_on_federation(view, self.measure, attack, seed, track)

    def control(
        self, view: Any, attack: Any, guess: Any, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """The attack on shuffled predictions, held against the real clients."""
        from divulge.secrets.blind import assignment as blind  # reading a run needs no control

        del guess
        if isinstance(attack, wrapped.AfterRounds):
            view, attack = attack.restrict(view), attack.attack
        return Controls(blind=blind.control_on_predictions(view, self, attack, seed, track))

    def measure(self, guess: Assignment, confidence: float = CONFIDENCE) -> Measurements:
        """Metrics over candidates."""
        truth = self.facts.truth
        if truth is None:
            return unmeasured(assignment.METRICS, "the truth about the candidates is unknown")
        return assignment.measure(guess, truth, self.facts.collusion, confidence)

    def encode(self, guess: Assignment) -> Mapping[str, np.ndarray]:
        """The client of each candidate, and the scores, one candidate after another."""
        score = np.zeros(0) if guess.score is None else guess.score.ravel()
        return {"client": guess.client, "likely": score}

    def decode(self, arrays: Mapping[str, np.ndarray]) -> Assignment:
        """The client of each candidate, and the scores.

        Raises:
            ValueError: a client does not exist, or there are more or fewer than candidates.
        """
        client, score = arrays["client"], arrays["likely"]
        clients, candidates = len(self.facts.clients), self.facts.candidates
        if client.shape != (candidates,) or client.dtype.kind != "i":
            raise ValueError(f"not a client for each of {candidates} records")
        if client.min() < NOBODY or client.max() >= clients:
            raise ValueError(f"not one of the clients for each of {candidates} records")
        if score.dtype.kind != "f":
            raise ValueError(f"scores of type {score.dtype}")
        table = score.reshape(candidates, clients) if len(score) else None
        return Assignment(client.astype(np.int64), table)


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
        truth: the client of each candidate; None if it is unknown.
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
