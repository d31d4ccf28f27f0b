"""What audits of several models say together: means over targets, and one bound on ε."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pydantic

from divulge._util import showable, untrusted
from divulge._util.arguments import Count, check_arguments
from divulge._util.json import JSON
from divulge.audits.result import Audit, SecretAudit
from divulge.checks.duplicates import PoolCopies
from divulge.core import Check, Estimate, Finding, Head, Measurements, Status, Verdict
from divulge.errors import SpecError, StoreError, did_you_mean
from divulge.finished_runs.finished_run import GatedAudit
from divulge.finished_runs.judged import Sample
from divulge.finished_runs.run_folder import hold_run
from divulge.finished_runs.run_json import HEAD, load_head, store_head
from divulge.finished_runs.stored import PAGE, as_frame
from divulge.metrics import intervals
from divulge.metrics.epsilon import pooled_bound
from divulge.metrics.joint_test import Drawn, joint_test
from divulge.metrics.max_test import MaxTest
from divulge.metrics.membership import Member, Score, Unmeasurable
from divulge.metrics.shared_shadows import Influence, covariance_between
from divulge.report import markdown, words
from divulge.report.markdown import make_inert
from divulge.report.schema import Conclusion, Limits, NotMeasured
from divulge.report.terms import Terms
from divulge.report.units import PERSON, RECORD, Unit
from divulge.report.unmeasured import OTHER_RUNS
from divulge.report.verdict import judge_models
from divulge.studies.leave_one_out import each_target, joint, means, success

if TYPE_CHECKING:
    import pandas as pd

    from divulge.studies.leave_one_out import page as leave_one_out_page

SUMMARY, TABLE, TARGETS, SUCCESS = "summary.json", "summary.md", "targets", "success.csv"
COLUMNS = ("auc", "tpr@0.01", "tpr@0.001", "epsilon")


@dataclass(frozen=True, slots=True)
class LeaveOneOutFacts:
    """What audits of several models in turn are about."""

    models: int
    targets: int
    shadows: int
    """Other models that each target is compared with."""
    records: int
    """The number of records, without those that were set aside."""
    copies: PoolCopies | None = None
    """How many records stood twice; None in a folder of a divulge that did not look for them."""
    people: int | None = None
    """The number of people whose records these are; None where records are audited."""

    @property
    def set_aside(self) -> str:
        """Which records were left out, in a sentence; empty if none were."""
        if self.copies is None or not self.copies.repeated + self.copies.known:
            return ""
        return self.copies.said


@dataclass(frozen=True, repr=False)
class LeaveOneOut(GatedAudit):
    """Audits of models that were trained alike, each against the others."""

    head: Head[LeaveOneOutFacts]
    targets: tuple[Audit, ...]
    """One audit a target, each with intervals of its own."""
    path: Path | None = None
    """The run folder, if it has one."""
    drawn: Drawn | None = None
    """What joint permutations of all memberships showed, for the test of all targets: one row an
    attack that was asked for. None where there are too many records, and in older folders."""
    noun = "audits in turn"

    @classmethod
    def load(cls, path: Path) -> "LeaveOneOut":
        """What is in the run folder of audits in turn.

        Raises:
            StoreError: it is none, or not finished, or damaged.
        """
        head = load_head(path, "leave-one-out", LeaveOneOutFacts)
        audits = []
        for k in range(head.facts.targets):
            place = target_folder(path, k)
            run = place.relative_to(path) / HEAD  # what is measured again is written beside it
            audit = SecretAudit.load(untrusted.path_within(path, str(run), StoreError).parent)
            if not isinstance(audit, Audit) or audit.contents.missing:
                raise StoreError(
                    f"expected every attack on every target in {path}: finish with --resume"
                )
            audits.append(audit)
        return cls(head, tuple(audits), path, joint.load(path, len(head.attacks)))

    @property
    def facts(self) -> LeaveOneOutFacts:
        """How many models, targets and records there are."""
        return self.head.facts

    @property
    def across(self) -> Mapping[str, Mapping[str, Estimate]]:
        """By attack and metric, the mean over targets with its 95 % interval.

        The interval is Student's, from how much targets differ. It says what another model, trained
        in the same way on another random half of these records, may show. Of attacks that read
        shadows it allows for targets that are each other's shadows, see
        `divulge.metrics.shared_shadows`. A metric that some target lacks is left out. ``epsilon``
        is no mean: it is one lower bound from all targets, see `divulge.metrics.epsilon.pooling`.
        """
        return {label: self.means(label) for label in self._by_attack()}

    @check_arguments
    def means(self, label: str, best_of: Count = 1) -> Mapping[str, Estimate]:
        """One attack's row of `across`, with intervals that hold for so many attacks at once."""
        findings = self._findings_of(label)
        return {
            name: self._pooled(findings[0], best_of)
            if name == "epsilon"
            else means.mean_over_targets(
                name,
                [finding.metrics[name] for finding in findings],
                best_of,
                self._covariance(label, name),
            )
            for name in findings[0].metrics
            if all(name in finding.metrics for finding in findings)
        }

    def scores(self, label: str) -> list[Score] | None:
        """Of an attack those on every target; None if it did not end well on each."""
        ended = all(finding.status is Status.DONE for finding in self._findings_of(label))
        return [each_target.score_of(audit, label) for audit in self.targets] if ended else None

    def influences(self, label: str, name: str) -> list[Influence]:
        """Of each target, how far each candidate moves a metric of an attack that is done."""
        return [each_target.influence_of(audit, label, name) for audit in self.targets]

    def reads_shadows(self, label: str) -> bool:
        """Whether the scores of one target may depend on what the others were trained on."""
        return not each_target.ignores_other_models(self._findings_of(label)[0])

    def _covariance(self, label: str, name: str) -> float:
        """Of a metric of any two targets."""
        if not self.reads_shadows(label):
            return 0.0
        return covariance_between(self.influences(label, name))

    def figures(self, best_of: int = 1) -> Mapping[str, Mapping[str, Estimate]]:
        """By label of each attack that passed its controls on every target, the means.

        Args:
            best_of: the number of figures for which intervals hold at once, at 95 % (Bonferroni).
        """
        unsound = {
            entry.finding.label
            for audit in self.targets
            for entry in audit.contents.entries
            if entry.failed_control or entry.finding.status is not Status.DONE
        }
        return {
            label: self.means(label, best_of) for label in self._by_attack() if label not in unsound
        }

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding an attack, with the means over targets as its metrics.

        An attack that did not end well on every target says why.
        """
        across = self.across
        return tuple(
            each_target.join_targets(findings, across[label])
            for label, findings in self._by_attack().items()
        )

    @cached_property
    def verdict(self) -> Conclusion:
        """Whether models that are trained in this way leak, from all targets together.

        Targets may be each other's shadows: see `divulge.metrics.joint_test`.
        """
        summaries = [audit.summary for audit in self.targets]
        done = [finding.label for finding in self.findings if finding.status is Status.DONE]
        models = [
            (
                {
                    showable.make_showable(label): each_target.score_of(audit, label)
                    for label in done
                },
                audit.candidates.member,
            )
            for audit in self.targets
        ]
        together = {
            showable.make_showable(label): Measurements(
                self.means(label, len(done)), self._lacking(label)
            )
            for label in done
        }
        rows = [
            each_target.unsound_first(rows)
            for rows in zip(*(summary.attacks for summary in summaries), strict=True)
        ]
        checks: dict[str, Check] = {}
        for check in (check for summary in summaries for check in summary.checks):
            if check.verdict is Verdict.WARNING or check.name not in checks:
                checks[check.name] = check
        terms = Terms(self.targets[0].facts.shadows, trained=True, unit=self.unit)
        test = self._test([row.label for row in rows if row.label in together], models)
        return judge_models(rows, models, together, list(checks.values()), terms, test=test)

    def _test(
        self, done: Sequence[str], models: Sequence[tuple[Mapping[str, Score], Member]]
    ) -> MaxTest | None:
        """The test of all attacks that ended well on all targets; None if there are none."""
        if not done:
            return None
        positions = {showable.make_showable(label): k for k, label in enumerate(self.head.attacks)}
        labels = {showable.make_showable(label): label for label in self._by_attack()}
        return joint_test(
            [np.stack([scores[label] for label in done]) for scores, _ in models],
            [member for _, member in models],
            np.array([not self.reads_shadows(labels[label]) for label in done]),
            None if self.drawn is None else self.drawn[[positions[label] for label in done]],
        )

    @check_arguments
    def success_per_person(self, q: float = success.RATE) -> success.SuccessTable:
        """How well each person is told apart over the targets; see `divulge.metrics.success`.

        Where records are not grouped by person, each is somebody's own. The attack is
        ``threshold``, else the first one that passed its controls on every target and reads no
        other model.

        Args:
            q: the false-discovery rate of the lists of those who are told apart.

        Raises:
            SpecError: q is no rate above 0 and below 1.
            Unmeasurable: no attack can be used, or with so few targets every list is empty; says
                what would do.
        """
        if not 1e-9 < q < 1:
            raise SpecError(f"expected a false-discovery rate above 1e-9 and below 1, got {q}")
        report = success.find_success(self, q)
        report.refuse_empty_list()
        return report.table

    @cached_property
    def _success(self) -> success.SuccessReport | str:
        """What the report says of each person, or why it says nothing."""
        try:
            return success.find_success(self, success.RATE)
        except Unmeasurable as error:
            return str(error)

    @property
    def unit(self) -> Unit:
        """What was drawn and counted: people, or records."""
        return RECORD if self.facts.people is None else PERSON

    @property
    def limits(self) -> Mapping[str, Limits]:
        """By metric, intervals that hold for all attacks at once: what a gate compares."""
        return self.verdict.limits

    @property
    def checks(self) -> tuple[Check, ...]:
        """Those of the audits of all targets."""
        return tuple(check for audit in self.targets for check in audit.checks)

    @property
    def sizes(self) -> Mapping[str, JSON]:
        """The number of records, models and targets."""
        facts = self.facts
        people = {} if facts.people is None else {"people": facts.people}
        return {
            "records": facts.records,
            **people,
            "models": facts.models,
            "targets": facts.targets,
        }

    @property
    def sample(self) -> Sample:
        """The number of targets, over which intervals are."""
        return Sample(self.facts.targets, "targets")

    @property
    def reach(self) -> float:
        """The bound on ε that an attack which knows every member of all targets would have."""
        attacks = [findings[0] for findings in self._by_attack().values()]
        known = [audit.candidates.member.astype(np.float64) for audit in self.targets]
        kinds = {each_target.ignores_other_models(attack) for attack in attacks}
        return max(self._pool(known, blind, len(attacks)).value for blind in kinds)

    @property
    def untested(self) -> Mapping[str, str]:
        """By label of an attack, why its controls could not be run on some target."""
        return {label: why for audit in self.targets for label, why in audit.untested.items()}

    def _findings_of(self, label: str) -> Sequence[Finding]:
        by_attack = self._by_attack()
        if label not in by_attack:
            raise SpecError(f"expected an attack, got {label!r}: {did_you_mean(label, by_attack)}")
        return by_attack[label]

    def _lacking(self, label: str) -> Mapping[str, str]:
        """Why lower limits of single targets mean nothing; the mean's is one if all are alike."""
        findings = self._findings_of(label)
        return {name: why for finding in findings for name, why in finding.unmeasured.items()}

    def accuracies(self, group: str) -> list[Estimate]:
        """Of each target the accuracy on ``members`` or ``non-members``.

        Raises:
            StoreError: that of a target is gone.
        """
        checks = [check for audit in self.targets for check in audit.checks]
        estimates = [
            check.estimates.get(group) for check in checks if check.name == "model accuracy"
        ]
        known = [estimate for estimate in estimates if estimate is not None]
        if len(known) < len(self.targets):
            raise StoreError(
                f"expected the accuracy on {group} of {len(self.targets)} models in "
                f"{self.head.name!r}, got that of {len(known)}: run the audits again"
            )
        return known

    def table(self) -> str:
        """The means as a Markdown table, one row an attack."""
        head = ["Attack", *map(words.metric_title, COLUMNS)]
        rows = [head, ["---"] * len(head), *map(_cells, self.findings)]
        verdict = self.verdict
        sentences = [*verdict.sentences, verdict.sensitivity, f"Next: {verdict.next_step}"]
        return "\n".join([
            f"**{verdict.headline}**{markdown.p_value_note(verdict)}",
            "",
            " ".join(make_inert(sentence) for sentence in sentences if sentence),
            "",
            self.basis,
            "",
            *(f"| {' | '.join(cells)} |" for cells in rows),
            "",
            f"Success per {self.unit.noun}, over targets: {make_inert(self._describe_success())}",
            "",
            f"Not measured: {make_inert('; '.join(gap.what for gap in self.not_measured))}.",
        ])  # fmt: skip

    def _describe_success(self) -> str:
        report = self._success
        return report if isinstance(report, str) else " ".join(report.sentences)

    @property
    def basis(self) -> str:
        """How many targets, models and records the figures stand on, in sentences."""
        facts = self.facts
        of = "" if facts.people is None else f" of {PERSON.count(facts.people)}"
        return (
            f"Means over {facts.targets} targets, each against {facts.shadows} of the other "
            f"{facts.models - 1} models, {words.format_count(facts.records, 'record')}{of}; in "
            "brackets 95 % intervals across targets, which allow for shadows that they share. The "
            f"epsilon bound is one of all targets together. {facts.set_aside}".strip()
        )

    @property
    def not_measured(self) -> list[NotMeasured]:
        """What no target's audit looks at; further training runs are what this one is about."""
        scope = [gap for gap in self.targets[0].summary.not_measured if gap.kind == "scope"]
        return [gap for gap in scope if gap.what != OTHER_RUNS]

    def to_frame(self) -> "pd.DataFrame":
        """One row per attack, metric and target, and one for the mean, of target -1.

        Raises:
            MissingExtra: pandas is not installed.
        """
        audits = [(-1, self.findings)]
        audits += [(k, audit.findings) for k, audit in enumerate(self.targets)]
        rows = [
            (finding.label, k, name, estimate.value, estimate.low, estimate.high)
            for k, findings in audits
            for finding in findings
            for name, estimate in finding.metrics.items()
        ]
        return as_frame(rows, ["attack", "target", "metric", "value", "low", "high"])

    def render(self) -> dict[str, bytes]:
        """The table, ``summary.json`` and the page."""
        # its module loads the chart library
        from divulge.studies.leave_one_out import page as leave_one_out_page

        verdict = pydantic.TypeAdapter(Conclusion).dump_python(self.verdict, mode="json")
        across = {
            label: {name: asdict(estimate) for name, estimate in metrics.items()}
            for label, metrics in self.across.items()
        }
        report = self._success
        counted = {"unmeasured": report} if isinstance(report, str) else report.as_json()
        content = json.dumps({"verdict": verdict, "across": across, "success": counted}, indent=1)
        return {
            **({} if isinstance(report, str) else {SUCCESS: report.as_csv()}),
            SUMMARY: f"{content}\n".encode(),
            TABLE: f"# {make_inert(self.head.name)}\n\n{self.table()}\n".encode(),
            PAGE: leave_one_out_page.render(self._story()).encode(),
        }

    def store(self, folder: Path) -> None:
        """Write the audits of all targets, and what permutations showed.

        Raises:
            StoreError: it cannot be written.
        """
        for k, audit in enumerate(self.targets):
            audit.store(target_folder(folder, k))
        joint.store(folder, self.drawn)
        store_head(folder, self.head, self.parts_of_folder())

    def parts_of_folder(self) -> list[str]:
        """Paths in the run folder of the files on which the verdict depends besides its head."""
        heads = [f"{TARGETS}/{k:03d}/{HEAD}" for k in range(len(self.targets))]
        return heads if self.drawn is None else [*heads, joint.FILE]

    def _story(self) -> "leave_one_out_page.LeaveOneOutStory":
        from divulge.studies.leave_one_out import page as leave_one_out_page

        verdict, rows = self.verdict, []
        for audit in self.targets:
            finding = {row.label: row for row in audit.findings}.get(verdict.attack or "")
            checks = [check for check in audit.checks if check.name == "model accuracy"]
            accuracy = checks[0].estimates if checks else {}
            rows.append(
                leave_one_out_page.TargetRow(
                    audit.verdict.level,
                    None if finding is None else finding.metrics.get("auc"),
                    accuracy.get("members"),
                    accuracy.get("non-members"),
                )
            )
        return leave_one_out_page.LeaveOneOutStory(
            name=self.head.name,
            verdict=verdict,
            findings=self.findings,
            columns=COLUMNS,
            basis=self.basis,
            targets=rows,
            not_measured=self.not_measured,
            settings=self.head.settings,
            success=None if isinstance(self._success, str) else self._success,
            success_text=self._describe_success(),
            unit=self.unit,
        )

    def measure(self) -> "LeaveOneOut":
        """Compute all metrics of all targets again from the stored scores.

        Raises:
            StoreError: a run folder cannot be written.
        """
        with hold_run(self.path):
            again = []
            for audit in self.targets:
                measured = audit.measure()
                assert isinstance(measured, Audit)
                again.append(measured)
            whole = replace(self, targets=tuple(again))
            if self.path is not None:
                whole.report()
        return whole

    def _pooled(self, attack: Finding, best_of: int) -> Estimate:
        scores = [
            entry.score
            for audit in self.targets
            for entry in audit.contents.entries
            if entry.finding.label == attack.label and entry.score is not None
        ]
        return self._pool(scores, each_target.ignores_other_models(attack), best_of)

    def _pool(self, scores: Sequence[Score], blind: bool, best_of: int) -> Estimate:  # noqa: FBT001
        members = [audit.candidates.member for audit in self.targets]
        delta, confidence = self.targets[0].facts.delta, 1 - (1 - intervals.CONFIDENCE) / best_of
        return pooled_bound(scores, members, delta, blind=blind, confidence=confidence)

    def _by_attack(self) -> dict[str, list[Finding]]:
        by_label: dict[str, list[Finding]] = {}
        for audit in self.targets:
            for finding in audit.findings:
                by_label.setdefault(finding.label, []).append(finding)
        return by_label


def target_folder(path: Path, target: int) -> Path:
    """Where the run of one target is."""
    return path / TARGETS / f"{target:03d}"


def _cells(finding: Finding) -> list[str]:
    label = make_inert(finding.label)
    if finding.status is not Status.DONE:
        return [
            label,
            f"{finding.status}: {make_inert(finding.reason)}",
            *[""] * (len(COLUMNS) - 1),
        ]
    return [label, *(_cell(name, finding.metrics.get(name)) for name in COLUMNS)]


def _cell(name: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return "not measurable"
    return words.format_metric(name, estimate)
