"""Which client of a federation trained on each candidate."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.core import Assignment, Collusion, Finding, Measured
from divulge.metrics import assignment
from divulge.metrics.intervals import CONFIDENCE
from divulge.report.federation import assignment as pages
from divulge.report.federation.story import Story


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """Clients and candidates, and the truth where it is known."""

    clients: tuple[str, ...]
    colluder: int
    """From 0."""
    candidates: int
    """How many there are."""
    labels: tuple[int, ...]
    """The class of each candidate."""
    known: tuple[int, ...]
    """Candidates, from 0, that the colluding client trained on."""
    owners: tuple[int, ...] | None
    """The client of each candidate, -1 for nobody; None if nobody said."""
    kind: Literal["assignment"] = "assignment"

    @property
    def truth(self) -> Assignment | None:
        """The client of each candidate, where it is known."""
        return None if self.owners is None else Assignment(np.array(self.owners, np.int64))

    @property
    def collusion(self) -> Collusion:
        """What the colluding client knows of the candidates."""
        known = np.zeros(self.candidates, bool)
        known[list(self.known)] = True
        return Collusion(self.colluder, np.zeros(0, bool), known)

    def measure(self, guess: Assignment, confidence: float = CONFIDENCE) -> Measured:
        """Metrics over candidates; none without the truth."""
        truth = self.truth
        if truth is None:
            none = dict.fromkeys(assignment.METRICS, "nobody said who trained on the candidates")
            return Measured({}, none)
        return assignment.measure(guess, truth, self.collusion, confidence)

    def arrays(self, guess: Assignment) -> Mapping[str, np.ndarray]:
        """The guess as arrays of one dimension, scores one record after another."""
        score = np.zeros(0) if guess.score is None else guess.score.ravel()
        return {"client": guess.client, "likely": score}

    def guess(self, arrays: Mapping[str, np.ndarray]) -> Assignment:
        """What `arrays` made of a guess."""
        client, score = arrays["client"], arrays["likely"]
        if client.shape != (self.candidates,) or client.max() >= len(self.clients):
            raise ValueError(f"not one of the clients for each of {self.candidates} records")
        table = score.reshape(self.candidates, len(self.clients)) if len(score) else None
        return Assignment(client.astype(np.int64), table)

    def story(
        self,
        findings: tuple[Finding, ...],
        guesses: tuple[Assignment | None, ...],
        unsound: Collection[int] = (),
    ) -> Story:
        """What the page says; attacks at the ``unsound`` places failed a control."""
        asked = pages.Asked(
            self.clients,
            self.colluder,
            self.collusion.records,
            np.array(self.labels, np.int64),
            self.truth,
        )
        return pages.story(asked, findings, guesses, unsound)
