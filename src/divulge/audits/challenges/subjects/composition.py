"""Which classes clients hold, and how much of each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.core import Finding, Measured, Proportions
from divulge.metrics import composition
from divulge.metrics.intervals import CONFIDENCE
from divulge.report.federation import composition as pages
from divulge.report.federation.story import Story

Mixes = Sequence[Proportions]


@dataclass(frozen=True, slots=True)
class Composition:
    """Clients, their classes, and the truth where it is known."""

    federation: str
    """Its name."""
    clients: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None
    """Records of each class, by client; None if nobody said."""
    class_names: tuple[str, ...]
    kind: Literal["composition"] = "composition"

    @property
    def truth(self) -> tuple[Proportions, ...] | None:
        """What the clients hold, where it is known."""
        if self.counts is None:
            return None
        return tuple(Proportions.of(np.array(row)) for row in self.counts)

    def measure(self, guess: Mixes, confidence: float = CONFIDENCE) -> Measured:
        """Metrics over clients; none without the truth."""
        truth = self.truth
        if truth is None:
            none = dict.fromkeys(composition.METRICS, "nobody said what the clients hold")
            return Measured({}, none)
        return composition.measure(guess, truth, confidence)

    def arrays(self, guess: Mixes) -> Mapping[str, np.ndarray]:
        """The guesses as arrays of one dimension, one client after another."""
        return {
            "share": np.concatenate([one.share for one in guess]),
            "null": np.concatenate([one.null for one in guess]),
            "even": np.array([np.nan if one.even is None else one.even for one in guess]),
        }

    def guess(self, arrays: Mapping[str, np.ndarray]) -> Mixes:
        """What `arrays` made of guesses."""
        share, null = (arrays[name].reshape(len(self.clients), -1) for name in ("share", "null"))
        even = [None if np.isnan(p) else float(p) for p in arrays["even"]]
        return tuple(Proportions(*parts) for parts in zip(share, null, even, strict=True))

    def story(
        self,
        findings: tuple[Finding, ...],
        guesses: tuple[Mixes | None, ...],
        unsound: Collection[int] = (),
    ) -> Story:
        """What the page says; attacks at the ``unsound`` places failed a control."""
        held = pages.Held(self.clients, self.class_names, self.truth)
        return pages.story(held, findings, guesses, unsound)
