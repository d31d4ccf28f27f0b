"""What a comparison found, and its run folder."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from divulge._util import atomic, untrusted
from divulge._util.arguments import check_arguments
from divulge._util.json import JSON
from divulge.audits.run_folder import HEAD, has_head, hold_run, read_head, write_head
from divulge.core import ControlOutcome, Estimate, Finding, Status
from divulge.core.runs import BEFORE_NAMING, SCHEMA
from divulge.errors import SpecError, StoreError, did_you_mean
from divulge.metrics.shared_shadows import covariance_between
from divulge.metrics.utility import aop_estimate
from divulge.studies.compare import table as compare_table
from divulge.studies.compare import training_cost
from divulge.studies.compare.training_cost import TrainingCost
from divulge.studies.leave_one_out import result
from divulge.studies.leave_one_out.result import LeaveOneOut

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """One defence of a comparison."""

    name: str
    run: str
    """Folder of its audits, relative to that of the comparison."""
    trained_with: str
    """What tells this way to train and to answer from others."""
    network: str
    """What builds its network, as ``file.py:name``; empty where nobody said."""
    same_labels: bool = False
    """It trains as the first does, and what changes its answers keeps every label."""


@dataclass(frozen=True, slots=True)
class ComparisonManifest:
    """What was asked for: ``run.json``."""

    name: str
    created: str
    """UTC, ISO 8601."""
    seed: int
    lambdas: tuple[float, ...]
    defences: tuple[VariantRecord, ...]
    settings: dict[str, JSON]
    environment: dict[str, str]
    divulge: str = BEFORE_NAMING
    schema: int = SCHEMA
    kind: Literal["comparison"] = "comparison"


@dataclass(frozen=True)
class VariantAudits:
    """One defence: audits of its models, and what one of them costs."""

    entered: VariantRecord
    audits: LeaveOneOut
    cost: TrainingCost

    @property
    def accuracy(self) -> Estimate:
        """On records that a target was not trained on: the mean over targets."""
        return result.mean_over_targets("accuracy", self.audits.accuracies("non-members"))

    @property
    def train_accuracy(self) -> Estimate:
        """On the records that a target was trained on."""
        return result.mean_over_targets("accuracy", self.audits.accuracies("members"))

    @cached_property
    def left_out(self) -> Mapping[str, str]:
        """Attacks that count for nothing, each with the reason."""
        found = {}
        for finding in self.audits.findings:
            if finding.status is not Status.DONE:
                found[finding.label] = f"{finding.status}: {finding.reason}"
            elif failed := self._count_failed_controls(finding.label):
                found[finding.label] = f"it failed its controls on {failed} targets"
        return found

    @cached_property
    def strongest(self) -> Mapping[str, compare_table.StrongestAttack]:
        """By metric, the attack with the highest mean; its interval allows for the choice."""
        counts = [f for f in self.audits.findings if f.label not in self.left_out]
        best = {}
        for name in dict.fromkeys(name for finding in counts for name in finding.metrics):
            measured = [finding for finding in counts if name in finding.metrics]
            top = max(measured, key=lambda finding, name=name: finding.metrics[name].value)  # type: ignore[misc]
            estimate = self.audits.means(top.label, len(measured))[name]
            best[name] = compare_table.StrongestAttack(top.label, estimate)
        return best

    def aop(self, weight: float) -> Estimate | None:
        """Accuracy over privacy, by the AUC of the strongest attack; None if there is none.

        References:
            Lomurno et al. (2023), Discriminative adversarial privacy, eq. 4.
        """
        best = self.strongest.get("auc")
        return None if best is None else aop_estimate(self.accuracy, best.estimate, weight)

    def row(self, lambdas: tuple[float, ...]) -> compare_table.DefenceRow:
        """What the report says of it."""
        claimed = [a for a in self.audits.targets if a.facts.claim is not None]
        promised = [made.guarantee for a in claimed if (made := a.facts.claim)]
        outcomes = [weighed.outcome for a in claimed if (weighed := a.summary.claim)]
        aop = {f"{weight:g}": self.aop(weight) for weight in lambdas}
        limits = self.audits.limits
        return compare_table.DefenceRow(
            name=self.entered.name,
            trained_with=self.entered.trained_with,
            accuracy=self.accuracy,
            train_accuracy=self.train_accuracy,
            strongest=self.strongest,
            aop={weight: found for weight, found in aop.items() if found is not None},
            epsilon=max((g.epsilon for g in promised), default=None),
            delta=max((g.delta for g in promised), default=None),
            contradicted=outcomes.count("contradicted"),
            seconds=self.cost.seconds,
            epochs=self.cost.epochs,
            left_out=self.left_out,
            run=self.entered.run,
            level=self.audits.verdict.level,
            doubt=self.audits.verdict.doubt,
            p_value=self.audits.verdict.p_value,
            hidden=limits["auc"].highest if "auc" in limits else None,
        )

    def less(self, first: "VariantAudits") -> dict[str, Estimate]:
        """Accuracy and metrics less those of another, whose targets have the same records.

        A difference that is zero by definition has an interval of zero width, and no other has.
        """
        names = [
            n for n in compare_table.SHOWN_METRICS if n in self.strongest and n in first.strongest
        ]
        each = {name: (self._each(name), first._each(name)) for name in ("accuracy", *names)}
        found = {
            name: result.mean_difference(*pair, self._covariance(first, name))
            for name, pair in each.items()
        }
        if self.entered.same_labels and each["accuracy"][0] == each["accuracy"][1]:
            found["accuracy"] = Estimate(0.0, 0.0, 0.0)  # of the same models, and their labels
        return found

    def _covariance(self, first: "VariantAudits", name: str) -> float:
        """Of the differences of any two targets in a metric of the strongest attacks."""
        if name == "accuracy":
            return 0.0
        attacks = [(one.audits, one.strongest[name].attack) for one in (self, first)]
        if not any(audits.reads_shadows(label) for audits, label in attacks):
            return 0.0
        each = (audits.influences(label, name) for audits, label in attacks)
        return covariance_between([one - other for one, other in zip(*each, strict=True)])

    def _each(self, name: str, attack: str = "") -> list[Estimate]:
        """Of every target the accuracy, or a metric of an attack: if not named, the strongest."""
        if name == "accuracy":
            return self.audits.accuracies("non-members")
        attack = attack or self.strongest[name].attack
        return [
            finding.metrics[name]
            for audit in self.audits.targets
            for finding in audit.findings
            if finding.label == attack
        ]

    def _count_failed_controls(self, label: str) -> int:
        controls = [
            entry.control
            for audit in self.audits.targets
            for entry in audit.contents.entries
            if entry.finding.label == label and entry.control is not None
        ]
        return sum(control.outcome is ControlOutcome.FAILED for control in controls)


@dataclass(frozen=True)
class Comparison:
    """What each defence costs, and what it keeps. Shows itself in a notebook."""

    plan: ComparisonManifest
    defences: tuple[VariantAudits, ...]
    """The first is what the others are compared with."""
    path: Path | None = field(default=None)
    """The run folder, if it has one."""
    page: ClassVar[str] = PAGE
    """The report's file in the run folder."""

    @cached_property
    def rows(self) -> tuple[compare_table.DefenceRow, ...]:
        """One a defence."""
        first, *others = self.defences
        plain = first.row(self.plan.lambdas)
        return (
            plain,
            *(replace(one.row(self.plan.lambdas), less=one.less(first)) for one in others),
        )

    @property
    def front(self) -> tuple[str, ...]:
        """The defences that none dominates by accuracy and AUC."""
        return compare_table.pareto_front(self.rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all defences."""
        return tuple(
            replace(finding, label=f"{one.entered.name}: {finding.label}")
            for one in self.defences
            for finding in one.audits.findings
        )

    def table(self) -> str:
        """The rows as a Markdown table, with what they mean."""
        return compare_table.as_markdown(self.summary)

    def report(self) -> Path:
        """Write the page, the tables and the figures into the run folder; the page's path.

        Raises:
            StoreError: they cannot be written, or there is no run folder.
        """
        if self.path is None:
            raise StoreError("expected a run folder, got none: pass run= to compare")
        # draws, so it loads the chart library
        from divulge.studies.compare import page as compare_page

        files = compare_page.render_files(self.summary)
        with hold_run(self.path):
            for name, content in files.items():
                atomic.write_within(self.path, name, content)
        return self.path / PAGE

    def measure(self) -> "Comparison":
        """Compute all metrics of all defences again from the stored scores.

        Raises:
            StoreError: a run folder cannot be written.
        """
        with hold_run(self.path):
            defences = tuple(replace(one, audits=one.audits.measure()) for one in self.defences)
            again = replace(self, defences=defences)
            if self.path is not None:
                again.report()
        return again

    def as_json(self) -> dict[str, JSON]:
        """What ``summary.json`` holds."""
        return compare_table.as_json(self.summary)

    @check_arguments
    def find(self, name: str) -> VariantAudits:
        """The defence of this name.

        Raises:
            SpecError: there is none.
        """
        for one in self.defences:
            if one.entered.name == name:
                return one
        hint = did_you_mean(name, [one.entered.name for one in self.defences])
        raise SpecError(f"expected the name of a defence that was compared, got {name!r}: {hint}")

    @cached_property
    def summary(self) -> compare_table.ComparisonSummary:
        """All that the report says."""
        first = self.defences[0].audits.plan
        return compare_table.ComparisonSummary(
            name=self.plan.name,
            created=self.plan.created,
            records=first.records,
            models=first.models,
            targets=first.targets,
            shadows=first.shadows,
            rows=self.rows,
            sensitivity=self.defences[0].audits.verdict.sensitivity,
            not_measured=tuple(
                one
                for one in self.defences[0].audits.targets[0].summary.not_measured
                if one.kind == "scope"
            ),
            reproduction={
                "divulge": self.plan.divulge,
                "seed": self.plan.seed,
                "settings": self.plan.settings,
                "environment": self.plan.environment,
            },
            set_aside=first.set_aside,
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.table())}</pre>"

    def __repr__(self) -> str:
        return f"<divulge.Comparison>\n{self.table()}"


def begin(path: Path, plan: ComparisonManifest) -> ComparisonManifest:
    """Write the plan; of a run that is continued it keeps the date.

    Folders of defences are named after all that their audits depend on: those of defences that
    were changed or left out stay where they are, and count no longer.

    Raises:
        StoreError: it cannot be written.
    """
    if has_head(path):
        plan = replace(plan, created=read_head(path, ComparisonManifest).created)
    write_head(path, plan)
    return plan


def load_comparison(path: str | Path) -> Comparison:
    """What is in the run folder of a comparison.

    Raises:
        StoreError: it is none, or not finished, or damaged.
    """
    path = Path(path)
    plan = read_head(path, ComparisonManifest)
    return Comparison(plan, tuple(_load_variant(path, one) for one in plan.defences), path)


def _load_variant(path: Path, entered: VariantRecord) -> VariantAudits:
    folder = untrusted.path_within(path, f"{entered.run}/{HEAD}", StoreError).parent
    return VariantAudits(
        entered,
        result.load_leave_one_out(folder),
        training_cost.load_training_cost(folder),
    )
