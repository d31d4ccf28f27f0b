"""What an audit brings to light."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its 95 % interval. ``high`` is None for a one-sided lower bound."""

    value: float
    low: float
    high: float | None

    def __contains__(self, value: float) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)


class Measured(NamedTuple):
    """Metrics, and the ones that these sizes cannot support, each with the reason.

    A name in both has a value and an upper limit; its lower limit is 0 and means nothing, for the
    reason given.
    """

    metrics: Mapping[str, Estimate]
    unmeasured: Mapping[str, str]


class Verdict(enum.StrEnum):
    """How a check of the audit's own soundness ended."""

    PASS = "pass"  # noqa: S105 (a verdict, not a password)
    WARNING = "warning"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the audit itself, asked before any attack, and its answer."""

    name: str
    verdict: Verdict
    text: str
    """The answer in one or two plain sentences."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


class Status(enum.StrEnum):
    """How an attack ended. Nothing that was asked for ends in silence."""

    DONE = "done"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BlindRun:
    """How one attack did where what it sees says nothing of the truth it is held against."""

    measured: Estimate | None
    """Its AUC, L1 distance or accuracy, by the secret; None when the attack did not run there."""
    p_value: float | None
    """The chance of a result as extreme if the guess is independent of the truth."""
    passed: bool
    """Its guess is consistent with that; or, without a p-value, nothing could be shuffled."""
    reason: str = ""
    """Why it did not run, or could not have failed."""


@dataclass(frozen=True, slots=True)
class Control:
    """Whether one attack sees a planted leak, and sees none where there is none."""

    planted: Estimate | None
    """AUC on the planted leak; None when the attack did not run there."""
    covered: int
    """Of the shuffles of membership, how many AUC intervals covered one half."""
    shuffles: int
    calm: bool
    """Shuffled membership was not mistaken for a leak more often than chance allows."""
    reason: str = ""
    blind: BlindRun | None = None
    """The attack with the target's answers shuffled; None in runs older than this control."""

    @property
    def sees(self) -> bool:
        """The planted leak was found."""
        return self.planted is not None and self.planted.low > 0.5

    @property
    def passed(self) -> bool:
        """Every control that was run went as it should."""
        return self.sees and self.calm and (self.blind is None or self.blind.passed)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attack showed, or why it showed nothing."""

    label: str
    """The attack with its settings, unique within an audit: ``threshold(signal=loss)``."""
    attack: str
    paper: str
    settings: Mapping[str, Any]
    status: Status
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Metrics that these sizes cannot support, each with the reason.

    One that is in ``metrics`` too lacks its lower limit alone."""
    reason: str = ""
    how: str = ""
    """What the guess rests on, where the attack has a choice."""
    queries: int = 0
    """Answers of the model that the attack used, remembered ones included."""
    seconds: float = 0.0
