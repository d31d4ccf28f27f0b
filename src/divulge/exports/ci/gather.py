"""From a finished run to what tools of continuous integration are told of it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from divulge._util.showable import make_showable
from divulge.audits.gate import METRICS, Gate
from divulge.audits.result import Audit, FederationAudit, SecretAudit
from divulge.core import Check, Finding, Verdict
from divulge.core.runs import BEFORE_NAMING
from divulge.errors import StoreError
from divulge.exports.ci.cases import AttackCase, GateCase, RunCases, VerdictCase, describe_estimate
from divulge.report import markdown, words
from divulge.report.federation.verdicts.judge import Judgement
from divulge.report.schema import Conclusion
from divulge.studies.compare import table as compare_table
from divulge.studies.compare.result import Comparison, VariantAudits
from divulge.studies.leave_one_out.result import LeaveOneOut

FoundRun = SecretAudit | LeaveOneOut | Comparison
"""What a run folder of audits holds."""


def gather_cases(found: FoundRun, path: Path, gate: Gate) -> RunCases:
    """All that files for other tools say of a run.

    Args:
        found: what is in its folder.
        path: the folder, as the user named it.
        gate: what is asked.

    Raises:
        StoreError: the run is not finished.
    """
    if isinstance(found, SecretAudit) and found.contents.missing:
        raise StoreError(f"expected every attack in {path}, some are missing: finish with --resume")
    held = found.contents.manifest if isinstance(found, SecretAudit) else found.plan
    cases = () if isinstance(found, Comparison) else tuple(_gate_cases(found, gate))
    groups = (
        {one.entered.name: one.audits for one in found.defences}
        if isinstance(found, Comparison)
        else {"": found}
    )
    return RunCases(
        name=make_showable(held.name),
        created=make_showable(getattr(held, "created", "")),
        divulge=make_showable(held.divulge or BEFORE_NAMING),
        report=make_showable((path / found.page).as_posix()),
        verdicts=tuple(_verdict_cases(found)),
        gate=cases,
        attacks=tuple(one for name, audit in groups.items() for one in _attack_cases(name, audit)),
        warnings={
            make_showable(check.name): make_showable(check.text)
            for audit in groups.values()
            for check in _checks(audit)
            if check.verdict is Verdict.WARNING
        },
        markdown=make_showable(_as_markdown(found)),
    )


def _gate_cases(found: SecretAudit | LeaveOneOut, gate: Gate) -> Iterator[GateCase]:
    for asked, part in gate.parts.items():
        ruling = found.rule(part)
        said = ruling.failed or ruling.undecided or ruling.passed
        result: Literal["failed", "undecided", "passed"] = (
            "failed" if ruling.failed else "undecided" if ruling.undecided else "passed"
        )
        yield GateCase(make_showable(asked), result, tuple(map(make_showable, said)))


def _verdict_cases(found: FoundRun) -> Iterator[VerdictCase]:
    if not isinstance(found, Comparison):
        yield _verdict_case("", found.verdict, found)
        return
    for one, row in zip(found.defences, found.rows, strict=True):
        yield _variant_case(one, row, len(found.rows))


def _variant_case(one: VariantAudits, row: compare_table.DefenceRow, ways: int) -> VerdictCase:
    """The verdict on one way to train, which counts the ways that were looked at."""
    case = _verdict_case(one.entered.name, one.audits.verdict, one.audits)
    if row.level != "leak" or compare_table.is_leaking(row, ways):
        return case
    said = compare_table.describe_open_row(row, words.format_count(ways, "way"))
    headline = f"Nothing is decided: {make_showable(said)}"
    return VerdictCase(case.about, "undecided", headline, (), case.next_step, case.deciding)


def _verdict_case(
    about: str, verdict: Conclusion | Judgement, found: SecretAudit | LeaveOneOut
) -> VerdictCase:
    return VerdictCase(
        about=make_showable(about),
        level=verdict.level,
        headline=make_showable(verdict.headline),
        sentences=tuple(make_showable(said) for said in verdict.sentences if said),
        next_step=make_showable(verdict.next_step),
        deciding=make_showable(_describe_deciding(found)),
    )


def describe_run(found: FoundRun) -> str:
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


def _describe_deciding(found: SecretAudit | LeaveOneOut) -> str:
    """Name the deciding attack with its first figure and the interval; empty if there is none."""
    label = found.verdict.attack
    for finding in found.findings:
        if label is not None and make_showable(finding.label) == make_showable(label):
            names = [name for name in METRICS[found.about] if name in finding.metrics]
            figures = _figures(finding, (*names, *finding.metrics)[:1])
            return ": ".join([f"Deciding attack: {make_showable(label)}", *figures])
    return ""


def _attack_cases(about: str, found: SecretAudit | LeaveOneOut) -> Iterator[AttackCase]:
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


def _checks(found: SecretAudit | LeaveOneOut) -> Iterator[Check]:
    for audit in found.targets if isinstance(found, LeaveOneOut) else (found,):
        if isinstance(audit, Audit):
            yield from audit.checks


def _as_markdown(found: FoundRun) -> str:
    if isinstance(found, Audit):
        return markdown.render(found.summary)
    if isinstance(found, FederationAudit):
        return "\n".join(f"- {markdown.make_inert(line)}" for line in found.lines())
    assert isinstance(found, LeaveOneOut | Comparison)
    return found.table()
