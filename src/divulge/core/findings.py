"""These classes hold what an audit finds: estimates, checks, controls and findings."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from divulge._util.json import Settings


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its 95 % interval. ``high`` is None for a one-sided lower bound."""

    value: float
    low: float
    high: float | None

    def __contains__(self, value: float) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)


class Measurements(NamedTuple):
    """Metrics by name, and the metrics that these sizes cannot support, each with the reason.

    A name in both has a value and an upper limit; its lower limit is 0 and means nothing, for the
    reason given.
    """

    metrics: Mapping[str, Estimate]
    unmeasured: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ShadowThreshold:
    """A threshold that shadow models chose, and its rates on the target."""

    intended_fpr: float
    """The false-positive rate that it was chosen for."""
    threshold: float
    """Records with a score of it or more are accused."""
    shadows: int
    """How many shadow models it is the median of."""
    fpr: Estimate
    """The share of the target's non-members that are accused."""
    tpr: Estimate
    """The share of the target's members that are accused."""


class Verdict(enum.StrEnum):
    """How a check of the audit's own soundness ended."""

    PASS = "pass"  # noqa: S105 (a verdict, not a password)
    WARNING = "warning"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the audit itself, made before any attack, and its result."""

    name: str
    verdict: Verdict
    text: str
    """The result in one or two plain sentences."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


class Status(enum.StrEnum):
    """How an attack ended. Nothing that was asked for ends in silence."""

    DONE = "done"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


class ControlOutcome(enum.StrEnum):
    """How a control of an attack ended. What could not have failed has not passed."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True)
class BlindRun:
    """Result of one attack on shuffled data, where what it sees says nothing about the truth."""

    measured: Estimate | None
    """Its AUC, L1 distance or accuracy, depending on the secret; None if the attack did not run."""
    p_value: float | None
    """The probability of a result as extreme if the guess is independent of the truth."""
    outcome: ControlOutcome
    """Not tested where nothing could be shuffled, or no guess could have failed at this size."""
    reason: str = ""
    """Why it did not run, or could not have failed."""


@dataclass(frozen=True, slots=True)
class Control:
    """Whether one attack sees a planted leak, and sees none where there is none."""

    planted: Estimate | None
    """AUC on the planted leak; None if the attack did not run there."""
    covered: int
    """Number of shuffles of membership whose AUC interval covered one half."""
    shuffles: int
    calm: bool
    """Whether shuffled membership was mistaken for a leak no more often than chance allows."""
    reason: str = ""
    blind: BlindRun | None = None
    """The attack with the target's answers shuffled; None in runs older than this control."""

    @property
    def sees(self) -> bool:
        """Whether the attack found the planted leak."""
        return self.planted is not None and self.planted.low > 0.5

    @property
    def outcome(self) -> ControlOutcome:
        """How all controls ended together: one that failed counts before one not tested."""
        blind = ControlOutcome.NOT_TESTED if self.blind is None else self.blind.outcome
        missed = self.planted is not None and not self.sees
        if missed or not self.calm or blind is ControlOutcome.FAILED:
            return ControlOutcome.FAILED
        return ControlOutcome.NOT_TESTED if self.planted is None else blind

    @property
    def untested(self) -> str:
        """Why some control could not be run; empty if each was."""
        why = []
        if self.planted is None:
            why.append(f"it could not be tried on a planted leak: {self.reason.rstrip('.')}")
        if self.blind is None:
            why.append("it was not run on shuffled predictions")
        elif self.blind.outcome is ControlOutcome.NOT_TESTED:
            why.append(self.blind.reason)
        return "; ".join(why)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attack showed, or why it showed nothing."""

    label: str
    """The attack with its settings, unique within an audit: ``threshold(signal=loss)``."""
    attack: str
    paper: str
    settings: Settings
    status: Status
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Metrics that these sizes cannot support, each with the reason.

    A metric that is also in ``metrics`` lacks its lower limit alone."""
    reason: str = ""
    how: str = ""
    """What the guess rests on, if the attack had a choice."""
    queries: int = 0
    """Number of the model's answers that the attack used, including answers from the cache."""
    seconds: float = 0.0
    shadow_thresholds: tuple[ShadowThreshold, ...] = ()
    """Thresholds that shadow models chose, where they were asked to."""


@dataclass(frozen=True, slots=True)
class Completions:
    """How many texts the model completes verbatim, given how they begin, in one way to ask it."""

    tries: int | None
    """How many completions are drawn for each text; None where the likeliest tokens are taken."""
    members: Estimate
    """The share of members that are completed, as likely as `TextFacts.chance` at least."""
    nonmembers: Estimate
    """The same of non-members: what anyone could guess."""
    excess: Estimate
    """The first less the second."""


@dataclass(frozen=True, slots=True)
class CollectionTest:
    """Whether the members as a whole were trained on: data-set inference."""

    p_value: float
    """The chance of scores of members as far above those of non-members where none was."""
    learned: int
    """Texts from which the score is learned."""
    tested: int
    """Texts that are compared by it."""
    blind: float | None
    """The same p-value of a score that is learned from the texts alone; None if they are not known.
    """


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Texts, their tokens, and what was measured of them besides membership."""

    tokens: int
    """The number of tokens of all candidates."""
    prefix: int
    """How many tokens of a text are given."""
    suffix: int
    """How many further ones make up a completion."""
    chance: float
    """The chance of a verbatim completion from which on a text counts as extracted."""
    long: tuple[int, int]
    """Members and non-members with as many tokens."""
    completions: tuple[Completions, ...]
    """One a way to ask; empty where too few texts are as long."""
    collection: CollectionTest | None
    """None with too few texts."""
