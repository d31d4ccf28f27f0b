"""The four secrets as the auditor knows them: how guesses are measured, written and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from divulge.core import (
    NOBODY,
    Assignment,
    AssignmentFacts,
    Candidates,
    CompositionFacts,
    Facts,
    InteractionFacts,
    Measurements,
    Membership,
    MembershipFacts,
    Proportions,
    Reconstruction,
    Scores,
)
from divulge.metrics import assignment, composition, interactions, measure, people
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.uninformed.interactions import BeyondPublic


@runtime_checkable
class Secret(Protocol):
    """One secret and its truth."""

    def measure(self, guess: Any, confidence: float = CONFIDENCE) -> Measurements:
        """Metrics of a guess, with intervals of this confidence; none where no truth is known."""
        ...

    def encode(self, guess: Any) -> Mapping[str, np.ndarray]:
        """The guess as arrays of one dimension by name."""
        ...

    def decode(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """The guess that `encode` made into arrays.

        Raises:
            ValueError: the arrays do not fit what the audit is about.
            KeyError: an array is missing.
        """
        ...


@dataclass(frozen=True, slots=True)
class MembershipSecret:
    """Which candidates the model was trained on."""

    facts: MembershipFacts
    candidates: Candidates

    def measure(self, guess: Scores, confidence: float = CONFIDENCE) -> Measurements:
        """Metrics over candidates."""
        truth = Membership(self.candidates.member, self.facts.drawn)
        together = round((1 - CONFIDENCE) / (1 - confidence))
        measured = measure.measure(guess, truth, self.facts.delta, together)
        person = self.candidates.person
        if person is None or guess.by_record is None:
            return measured
        by_record = people.record_auc(guess.by_record, person, truth.member[person], confidence)
        return Measurements({**measured.metrics, "record_auc": by_record}, measured.unmeasured)

    def encode(self, guess: Scores) -> Mapping[str, np.ndarray]:
        """The score of each candidate, and where these are people, those of their records."""
        records = {} if guess.by_record is None else {"by_record": guess.by_record}
        return {"score": guess.score, **records}

    def decode(self, arrays: Mapping[str, np.ndarray]) -> Scores:
        """The score of each candidate.

        Raises:
            ValueError: there are more or fewer than candidates.
        """
        if arrays["score"].shape != self.candidates.member.shape:
            raise ValueError(f"not a score for each of {len(self.candidates.member)} candidates")
        person, by_record = self.candidates.person, arrays.get("by_record")
        if by_record is not None and (person is None or by_record.shape != person.shape):
            raise ValueError("not a score for each record of the candidates")
        return Scores(arrays["score"], by_record)


@dataclass(frozen=True, slots=True)
class AssignmentSecret:
    """Which client trained on each candidate."""

    facts: AssignmentFacts

    def measure(self, guess: Assignment, confidence: float = CONFIDENCE) -> Measurements:
        """Metrics over candidates."""
        truth = self.facts.truth
        if truth is None:
            none = dict.fromkeys(assignment.METRICS, "the truth about the candidates is unknown")
            return Measurements({}, none)
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


@dataclass(frozen=True, slots=True)
class CompositionSecret:
    """Which classes clients hold, and how much of each."""

    facts: CompositionFacts

    def measure(self, guess: Sequence[Proportions], confidence: float = CONFIDENCE) -> Measurements:
        """Metrics over clients."""
        truth = self.facts.truth
        if truth is None:
            none = dict.fromkeys(composition.METRICS, "the true label distributions are unknown")
            return Measurements({}, none)
        return composition.measure(guess, truth, confidence)

    def encode(self, guess: Sequence[Proportions]) -> Mapping[str, np.ndarray]:
        """Class shares, one client after another."""
        return {
            "share": np.concatenate([one.share for one in guess]),
            "null": np.concatenate([one.null for one in guess]),
            "even": np.array([np.nan if one.even is None else one.even for one in guess]),
        }

    def decode(self, arrays: Mapping[str, np.ndarray]) -> tuple[Proportions, ...]:
        """Class shares by client.

        Raises:
            ValueError: the arrays are not those of all clients.
        """
        clients = len(self.facts.clients)
        if any(arrays[name].dtype.kind != "f" for name in ("share", "even")):
            raise ValueError("shares that are no numbers")
        if arrays["null"].dtype.kind != "b":
            raise ValueError("null classes that are no truth values")
        share, null = (arrays[name].reshape(clients, -1) for name in ("share", "null"))
        even = [None if np.isnan(p) else float(p) for p in arrays["even"]]
        return tuple(Proportions(*parts) for parts in zip(share, null, even, strict=True))


@dataclass(frozen=True, slots=True)
class InteractionSecret:
    """Which items clients interacted with."""

    facts: InteractionFacts

    def measure(
        self, guess: Sequence[Reconstruction], confidence: float = CONFIDENCE
    ) -> Measurements:
        """Metrics over clients."""
        truth = self.facts.truth
        if truth is None:
            none = dict.fromkeys(interactions.METRICS, "the true interactions are unknown")
            return Measurements({}, none)
        return interactions.measure(guess, truth, confidence)

    def encode(self, guess: Sequence[Reconstruction]) -> Mapping[str, np.ndarray]:
        """Scores and decisions of items, one client after another."""
        return {
            "likely": np.concatenate([one.score for one in guess]),
            "decided": np.concatenate([one.decided for one in guess]),
        }

    def decode(self, arrays: Mapping[str, np.ndarray]) -> tuple[Reconstruction, ...]:
        """Scores and decisions by client.

        Raises:
            ValueError: there are more or fewer than items, or other things than scores and
                decisions.
        """
        if arrays["likely"].dtype.kind != "f" or arrays["decided"].dtype.kind != "b":
            raise ValueError("scores that are no numbers, or decisions that are no truth values")
        ends = np.cumsum(self.facts.items)
        parts = (np.split(arrays[name], ends) for name in ("likely", "decided"))
        *guesses, rest = map(Reconstruction, *parts)
        if len(rest.score) or len(guesses[-1].score) != self.facts.items[-1]:
            raise ValueError(f"not a score for each of {ends[-1]} items")
        return tuple(guesses)


def encode_beyond(found: BeyondPublic) -> dict[str, np.ndarray]:
    """What a guess of interactions owes to nothing public, as arrays of one dimension by name."""
    given = {"correlation": found.correlation, "shuffled": found.shuffled}
    return {name: array for name, array in given.items() if array is not None}


def decode_beyond(arrays: Mapping[str, np.ndarray], clients: int) -> BeyondPublic | None:
    """What `encode_beyond` made into arrays; None if there is none, as in earlier runs.

    Args:
        arrays: of a finding.
        clients: the number of clients.

    Raises:
        ValueError: there are more or fewer numbers than clients, or some that are not finite.
    """
    if "correlation" not in arrays:
        return None
    for name in ("correlation", "shuffled"):
        array = arrays.get(name)
        if array is None:
            continue
        if array.shape != (clients,) or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"not a finite number for each of {clients} clients as {name}")
    return BeyondPublic(arrays["correlation"], arrays.get("shuffled"))


def secret_of(facts: Facts, candidates: Candidates | None) -> Secret:
    """The secret that an audit is about.

    Args:
        facts: what its run folder keeps.
        candidates: the truth of membership; None for other secrets.
    """
    if isinstance(facts, MembershipFacts):
        assert candidates is not None
        return MembershipSecret(facts, candidates)
    if isinstance(facts, AssignmentFacts):
        return AssignmentSecret(facts)
    if isinstance(facts, CompositionFacts):
        return CompositionSecret(facts)
    return InteractionSecret(facts)
