"""What tools of continuous integration are told of a run of any kind, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from divulge.core import Estimate, Status
from divulge.report.parts import Brief


@dataclass(frozen=True, slots=True)
class GateCase:
    """One thing that a gate asks for, and what became of it."""

    condition: str
    """As on the command line, without its ceiling: ``fail-on leak``, ``fail-above auc``."""
    result: Literal["failed", "undecided", "passed"]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictCase:
    """One verdict; a comparison has one for each defence."""

    about: str
    """Name of the defence; empty in a run with one verdict."""
    level: str
    headline: str
    sentences: tuple[str, ...]
    next_step: str
    deciding: str
    """The deciding attack with its figure and interval; empty if there is none."""
    attack: str = ""
    """Label of the deciding attack; empty if there is none."""
    brief: Brief | None = None
    """The same for a person who decides; None unless one model was audited."""
    further: tuple[str, ...] = ()
    """What else such a person asks: who is exposed, which groups more, a claim; sentences."""


@dataclass(frozen=True, slots=True)
class AttackCase:
    """One attack, whatever became of it."""

    about: str
    """As in `VerdictCase`."""
    label: str
    status: Status
    reason: str
    figures: tuple[str, ...]
    """Each metric with its interval, by the name that a gate takes."""
    titled: tuple[str, ...]
    """The same by the titles of the metrics."""
    seconds: float
    untested: str
    """Why a control could not be run; empty if each was."""
    counts: bool
    """Whether the figures count; not where a control failed, or a guess looks at nothing."""
    strength: tuple[bool, float]
    """What attacks are sorted by, see `report.ranking.strength`."""


@dataclass(frozen=True, slots=True)
class RunCases:
    """A whole run. No text holds a character that XML or a terminal must not meet."""

    about: str
    """What was asked: membership, assignment, composition, interactions, canaries or federation."""
    name: str
    created: str
    """UTC, ISO 8601; empty if the run folder does not say."""
    divulge: str
    """Version that made the run."""
    report: str
    """Path of the report."""
    verdicts: tuple[VerdictCase, ...]
    gate: tuple[GateCase, ...]
    attacks: tuple[AttackCase, ...]
    warnings: Mapping[str, str]
    """By name of a check of the audit itself, what it warns of."""
    markdown: str
    """The report in Markdown, every text of others made inert."""
    environment: Mapping[str, str]
    """By name, the versions that figures may depend on."""


def describe_estimate(name: str, estimate: Estimate, unmeasured: Mapping[str, str]) -> str:
    """Format a metric with its interval on one line, with the name that a gate takes.

    Args:
        name: the name of the metric.
        estimate: its value and interval.
        unmeasured: by metric, why its lower limit means nothing.

    Examples:
        >>> describe_estimate("auc", Estimate(0.7123, 0.69, 0.7342), {})
        'auc 0.7123 (95 % interval 0.69 to 0.7342)'
        >>> describe_estimate("epsilon", Estimate(1.25, 1.25, None), {})
        'epsilon at least 1.25'
        >>> describe_estimate("tpr@0.01", Estimate(0.1, 0.0, 0.4), {"tpr@0.01": "too few"})
        'tpr@0.01 0.1 (up to 0.4; no lower limit: too few)'
    """
    if estimate.high is None:
        return f"{name} at least {estimate.low:.4g}"
    if name in unmeasured:
        return f"{name} {estimate.value:.4g} (up to {estimate.high:.4g}; no lower limit: " + (
            f"{unmeasured[name]})"
        )
    between = f"95 % interval {estimate.low:.4g} to {estimate.high:.4g}"
    return f"{name} {estimate.value:.4g} ({between})"


def result_of_gate(cases: Sequence[GateCase]) -> Literal["failed", "undecided", "passed"]:
    """What became of everything that was asked for: one failure counts before all else."""
    results = {case.result for case in cases}
    return "failed" if "failed" in results else "undecided" if "undecided" in results else "passed"
