"""Membership: which candidates a model was trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.core import Candidates, Measurements, Membership, MembershipFacts, Scores
from divulge.metrics import measure, people
from divulge.metrics.epsilon import count_usable, largest_bound
from divulge.metrics.intervals import CONFIDENCE
from divulge.secrets.base import Secret


@dataclass(frozen=True, slots=True)
class MembershipSecret(Secret):
    """Which candidates the model was trained on."""

    facts: MembershipFacts
    candidates: Candidates
    kind: ClassVar = "membership"
    guess: ClassVar = Scores
    question: ClassVar = "Was a record in the training data of a model?"
    risk: ClassVar = "Can an attacker find out which records a model was trained on?"
    task: ClassVar = "Membership inference"
    gated: ClassVar = measure.METRICS
    lead: ClassVar = "auc"

    @property
    def sample(self) -> tuple[int, str]:
        """The candidates: records, or people."""
        unit = "records" if self.facts.people is None else "people"
        return self.facts.members + self.facts.nonmembers, unit

    def reach(self, attacks: int) -> float:
        """The bound on ε of the best of so many attacks that know every member."""
        records, drawn = count_usable(self.candidates.member, self.facts.drawn)
        return largest_bound(records, self.facts.delta, drawn=drawn, tries=max(1, attacks))

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
