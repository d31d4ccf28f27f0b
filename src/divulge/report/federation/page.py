"""The report of an audited federation is a set of files: page, summary and figures."""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict

from divulge._util import showable
from divulge._util.json import JSON
from divulge.core import BlindRun, ControlOutcome, Finding
from divulge.report.federation.story import (
    FederationReport,
    Figure,
    format_estimate,
    headline_attack,
    not_measured,
)
from divulge.report.markdown import make_inert
from divulge.report.page import inline_figure, template_environment

MOST_SENTENCES = 10
"""Most sentences on clients that are seen without opening anything."""


def render_files(report: FederationReport) -> dict[str, bytes]:
    """``report.html``, ``summary.json``, ``summary.md`` and the figures, by path."""
    from divulge.report import charts

    figures = tuple(report.story.figures())
    drawn = {figure.name: charts.render(figure.chart, "svg").decode() for figure in figures}
    return {
        "report.html": _render_page(report, figures, drawn).encode(),
        "summary.json": json.dumps(_summary_tree(report), indent=1).encode() + b"\n",
        "summary.md": "\n".join(f"- {make_inert(line)}" for line in lines(report)).encode() + b"\n",
        **{f"figures/{name}.svg": svg.encode() for name, svg in drawn.items()},
    }


def lines(report: FederationReport) -> tuple[str, ...]:
    """The verdict, the sentences, and how each attack ended."""
    verdict = report.story.verdict
    return (
        f"Verdict: {verdict.level}. {verdict.headline}.",
        *verdict.sentences,
        f"Next: {verdict.next_step}",
        *report.story.sentences,
        *report.story.limits,
        *(_ending_sentence(finding, report) for finding in report.findings),
        *controls(report),
    )


def controls(report: FederationReport) -> tuple[str, ...]:
    """Sentences on how each attack did on its blind control."""
    pairs = zip(report.findings, report.controls, strict=False)
    return tuple(
        f"{showable.make_showable(f.label)}: {_control_sentence(control)}"
        for f, control in pairs
        if control is not None
    )


def _control_sentence(run: BlindRun) -> str:
    if run.outcome is ControlOutcome.NOT_TESTED:
        return showable.make_showable(f"was not tested by a control: {run.reason}")
    if run.measured is None:
        return showable.make_showable(
            f"failed its control, as it could not be run on it: {run.reason}"
        )
    value = f"{format_estimate(run.measured)}, p = {run.p_value:.2g}"
    if run.outcome is ControlOutcome.FAILED:
        return (
            f"failed its control. It still fits the truth when what it sees is shuffled ({value}), "
            "so it knows the truth from elsewhere, and its figures mean nothing"
        )
    return f"passed its control: shuffled, what it sees does not fit the truth ({value})"


def _ending_sentence(finding: Finding, report: FederationReport) -> str:
    """A line on how an attack ended, with its headline figure if that is known."""
    parts = [finding.status.value, *(part for part in (finding.reason, finding.how) if part)]
    name, called = report.story.headline
    if name in finding.metrics:
        parts.append(f"{called} {format_estimate(finding.metrics[name])}")
    return showable.make_showable(f"{finding.label}: {'; '.join(parts)}")


def _summary_tree(report: FederationReport) -> dict[str, JSON]:
    """``summary.json``: all that the page says."""
    story = report.story
    return showable.make_all_showable(  # type: ignore[no-any-return]
        {
            "schema": 2,
            "name": report.name,
            "created": report.created,
            "verdict": asdict(story.verdict),
            "brief": asdict(story.brief),
            **story.summary,
            "attacks": [
                {
                    "label": finding.label,
                    "status": finding.status.value,
                    "reason": finding.reason,
                    "how": finding.how,
                    "metrics": {
                        name: asdict(estimate) for name, estimate in finding.metrics.items()
                    },
                    "unmeasured": dict(finding.unmeasured),
                    "blind": None if control is None else asdict(control),
                    **details,
                }
                for finding, details, control in zip(
                    report.findings,
                    story.details,
                    report.controls or (None,) * len(report.findings),
                    strict=True,
                )
            ],
            "sentences": [*story.sentences, *story.limits],
            "not_measured": [asdict(gap) for gap in not_measured(report)],
            "reproduction": dict(report.reproduction),
        }
    )


def _render_page(report: FederationReport, figures: Sequence[Figure], drawn: dict[str, str]) -> str:
    story = report.story
    speaker = headline_attack(report.findings) if story.speaker is None else story.speaker
    return (
        template_environment()
        .get_template("federated.html.j2")
        .render(
            name=showable.make_showable(report.name),
            created=showable.make_showable(report.created),
            story=story,
            figures=figures,
            most_sentences=MOST_SENTENCES,
            verdict=showable.make_all_showable(asdict(story.verdict)),
            attacks=[
                (showable.make_all_showable(asdict(finding)), cells)
                for finding, cells in zip(report.findings, story.cells, strict=True)
            ],
            speaker=None
            if speaker is None
            else showable.make_showable(report.findings[speaker].label),
            not_measured=showable.make_all_showable([asdict(gap) for gap in not_measured(report)]),
            controls=controls(report),
            sheets=[
                (showable.make_showable(sheet.client), sheet, base64.b64encode(sheet.png).decode())
                for sheet in report.sheets
            ],
            drawn={name: inline_figure(svg) for name, svg in drawn.items()},
            reproduction=json.dumps(
                showable.make_all_showable(report.reproduction), indent=2, ensure_ascii=False
            ),
        )
    )
