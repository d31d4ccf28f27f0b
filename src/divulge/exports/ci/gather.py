"""From a finished run to what tools of continuous integration are told of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from divulge._util.showable import make_showable
from divulge.audits.gate import Gate, JudgedVerdict
from divulge.audits.runs import FinishedRun, GatedAudit
from divulge.audits.secrets.registry import gated_metrics
from divulge.core import Finding, Verdict
from divulge.core.runs import BEFORE_NAMING
from divulge.errors import StoreError
from divulge.exports.ci.cases import AttackCase, GateCase, RunCases, VerdictCase, describe_estimate
from divulge.report import words


def gather_cases(found: FinishedRun, path: Path, gate: Gate) -> RunCases:
    """All that files for other tools say of a run.

    Args:
        found: what is in its folder.
        path: the folder, as the user named it.
        gate: what is asked.

    Raises:
        StoreError: the run is not finished.
    """
    if found.missing:
        raise StoreError(f"expected every attack in {path}, some are missing: finish with --resume")
    held = found.head
    return RunCases(
        name=make_showable(held.name),
        created=make_showable(held.created),
        divulge=make_showable(held.divulge or BEFORE_NAMING),
        report=make_showable((path / found.page).as_posix()),
        verdicts=tuple(_verdict_cases(found)),
        gate=tuple(_gate_cases(found, gate)),
        attacks=tuple(
            one for name, audit in found.parts.items() for one in _attack_cases(name, audit)
        ),
        warnings={
            make_showable(check.name): make_showable(check.text)
            for check in found.checks
            if check.verdict is Verdict.WARNING
        },
        markdown=make_showable(found.table()),
    )


def _gate_cases(found: FinishedRun, gate: Gate) -> Iterator[GateCase]:
    for asked, part in gate.parts.items():
        ruling = found.judged().rule(part)
        said = ruling.failed or ruling.undecided or ruling.passed
        result: Literal["failed", "undecided", "passed"] = (
            "failed" if ruling.failed else "undecided" if ruling.undecided else "passed"
        )
        yield GateCase(make_showable(asked), result, tuple(map(make_showable, said)))


def _verdict_cases(found: FinishedRun) -> Iterator[VerdictCase]:
    for about, verdict in found.verdicts.items():
        audit = found.parts.get(about)
        yield VerdictCase(
            about=make_showable(about),
            level=verdict.level,
            headline=make_showable(verdict.headline),
            sentences=tuple(make_showable(said) for said in verdict.sentences if said),
            next_step=make_showable(verdict.next_step),
            deciding="" if audit is None else make_showable(_describe_deciding(audit, verdict)),
        )


def describe_run(found: FinishedRun) -> str:
    """Say what a run found, for people who read why a test failed: what, by what, and where."""
    lines = [
        line
        for case in _verdict_cases(found)
        for line in (
            f"{case.about}: {case.headline}" if case.about else case.headline,
            *case.sentences[:1],
            case.deciding,
            f"Next: {case.next_step}",
        )
    ]
    where = "none kept" if found.path is None else make_showable(str(found.path / found.page))
    return "\n".join([*filter(None, lines), f"Report: {where}"])


def _describe_deciding(found: GatedAudit, verdict: JudgedVerdict) -> str:
    """Name the deciding attack with its first figure and the interval; empty if there is none."""
    label = verdict.attack
    for finding in found.findings:
        if label is not None and make_showable(finding.label) == make_showable(label):
            names = [name for name in gated_metrics(found.about) if name in finding.metrics]
            figures = _figures(finding, (*names, *finding.metrics)[:1])
            return ": ".join([f"Deciding attack: {make_showable(label)}", *figures])
    return ""


def _attack_cases(about: str, found: GatedAudit) -> Iterator[AttackCase]:
    untested, counting = found.untested, found.figures()
    for finding in found.findings:
        figures = _figures(finding, finding.metrics)
        yield AttackCase(
            about=make_showable(about),
            label=make_showable(finding.label),
            status=finding.status,
            reason=make_showable(finding.reason),
            figures=figures,
            titled=tuple(
                words.metric_title(name) + said.removeprefix(make_showable(name))
                for name, said in zip(finding.metrics, figures, strict=True)
            ),
            seconds=finding.seconds,
            untested=make_showable(untested.get(finding.label, "")),
            counts=finding.label in counting,
        )


def _figures(finding: Finding, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        make_showable(describe_estimate(name, finding.metrics[name], finding.unmeasured))
        for name in names
    )
