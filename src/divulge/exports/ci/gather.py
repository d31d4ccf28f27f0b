"""From a finished run to what tools of continuous integration are told of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from divulge._util.showable import make_all_showable, make_showable
from divulge.audits.result import Audit, FederationAudit
from divulge.core import Finding, Verdict
from divulge.core.runs import BEFORE_NAMING
from divulge.errors import StoreError
from divulge.exports.ci.cases import AttackCase, GateCase, RunCases, VerdictCase, describe_estimate
from divulge.finished_runs.finished_run import FinishedRun, GatedAudit
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.judged import JudgedVerdict
from divulge.report import words
from divulge.report.brief import describe_list
from divulge.report.parts import Brief
from divulge.report.ranking import strength
from divulge.report.schema import Summary
from divulge.report.units import unit_of
from divulge.secrets.registry import gated_metrics


def gather_cases(finished: FinishedRun, path: Path, gate: Gate) -> RunCases:
    """All that files for other tools say of a run.

    Args:
        finished: what is in its folder.
        path: the folder, as the user named it.
        gate: what is asked.

    Raises:
        StoreError: the run is not finished.
    """
    if finished.missing:
        raise StoreError(f"expected every attack in {path}, some are missing: finish with --resume")
    head = finished.head
    return RunCases(
        about=finished.about,
        name=make_showable(head.name),
        created=make_showable(head.created),
        divulge=make_showable(head.divulge or BEFORE_NAMING),
        report=make_showable((path / finished.page).as_posix()),
        verdicts=tuple(_verdict_cases(finished)),
        gate=tuple(_gate_cases(finished, gate)),
        attacks=tuple(
            case for name, audit in finished.parts.items() for case in _attack_cases(name, audit)
        ),
        warnings={
            make_showable(check.name): make_showable(check.text)
            for check in finished.checks
            if check.verdict is Verdict.WARNING
        },
        markdown=make_showable(finished.table()),
        environment=make_all_showable(dict(head.environment)),
    )


def _gate_cases(finished: FinishedRun, gate: Gate) -> Iterator[GateCase]:
    for condition, part in gate.parts.items():
        ruling = finished.judged().rule(part)
        sentences = ruling.failed or ruling.undecided or ruling.passed
        result: Literal["failed", "undecided", "passed"] = (
            "failed" if ruling.failed else "undecided" if ruling.undecided else "passed"
        )
        yield GateCase(make_showable(condition), result, tuple(map(make_showable, sentences)))


def _verdict_cases(finished: FinishedRun) -> Iterator[VerdictCase]:
    for about, verdict in finished.verdicts.items():
        audit = finished.parts.get(about)
        yield VerdictCase(
            about=make_showable(about),
            level=verdict.level,
            headline=make_showable(verdict.headline),
            sentences=tuple(make_showable(text) for text in verdict.sentences if text),
            next_step=make_showable(verdict.next_step),
            deciding="" if audit is None else make_showable(_describe_deciding(audit, verdict)),
            attack=make_showable(verdict.attack or ""),
            brief=_brief(audit),
            further=_further(audit.summary) if isinstance(audit, Audit) else (),
        )


def _brief(audit: GatedAudit | None) -> Brief | None:
    if isinstance(audit, Audit):
        return audit.summary.brief
    return audit.brief if isinstance(audit, FederationAudit) else None


def _further(summary: Summary) -> tuple[str, ...]:
    """Who is exposed, which groups more than others, and what became of a claim."""
    sentences = [describe_list(summary.exposed, summary.sizes.members, unit_of(summary))]
    sentences += [summary.strata.sentence] if summary.strata else []
    claim = summary.claim
    if claim:
        outcome = "not contradicted" if claim.outcome == "consistent" else claim.outcome
        sentences.append(f"Claimed ε of {claim.epsilon:g}: {outcome}.")
    return tuple(map(make_showable, sentences))


def describe_run(finished: FinishedRun) -> str:
    """Say what a run found, for people who read why a test failed: what, by what, and where."""
    lines = [
        line
        for case in _verdict_cases(finished)
        for line in (
            f"{case.about}: {case.headline}" if case.about else case.headline,
            *case.sentences[:1],
            case.deciding,
            f"Next: {case.next_step}",
        )
    ]
    where = (
        "none kept" if finished.path is None else make_showable(str(finished.path / finished.page))
    )
    return "\n".join([*filter(None, lines), f"Report: {where}"])


def _describe_deciding(audit: GatedAudit, verdict: JudgedVerdict) -> str:
    """Name the deciding attack with its first figure and the interval; empty if there is none."""
    label = verdict.attack
    for finding in audit.findings:
        if label is not None and make_showable(finding.label) == make_showable(label):
            names = [name for name in gated_metrics(audit.about) if name in finding.metrics]
            figures = _figures(finding, (*names, *finding.metrics)[:1])
            return ": ".join([f"Deciding attack: {make_showable(label)}", *figures])
    return ""


def _attack_cases(about: str, audit: GatedAudit) -> Iterator[AttackCase]:
    untested, counting = audit.untested, audit.figures()
    for finding in audit.findings:
        figures = _figures(finding, finding.metrics)
        yield AttackCase(
            about=make_showable(about),
            label=make_showable(finding.label),
            status=finding.status,
            reason=make_showable(finding.reason),
            figures=figures,
            titled=tuple(
                words.metric_title(name) + figure.removeprefix(make_showable(name))
                for name, figure in zip(finding.metrics, figures, strict=True)
            ),
            seconds=finding.seconds,
            untested=make_showable(untested.get(finding.label, "")),
            counts=finding.label in counting,
            strength=strength(finding.metrics, sound=finding.label in counting),
        )


def _figures(finding: Finding, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        make_showable(describe_estimate(name, finding.metrics[name], finding.unmeasured))
        for name in names
    )
