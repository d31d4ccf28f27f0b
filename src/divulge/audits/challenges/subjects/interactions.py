"""What clients did with the items that they were handed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.core import Finding, Interactions, Measured, Reconstruction
from divulge.metrics import interactions
from divulge.metrics.intervals import CONFIDENCE
from divulge.report.federation import interactions as pages
from divulge.report.federation.story import Story

Guesses = Sequence[Reconstruction]


@dataclass(frozen=True, slots=True)
class ActedOn:
    """Clients, how many items each was handed, and the truth where it is known."""

    federation: str
    """Its name."""
    clients: tuple[str, ...]
    items: tuple[int, ...]
    """How many each client was handed."""
    acted: tuple[tuple[int, ...], ...] | None
    """By client: of the items handed out to it, from 0, those acted on; None if nobody said."""
    kind: Literal["interactions"] = "interactions"

    @property
    def truth(self) -> tuple[Interactions, ...] | None:
        """What clients acted on, where it is known."""
        if self.acted is None:
            return None
        masks = [np.zeros(count, bool) for count in self.items]
        for mask, at in zip(masks, self.acted, strict=True):
            mask[list(at)] = True
        return tuple(map(Interactions, masks))

    def measure(self, guess: Guesses, confidence: float = CONFIDENCE) -> Measured:
        """Metrics over clients; none without the truth."""
        truth = self.truth
        if truth is None:
            none = dict.fromkeys(interactions.METRICS, "nobody said what the clients acted on")
            return Measured({}, none)
        return interactions.measure(guess, truth, confidence)

    def arrays(self, guess: Guesses) -> Mapping[str, np.ndarray]:
        """The guesses as arrays of one dimension, one client after another."""
        return {
            "likely": np.concatenate([one.score for one in guess]),
            "decided": np.concatenate([one.decided for one in guess]),
        }

    def guess(self, arrays: Mapping[str, np.ndarray]) -> Guesses:
        """What `arrays` made of guesses."""
        ends = np.cumsum(self.items)
        parts = (np.split(arrays[name], ends) for name in ("likely", "decided"))
        *guesses, rest = map(Reconstruction, *parts)
        if len(rest.score) or len(guesses[-1].score) != self.items[-1]:
            raise ValueError(f"not a score for each of {ends[-1]} items")
        return tuple(guesses)

    def story(
        self,
        findings: tuple[Finding, ...],
        guesses: tuple[Guesses | None, ...],
        unsound: Collection[int] = (),
    ) -> Story:
        """What the page says; attacks at the ``unsound`` places failed a control."""
        return pages.story(self.clients, self.items, self.truth, findings, guesses, unsound)
