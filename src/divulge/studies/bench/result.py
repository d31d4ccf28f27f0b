"""What a bench found: figures of every attack on every target, and paired differences."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from divulge.audits.result import Audit
from divulge.core import Estimate, Finding, Status
from divulge.report import words

FPR = 0.1
"""The false-positive rate of TPRs: every target has non-members enough for it."""
METRICS = ("auc", f"tpr@{FPR:g}")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One attack on one target."""

    target: str
    attack: str
    """Its label."""
    reason: str
    """Why its figures do not count; empty if they do."""
    metrics: Mapping[str, Estimate]
    """By name of `METRICS`."""
    differences: Mapping[str, Estimate]
    """The own attack less this one. Empty for the own attack, or if either does not count. The
    intervals of a target hold for all built-in attacks at once."""


@dataclass(frozen=True)
class AttackBench:
    """An attack of somebody's own beside those of divulge."""

    attack: str
    """Label of the own attack."""
    audits: Mapping[str, Audit]
    """By target."""
    path: Path

    @property
    def rows(self) -> tuple[BenchRow, ...]:
        """A row an attack and target, the own attack first."""
        return tuple(row for name, audit in self.audits.items() for row in self._rows(name, audit))

    def _rows(self, target: str, audit: Audit) -> Iterator[BenchRow]:
        counting = audit.figures()
        builtin = len(audit.findings) - 1
        for finding in audit.findings:
            label = finding.label
            compared = label != self.attack and {label, self.attack} <= counting.keys()
            difference = audit.difference(self.attack, label, builtin) if compared else {}
            yield BenchRow(
                target,
                label,
                _why_not(finding) if label not in counting else "",
                {name: finding.metrics[name] for name in METRICS if name in finding.metrics},
                {name: difference[name] for name in METRICS if name in difference},
            )

    @property
    def builtin(self) -> tuple[str, ...]:
        """Labels of the attacks of divulge."""
        return tuple(dict.fromkeys(row.attack for row in self.rows if row.attack != self.attack))

    def mean(self, attack: str, metric: str) -> Estimate | None:
        """The mean over targets of the own attack's figure less a built-in one's.

        The targets are these and no sample of others. Intervals of independent differences add as
        their squares do (MOVER); they hold for all built-in attacks at once.

        Args:
            attack: label of the built-in attack.
            metric: of `METRICS`.
        """
        estimates = [
            row.differences[metric]
            for row in self.rows
            if row.attack == attack and metric in row.differences
        ]
        if not estimates:
            return None
        value = sum(estimate.value for estimate in estimates) / len(estimates)
        below = math.hypot(*(estimate.value - estimate.low for estimate in estimates)) / len(
            estimates
        )
        above = math.hypot(
            *((estimate.high or estimate.value) - estimate.value for estimate in estimates)
        ) / len(estimates)
        return Estimate(value, value - below, value + above)

    def as_csv(self) -> str:
        """All rows: target, attack, each metric and difference with its limits, and the reason."""
        made = io.StringIO()
        columns = [*METRICS, *(f"{name}_difference" for name in METRICS)]
        head = [f"{name}{end}" for name in columns for end in ("", "_low", "_high")]
        sheet = csv.writer(made, lineterminator="\n")
        sheet.writerow(["target", "attack", *head, "reason"])
        for row in self.rows:
            figures = [
                *(row.metrics.get(name) for name in METRICS),
                *(row.differences.get(name) for name in METRICS),
            ]
            sheet.writerow([row.target, row.attack, *_limits(figures), row.reason])
        return made.getvalue()

    def as_latex(self) -> str:
        """A table of AUCs, a row an attack and a column a target, as a ``tabular``."""
        targets = list(self.audits)
        lines = [
            rf"\begin{{tabular}}{{l{'r' * len(targets)}r}}",
            rf"attack & {' & '.join(map(_escape, targets))} & mean difference \\ \hline",
        ]
        cells = {(row.attack, row.target): row for row in self.rows}
        for attack in (self.attack, *self.builtin):
            shown = [_latex_cell(cells[attack, target]) for target in targets]
            mean = None if attack == self.attack else self.mean(attack, "auc")
            less = "" if mean is None else words.format_difference(mean)
            lines.append(rf"{_escape(attack)} & {' & '.join(shown)} & {less} \\")
        return "\n".join([*lines, r"\end{tabular}", ""])


def _why_not(finding: Finding) -> str:
    if finding.status is Status.DONE:
        return "it failed a control"
    return f"{finding.status}: {finding.reason}"


def _limits(figures: Sequence[Estimate | None]) -> Iterator[str]:
    for figure in figures:
        if figure is None:
            yield from ("", "", "")
        else:
            yield from (
                f"{value:.6g}" for value in (figure.value, figure.low, figure.high or figure.value)
            )


def _latex_cell(row: BenchRow) -> str:
    if row.reason or "auc" not in row.metrics:
        return "--"
    auc = row.metrics["auc"]
    return f"{auc.value:.3f} ({auc.low:.3f}--{auc.high:.3f})"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
