"""What the page of an audited federation says, whatever the secret was."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from divulge.core import BlindRun, Estimate, Finding, Status
from divulge.report import unmeasured, words
from divulge.report.federation.verdicts.judge import Judgement
from divulge.report.schema import NotMeasured


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    name: str
    """Of its file."""
    title: str
    chart: Any
    """An Altair chart."""
    caption: str
    description: str
    """For those who do not see it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, the first of each naming it."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Images that a client was handed, below their originals."""

    client: str
    shown: int
    """How many of them."""
    handed: int
    png: bytes


@dataclass(frozen=True, slots=True)
class Story:
    """What was found out about one secret."""

    verdict: Judgement
    title: str
    doubt: str
    """What the figures leave open, such as that nobody knows the truth; perhaps nothing."""
    sentences: tuple[str, ...]
    columns: tuple[str, ...]
    """Headings of the table of attacks, after that of the attack."""
    cells: tuple[tuple[str, ...], ...]
    """By attack, one a heading; of attacks that are not done they are not looked at."""
    caption: str
    """Of that table."""
    measures: str
    """What its columns mean."""
    headline: tuple[str, str]
    """The metric that one line about an attack gives, and what it is called there."""
    summary: Mapping[str, Any]
    """For ``summary.json``: what holds for all attacks."""
    details: tuple[Mapping[str, Any], ...]
    """The same, by attack."""
    scope: tuple[NotMeasured, ...]
    """What lies outside of any such audit."""
    limits: tuple[str, ...] = ()
    """What so few records or clients can and cannot show, in sentences."""
    figures: Callable[[], Iterable[Figure]] = tuple
    """Draws the charts: nothing loads the chart library before."""
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """All that the report says."""

    name: str
    created: str
    findings: tuple[Finding, ...]
    story: Story
    reproduction: Mapping[str, Any] = field(default_factory=dict)
    sheets: tuple[Sheet, ...] = ()
    """Empty unless records are to be shown."""
    controls: tuple[BlindRun | None, ...] = ()
    """By attack, how it did on what is shuffled; empty where nothing was."""

    @property
    def speaker(self) -> int | None:
        """The attack that figures and sentences are about."""
        return speaker(self.findings)


def not_measured(told: Told) -> tuple[NotMeasured, ...]:
    """Attacks and metrics that are missing, each with the reason, and what was never tried."""
    return (
        *unmeasured.attacks(told.findings),
        *unmeasured.metrics(told.findings),
        *told.story.scope,
    )


def speaker(findings: Sequence[Finding]) -> int | None:
    """The attack that figures and sentences are about: the first one that is done."""
    done = [k for k, finding in enumerate(findings) if finding.status is Status.DONE]
    return done[0] if done else None


def rates(finding: Finding, names: Sequence[str]) -> tuple[str, ...]:
    """A cell for each of these metrics, all of which are shares."""
    return tuple(_rate(finding, name) for name in names)


def _rate(finding: Finding, name: str) -> str:
    if name not in finding.metrics:
        return "not measured"
    way = words.rate_up_to if name in finding.unmeasured else words.rate
    return way(finding.metrics[name])


def estimates(finding: Finding, names: Sequence[str]) -> tuple[str, ...]:
    """A cell for each of these metrics."""
    return tuple(
        estimate(finding.metrics[name]) if name in finding.metrics else "not measured"
        for name in names
    )


def estimate(one: Estimate) -> str:
    """A value with its interval.

    Examples:
        >>> estimate(Estimate(0.5, 0.25, 0.75))
        '0.500 (0.250 to 0.750)'
    """
    high = "" if one.high is None else f" to {one.high:.3f}"
    return f"{one.value:.3f} ({one.low:.3f}{high})"


def joined(parts: Sequence[str]) -> str:
    """A list in words.

    Examples:
        >>> joined(["ant", "bee", "cat"])
        'ant, bee and cat'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
