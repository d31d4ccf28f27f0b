"""What a look at the models of a setting finds: accuracy, and the leak by each metric."""

from collections.abc import Mapping
from dataclasses import dataclass

from divulge.core import (
    Estimate,
)

Ceilings = Mapping[str, float]
"""By metric, the highest admissible value."""


@dataclass(frozen=True, slots=True)
class Leak:
    """What the strongest attack reaches by one metric: means over the targets of a setting."""

    value: float
    low: float
    """Lower limit of one audit, which holds for all of its attacks at once."""
    high: float
    """Upper limit of one audit, which holds for all of its attacks at once."""
    attack: str
    """The attack that was strongest on the first target."""
    spread: float = 0.0
    """Standard deviation of the upper limits over targets."""
    likely: float | None = None
    """The upper limit that three of four audits would stay under; None where it is unknown."""

    @property
    def limit(self) -> float:
        """The upper limit to go by."""
        return self.high if self.likely is None else self.likely


@dataclass(frozen=True, slots=True)
class Look:
    """A setting's models after some of their epochs, and what came of it."""

    epochs: int | None
    """After how many training would end; None where the whole training was looked at."""
    answers: str
    """The defence of their answers; ``none`` without one."""
    models: int
    """How many models were trained and audited."""
    accuracy: Estimate
    """On records that a model was not trained on: the mean over models."""
    leaks: Mapping[str, Leak]
    """By metric that has a ceiling."""
    useful: bool
    """Whether it is more accurate than the constant answer of the most frequent class."""

    def surely_exceeds(self, ceilings: Ceilings) -> bool:
        """Whether even a lower limit exceeds its ceiling."""
        return any(self.leaks[name].low > ceiling for name, ceiling in ceilings.items())


def excess(leaks: Mapping[str, Leak], ceilings: Ceilings) -> float:
    """By how much an upper limit exceeds its ceiling; 0 or less where none does."""
    return max(leaks[name].limit - ceiling for name, ceiling in ceilings.items())
