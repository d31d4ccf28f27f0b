"""These classes hold what the page of an audited federation says, whatever the secret was."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from divulge._util.json import Settings
from divulge.core import BlindRun, ControlOutcome, Estimate, Finding, Status
from divulge.report import unmeasured, words
from divulge.report.federation.verdicts.case import Judgement
from divulge.report.parts import Brief
from divulge.report.schema import NotMeasured


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    name: str
    """Name of its file, without the suffix."""
    title: str
    chart: Any
    """An Altair chart."""
    caption: str
    description: str
    """Text for readers who cannot see the chart."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table; the first cell of each row names the row."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ImageSheet:
    """Images that were shown to a client, below their originals."""

    client: str
    """Name of the client."""
    shown: int
    """Number of images on the sheet."""
    handed: int
    """Number of images that the client was shown."""
    png: bytes
    """The sheet as a PNG file."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """Content of the page: what was found out about one secret."""

    verdict: Judgement
    brief: Brief
    title: str
    doubt: str
    """What the figures leave open, such as that nobody knows the truth; empty if nothing."""
    sentences: tuple[str, ...]
    columns: tuple[str, ...]
    """Headings of the table of attacks, without the first one, of the attack."""
    cells: tuple[tuple[str, ...], ...]
    """One row an attack, one cell a heading; cells of attacks that are not done are ignored."""
    caption: str
    """Caption of that table."""
    measures: str
    """Explanation of its columns."""
    headline: tuple[str, str]
    """The metric that one line about an attack gives, and its name there."""
    summary: Settings
    """Keys of ``summary.json`` that hold for all attacks."""
    details: tuple[Settings, ...]
    """Keys of ``summary.json`` for each attack."""
    scope: tuple[NotMeasured, ...]
    """What lies outside of any such audit."""
    limits: tuple[str, ...] = ()
    """Sentences on what so few records or clients can and cannot show."""
    figures: Callable[[], Iterable[Figure]] = tuple
    """Draws the charts: nothing loads the chart library before."""
    tables: tuple[PageTable, ...] = ()
    speaker: int | None = None
    """Position of the attack that sentences and figures are about; None for the first done."""


@dataclass(frozen=True, slots=True)
class FederationReport:
    """All that the report of an audited federation says."""

    name: str
    created: str
    findings: tuple[Finding, ...]
    story: PageContent
    reproduction: Settings = field(default_factory=dict)
    sheets: tuple[ImageSheet, ...] = ()
    """Contact sheets; empty unless records are to be shown."""
    controls: tuple[BlindRun | None, ...] = ()
    """Result of each attack on shuffled data; empty if no control was run."""


def not_measured(report: FederationReport) -> tuple[NotMeasured, ...]:
    """Attacks and metrics that are missing, each with the reason, and what was never tried."""
    return (
        *unmeasured.unfinished_attacks(report.findings),
        *unmeasured.unmeasured_metrics(report.findings),
        *_missing_controls(report),
        *report.story.scope,
    )


def _missing_controls(report: FederationReport) -> Iterator[NotMeasured]:
    for finding, run in zip(report.findings, report.controls, strict=False):
        if run is not None and run.outcome is ControlOutcome.NOT_TESTED:
            yield NotMeasured("control", finding.label, f"Not tested: {run.reason}.")


def headline_attack(findings: Sequence[Finding]) -> int | None:
    """Position of the attack that figures and sentences are about: the first one that is done."""
    done = [k for k, finding in enumerate(findings) if finding.status is Status.DONE]
    return done[0] if done else None


def rate_cells(finding: Finding, names: Sequence[str]) -> tuple[str, ...]:
    """A cell for each of these metrics, all of which are shares."""
    return tuple(_rate_cell(finding, name) for name in names)


def _rate_cell(finding: Finding, name: str) -> str:
    if name not in finding.metrics:
        return "not measured"
    way = words.format_rate_up_to if name in finding.unmeasured else words.format_rate
    return way(finding.metrics[name])


def estimate_cells(finding: Finding, names: Sequence[str]) -> tuple[str, ...]:
    """A cell for each of these metrics."""
    return tuple(
        format_estimate(finding.metrics[name]) if name in finding.metrics else "not measured"
        for name in names
    )


def format_estimate(estimate: Estimate) -> str:
    """Format a value with its interval.

    Examples:
        >>> format_estimate(Estimate(0.5, 0.25, 0.75))
        '0.500 (0.250 to 0.750)'
    """
    high = "" if estimate.high is None else f" to {estimate.high:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f}{high})"


def join_words(parts: Sequence[str]) -> str:
    """Join a list in words.

    Examples:
        >>> join_words(["ant", "bee", "cat"])
        'ant, bee and cat'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
