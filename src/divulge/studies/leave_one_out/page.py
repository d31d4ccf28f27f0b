"""The page of models audited in turn: the means over targets, and each target by itself."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from divulge._util import showable
from divulge._util.json import JSON
from divulge.core import Estimate, Finding, Status
from divulge.report import words
from divulge.report.markdown import p_value_note
from divulge.report.page import template_environment
from divulge.report.ranking import group_lost, strength
from divulge.report.schema import Conclusion, NotMeasured
from divulge.report.units import Unit
from divulge.studies.leave_one_out.success import SuccessReport


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One target, audited against the others."""

    level: str
    auc: Estimate | None
    """Of the attack that decides for all targets; None if it has none here."""
    members: Estimate | None
    """Accuracy on the records that it was trained on; None where it was not measured."""
    nonmembers: Estimate | None


@dataclass(frozen=True, slots=True)
class LeaveOneOutStory:
    """All that the page says."""

    name: str
    verdict: Conclusion
    findings: Sequence[Finding]
    """One an attack, with means over targets."""
    columns: Sequence[str]
    """Metrics in the table."""
    basis: str
    """How many targets, models and records there were."""
    targets: Sequence[TargetRow]
    not_measured: Sequence[NotMeasured]
    settings: dict[str, JSON]
    success: SuccessReport | None
    """How well each person, or record, is told apart over targets; None where nobody can say."""
    success_text: str
    """The same in sentences, or why nobody can say."""
    unit: Unit
    """What was drawn and counted."""


def render(story: LeaveOneOutStory) -> str:
    """Render the page; every text is escaped."""
    done = [finding for finding in story.findings if finding.status is Status.DONE]
    done.sort(key=lambda finding: strength(finding.metrics, sound=True))
    return (
        template_environment("divulge.studies")
        .get_template("leave_one_out.html.j2")
        .render(
            story=story,
            verdict=story.verdict,
            p_value=p_value_note(story.verdict),
            columns=story.columns,
            rows=[
                (finding.label, [_cell(finding, name) for name in story.columns])
                for finding in done
            ],
            lost={
                (status.value, reason): [finding.label for finding in findings]
                for (status, reason), findings in group_lost(story.findings).items()
            },
            settings=json.dumps(
                showable.make_all_showable(story.settings),
                indent=2,
                ensure_ascii=False,
                default=str,
            ),
        )
    )


def _cell(finding: Finding, name: str) -> str:
    estimate = finding.metrics.get(name)
    return "not measurable" if estimate is None else words.format_metric(name, estimate)
