"""An audit as a terminal shows it, and as one JSON object for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

import pydantic

from divulge._util.json import JSON
from divulge.audits.result import Audit, FederationAudit
from divulge.canaries.result import CanaryAudit
from divulge.cli.terminal import Grid, Part, show, show_table
from divulge.core import Control, ControlOutcome, Entry, Finding, Status
from divulge.finished_runs.finished_run import FinishedRun, GatedAudit
from divulge.metrics.questions import QuestionsRow
from divulge.report import words
from divulge.report.federation.verdicts.case import Judgement
from divulge.report.markdown import p_value_note
from divulge.report.ranking import group_lost, strength
from divulge.report.remedies import MOST_SHOWN
from divulge.report.schema import ClaimRow, Conclusion
from divulge.report.unmeasured import up_to_notes
from divulge.studies.compare import table as compare_table
from divulge.studies.compare.result import Comparison
from divulge.studies.harden.federated_result import HardenedFederation
from divulge.studies.harden.result import HardenedModel
from divulge.studies.leave_one_out.result import LeaveOneOut

COLUMNS = {"AUC": "auc", "TPR at 1 % FPR": "tpr@0.01", "ε ≥": "epsilon"}
MEANS = {"AUC": "auc", "TPR at 1 % FPR": "tpr@0.01", "at 0.1 %": "tpr@0.001", "ε ≥": "epsilon"}


def show_result(result: FinishedRun) -> None:
    """Print the verdict, the warnings and one row per attack; of several targets, the means."""
    if isinstance(result, FederationAudit):
        headline, *rest = result.lines()
        show("\n", (headline, "bold"), wrap=False)
        for line in rest:
            show(line, wrap=False)
    elif isinstance(result, Audit):
        _show_model(result)
    elif isinstance(result, LeaveOneOut):
        _show_leave_one_out(result)
    elif isinstance(result, Comparison):
        _show_comparison(result)
    elif isinstance(result, HardenedModel | HardenedFederation):
        _show_hardened(result)
    else:
        show(str(result), wrap=False)


def show_questions(rows: Sequence[QuestionsRow]) -> None:
    """Print what audits of fewer candidates would have shown."""
    table = Grid("What fewer questions would have shown")
    names = ["candidates asked about", "parts", "leak found", "95 % interval", "AUC at least"]
    table.add_columns(names, right=True)
    for row in rows:
        low, high = row.found.low or 0.0, row.found.high or 1.0
        share, between = f"{row.found.value:.0%}", f"{low:.0%} to {high:.0%}"
        table.add_row([str(row.candidates), str(row.parts), share, between, f"{row.auc:.3f}"])
    show_table(table)
    show(
        "Parts of one size share no candidate. Each is tested as the whole audit is, at 5 % for "
        "all attacks together. AUC: the lower limit for the strongest attack, the mean over parts. "
        "Each candidate costs one answer; answers about reference records, and further questions "
        "of attacks on labels alone, come on top. Scores are those of the whole audit: an attack "
        "that learns from other candidates would know less."
    )


def _show_model(audit: Audit) -> None:
    summary = audit.summary
    verdict, claim = summary.verdict, summary.claim
    show("\n", (verdict.headline, "bold"))
    for sentence in (*verdict.sentences, verdict.sensitivity, f"Next: {verdict.next_step}"):
        if sentence:
            show(sentence)
    for remedy in summary.remedies[:MOST_SHOWN]:
        show("- ", (remedy.what, "bold"), f": {remedy.why} Cost: {remedy.cost}.")
    if (others := len(summary.remedies) - MOST_SHOWN) > 0:
        show(f"- {words.format_count(others, 'other way')}: see the report")
    if claim is not None and claim.sentence not in verdict.sentences:
        show(("Claim:", "red" if claim.outcome == "contradicted" else ""), f" {claim.sentence}")
    for check in audit.checks:
        if check.verdict == "warning":
            show((f"Warning, {check.name}:", "yellow"), f" {check.text}")
    if any(finding.status is Status.DONE for finding in audit.findings):
        show_table(_table(audit))
    for line in (*_faults(audit), *_lost(audit.findings)):
        show(*line)
    for label, why in audit.untested.items():
        show(f"Controls of {label} not tested: {why}")
    for note in up_to_notes(audit.findings, COLUMNS.values()):
        show(note)


def _show_leave_one_out(audit: LeaveOneOut) -> None:
    verdict = audit.verdict
    show("\n", (verdict.headline, "bold"), p_value_note(verdict))
    for sentence in (*verdict.sentences, verdict.sensitivity, f"Next: {verdict.next_step}"):
        if sentence:
            show(sentence)
    done = [finding for finding in audit.findings if finding.status is Status.DONE]
    done.sort(key=lambda finding: strength(finding.metrics, sound=True))
    if done:
        table = Grid("Means over targets with their 95 % intervals")
        table.add_columns(["attack"])
        table.add_columns(MEANS, right=True)
        for finding in done:
            table.add_row([_name(finding), *(_cell(finding, name) for name in MEANS.values())])
        show_table(table)
    for line in _lost(audit.findings):
        show(*line)
    show(audit.basis)
    show(f"Not measured: {'; '.join(gap.what for gap in audit.not_measured)}.")


def _show_comparison(comparison: Comparison) -> None:
    summary = comparison.summary
    verdict = compare_table.judge_comparison(summary)
    show("\n", (verdict.headline, "bold"))
    for sentence in (*verdict.sentences, f"Next: {verdict.next_step}"):
        show(sentence)
    heads, rows = (
        compare_table.headings(summary),
        [compare_table.cells(summary, r) for r in comparison.rows],
    )
    half = 3 + len(summary.metrics)
    utility = Grid("What each defence keeps, with 95 % intervals")
    _fill(utility, [heads[:half], *(row[:half] for row in rows)])
    cost = Grid("What it costs")
    _fill(cost, [[heads[0], *heads[half:]], *([row[0], *row[half:]] for row in rows)])
    show_table(utility)
    show_table(cost)
    paired = compare_table.differences(summary)
    if paired:
        less = Grid("Differences on the same targets, with 95 % intervals")
        _fill(less, paired)
        show_table(less)
        show(compare_table.PAIRED_NOTE)
    for line in compare_table.lines(summary):
        show(line)
    for row in comparison.rows:
        for note in compare_table.notes_on(row):
            show((row.name, "bold"), f": {note}")
    show(f"Not measured: {'; '.join(gap.what for gap in summary.not_measured)}.")


def _show_hardened(hardened: HardenedModel | HardenedFederation) -> None:
    contents = hardened.contents
    show("\n", (contents.headline, "bold"))
    for sentence in (*contents.sentences, f"Next: {contents.next_step}"):
        show(sentence)
    tried = Grid("What was tried")
    _fill(tried, contents.rows)
    show_table(tried)
    show(contents.basis)
    for line in contents.refusals():
        show(line)
    if isinstance(hardened, HardenedModel):
        show(f"Model: {hardened.model}")
    else:
        show(f"For your federate.toml:\n{contents.toml}", wrap=False)


def _fill(table: Grid, rows: Sequence[Sequence[str]]) -> None:
    """Add rows with their headings on top; all columns but the first hold figures."""
    (first, *others), *rest = rows
    table.add_columns([first])
    table.add_columns(others, right=True)
    for row in rest:
        table.add_row(row)


def result_as_json(result: FinishedRun) -> dict[str, JSON]:
    """The object of ``--format json``: run, report, and what was found.

    That is the verdict, the findings and, of one model, the claim; of a comparison or a search its
    summary.
    """
    assert result.path is not None
    answer: dict[str, JSON] = {"run": str(result.path), "report": str(result.path / result.page)}
    if isinstance(result, Comparison | HardenedModel | HardenedFederation | CanaryAudit):
        return answer | result.as_json()
    assert isinstance(result, GatedAudit)
    findings = pydantic.TypeAdapter(tuple[Finding, ...])
    answer["findings"] = findings.dump_python(result.findings, mode="json")
    verdict: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Conclusion | Judgement)
    answer["verdict"] = verdict.dump_python(result.verdict, mode="json")
    if isinstance(result, Audit):
        claim = pydantic.TypeAdapter(ClaimRow | None)
        answer["claim"] = claim.dump_python(result.summary.claim, mode="json")
    return answer


def _table(audit: Audit) -> Grid:
    table = Grid("Values with their 95 % intervals")
    table.add_columns(["attack"])
    table.add_columns(COLUMNS, right=True)
    table.add_columns(["controls"])
    done = [entry for entry in audit.contents.entries if entry.finding.status is Status.DONE]
    for entry in sorted(done, key=_strength):
        finding = entry.finding
        cells = [_cell(finding, name) for name in COLUMNS.values()]
        table.add_row([_name(finding), *cells, _controls(entry.control)])
    return table


def _lost(findings: Sequence[Finding]) -> Iterator[tuple[Part, ...]]:
    """A line for each reason why attacks did not run, with their names."""
    for (status, reason), lost in group_lost(findings).items():
        yield (str(status).capitalize(), "red"), f": {', '.join(map(_name, lost))}: {reason}"


def _strength(entry: Entry) -> tuple[bool, float]:
    return strength(entry.finding.metrics, sound=not entry.failed_control)


def _name(finding: Finding) -> str:
    """The label, shorter, with a space where it may be broken."""
    return finding.label.replace("signal=", "").replace("(", " (", 1)


def _cell(finding: Finding, name: str) -> str:
    estimate = finding.metrics.get(name)
    if estimate is None:
        return "too few"
    if estimate.high is None:
        return f"{estimate.value:.2f}"
    if name in finding.unmeasured:
        return f"{estimate.value:.2f} (up to {estimate.high:.2f})"  # no wider than an interval
    return f"{estimate.value:.3f} ({estimate.low:.2f}-{estimate.high:.2f})"


def _controls(control: Control | None) -> Part:
    if control is None:
        return "not run"
    failed = control.outcome is ControlOutcome.FAILED
    return (control.outcome, "red") if failed else control.outcome


def _faults(audit: Audit) -> Iterator[tuple[Part, ...]]:
    """A line for each way to fail a control, with the attacks that did."""
    attacks: dict[str, list[str]] = {}
    for entry in audit.contents.entries:
        control = entry.control
        if control is None or control.outcome is not ControlOutcome.FAILED:
            continue
        leaked = control.blind is not None and control.blind.outcome is ControlOutcome.FAILED
        missed = control.planted is not None and not control.sees
        faults = ["missed planted leak"] * missed + ["false alarm"] * (not control.calm)
        faults += ["failed blind control"] * leaked
        attacks.setdefault(", ".join(faults), []).append(_name(entry.finding))
    for why, names in attacks.items():
        yield ("Failed controls", "red"), f": {', '.join(names)}: {why}"
