"""One defence of a comparison: its audits, what it costs, and what is said of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from divulge._util import atomic, untrusted
from divulge.core import ControlOutcome, Estimate, Status
from divulge.errors import StoreError
from divulge.finished_runs.finished_run import RunVerdict
from divulge.finished_runs.judged import JudgedVerdict
from divulge.finished_runs.run_json import HEAD
from divulge.metrics.shared_shadows import covariance_between
from divulge.metrics.utility import aop_estimate
from divulge.report import words
from divulge.studies.compare import table as compare_table
from divulge.studies.leave_one_out import means
from divulge.studies.leave_one_out.result import LeaveOneOut

COST = "alone.json"
"""What one model of a defence costs."""


@dataclass(frozen=True, slots=True)
class TrainingCost:
    """What it takes to train one model: ``alone.json``."""

    seconds: float
    """Seconds of one core, or on the clock where the trainer uses an accelerator."""
    epochs: int | None
    """The number of epochs of its recipe; None where it has none. Fewer may have been run."""
    records: int
    """The number of records that it was trained on."""


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


@dataclass(frozen=True)
class VariantAudits:
    """One defence: audits of its models, and what one of them costs."""

    entered: VariantRecord
    audits: LeaveOneOut
    cost: TrainingCost

    @property
    def accuracy(self) -> Estimate:
        """On records that a target was not trained on: the mean over targets."""
        return means.mean_over_targets("accuracy", self.audits.accuracies("non-members"))

    @property
    def train_accuracy(self) -> Estimate:
        """On the records that a target was trained on."""
        return means.mean_over_targets("accuracy", self.audits.accuracies("members"))

    @cached_property
    def left_out(self) -> Mapping[str, str]:
        """Attacks that count for nothing, each with the reason."""
        reasons = {}
        for finding in self.audits.findings:
            if finding.status is not Status.DONE:
                reasons[finding.label] = f"{finding.status}: {finding.reason}"
            elif failed := self._count_failed_controls(finding.label):
                reasons[finding.label] = f"it failed its controls on {failed} targets"
        return reasons

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
            aop={weight: estimate for weight, estimate in aop.items() if estimate is not None},
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
        differences = {
            name: means.mean_difference(*pair, self._covariance(first, name))
            for name, pair in each.items()
        }
        if self.entered.same_labels and each["accuracy"][0] == each["accuracy"][1]:
            differences["accuracy"] = Estimate(
                0.0, 0.0, 0.0
            )  # of the same models, and their labels
        return differences

    def _covariance(self, first: "VariantAudits", name: str) -> float:
        """Of the differences of any two targets in a metric of the strongest attacks."""
        if name == "accuracy":
            return 0.0
        attacks = [(variant.audits, variant.strongest[name].attack) for variant in (self, first)]
        if not any(audits.reads_shadows(label) for audits, label in attacks):
            return 0.0
        each = (audits.influences(label, name) for audits, label in attacks)
        return covariance_between([own - other for own, other in zip(*each, strict=True)])

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


def judge_variant(
    variant: VariantAudits, row: compare_table.DefenceRow, ways: int
) -> JudgedVerdict:
    """The verdict on one way to train, which counts the ways that were looked at.

    Args:
        variant: the defence.
        row: what the report says of it.
        ways: how many were looked at.
    """
    verdict = variant.audits.verdict
    if row.level != "leak" or compare_table.is_leaking(row, ways):
        return verdict
    reason = compare_table.describe_open_row(row, words.format_count(ways, "way"))
    headline = f"Nothing is decided: {reason}"
    return RunVerdict("undecided", headline, (), verdict.next_step, verdict.attack)


def load_variant(path: Path, entered: VariantRecord) -> VariantAudits:
    """One defence of the comparison in a run folder.

    Raises:
        StoreError: its audits are damaged, or not finished.
    """
    folder = untrusted.path_within(path, f"{entered.run}/{HEAD}", StoreError).parent
    return VariantAudits(
        entered,
        LeaveOneOut.load(folder),
        load_training_cost(folder),
    )


def store_training_cost(folder: Path, cost: TrainingCost) -> None:
    """Write what one model cost.

    Raises:
        StoreError: it cannot be written.
    """
    atomic.write(folder / COST, atomic.to_json(cost, TrainingCost).encode())


def load_training_cost(folder: Path) -> TrainingCost:
    """What one model cost.

    Raises:
        StoreError: nobody measured it, or the file is damaged.
    """
    return atomic.from_json(atomic.read(folder / COST), TrainingCost, folder / COST)
