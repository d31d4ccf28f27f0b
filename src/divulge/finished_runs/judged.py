"""What a gate looks at, and what it says: audits with verdicts, and rulings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from divulge.core import Estimate, Finding
from divulge.finished_runs.changes import ComparableAudit
from divulge.report.units import RECORD, Unit


class Sample(NamedTuple):
    """What the intervals of an audit come from."""

    size: int
    unit: str
    """In the plural: records, people, canaries, clients, targets."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """All attacks of an audit, also those whose figures do not count."""

    sample: Sample | None = None
    """None where nobody knows its size."""
    findings: Sequence[Finding] = ()
    figures: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """By label of each attack that counts, its metrics."""
    unit: Unit = RECORD
    """What was drawn and counted."""
    reach: float = math.inf
    """The bound on ε that an attack which knows every member would have."""


NONE = Attempts()


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a gate says: one sentence for each thing that was asked."""

    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Nothing failed, and nothing was left undecided."""
        return not self.failed and not self.undecided

    def prefix(self, text: str) -> "Ruling":
        """The same ruling, with a text before each of its sentences."""
        each = (self.failed, self.undecided, self.passed)
        return Ruling(*(tuple(f"{text}{sentence}" for sentence in sentences) for sentences in each))

    def __add__(self, other: "Ruling") -> "Ruling":
        return Ruling(
            self.failed + other.failed,
            self.undecided + other.undecided,
            self.passed + other.passed,
        )


@runtime_checkable
class JudgedVerdict(Protocol):
    """What a gate looks at: the verdict of an audit of any kind."""

    @property
    def level(self) -> str:
        """In a word."""
        ...

    @property
    def headline(self) -> str:
        """In a sentence."""
        ...

    @property
    def sentences(self) -> Sequence[str]:
        """What was measured, and what that means."""
        ...

    @property
    def next_step(self) -> str:
        """What to do next; where nothing was decided, how many records would do."""
        ...

    @property
    def attack(self) -> str | None:
        """Label of the deciding attack."""
        ...


@runtime_checkable
class JudgedAudit(ComparableAudit, Protocol):
    """An audit of any kind with its verdict."""

    @property
    def verdict(self) -> JudgedVerdict:
        """Whether there is a leak."""
        ...
