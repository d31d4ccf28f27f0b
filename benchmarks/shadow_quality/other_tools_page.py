"""The tables of divulge's attacks beside those of other tools, from what `other_tools` stored."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.shadow_quality.models import SEEDS
from benchmarks.shadow_quality.other_tools import BUDGETS, OWN, STORED
from benchmarks.shadow_quality.rows import METRICS, MODES, Row, read_rows
from divulge.metrics import intervals

LOST = 0.005
"""A difference from which on a comparison counts as lost."""

FIRST = {
    ("online", 0): "two-sample",
    ("offline", 0): "two-sample",
    ("offline", 1): "rmia",
}
"""Divulge's attack by mode and number of shadows where it is not `shadow-stack`."""


class Comparison(NamedTuple):
    """Divulge's attack less another tool's, target by target."""

    mode: str
    shadows: int
    attack: str
    metric: str
    differences: Mapping[str, float]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % t-interval of the mean over targets; None for a single one."""
        if len(self.differences) < 2:
            return None
        low, high = intervals.student_mean(list(self.differences.values()))
        return low, high


def read_all(targets: Sequence[str]) -> list[Row]:
    """All stored rows of these targets that have values."""
    rows = (row for name in targets for row in read_rows(STORED / f"{name}.jsonl"))
    return [row for row in rows if row.values]


def own_attack(mode: str, shadows: int) -> str:
    """The attack that other tools' are compared with."""
    return f"{OWN}, {FIRST.get((mode, shadows), 'shadow-stack')}"


def compare(rows: Sequence[Row]) -> Iterator[Comparison]:
    """Each attack of another tool beside divulge's with as many shadows on the same models."""
    own = {
        (row.mode, row.shadows, row.target): row
        for row in rows
        if row.attack == own_attack(row.mode, row.shadows)
    }
    others = [row for row in rows if row.shadows and not row.attack.startswith(OWN)]
    keys = dict.fromkeys((row.mode, row.shadows, row.attack) for row in others)
    for mode, count, attack in sorted(keys):
        same = [
            row
            for row in others
            if (row.mode, row.shadows, row.attack) == (mode, count, attack)
            and (mode, count, row.target) in own
        ]
        for metric in METRICS:
            leads = {
                row.target: own[mode, count, row.target].mean(metric) - row.mean(metric)
                for row in same
            }
            if leads:
                yield Comparison(mode, count, attack, metric, leads)


def page(rows: Sequence[Row]) -> list[str]:
    """Markdown: for each mode and metric, divulge's attack less each other one."""
    every = list(compare(rows))
    single = [(comparison, name) for comparison in every for name in comparison.differences]
    lost = [
        (comparison, name) for comparison, name in single if comparison.differences[name] < -LOST
    ]
    clear = [
        comparison for comparison in every if comparison.interval and comparison.interval[0] > 0
    ]
    behind = [
        comparison for comparison in every if comparison.interval and comparison.interval[1] < 0
    ]
    rated = [comparison for comparison in every if comparison.interval]
    lines = [
        f"* Of {len(rated)} rows (a mode, a number of shadows, an attack, a metric) divulge leads "
        f"in {len(clear)} by an interval above 0, and is behind in {len(behind)} by one below 0.",
        f"* By means on single targets {len(lost)} of {len(single)} comparisons are lost by more "
        f"than {LOST}{_describe_losses(lost)}.",
        "",
    ]
    for mode in MODES:
        for metric in METRICS[:2]:
            lines += _table(
                [
                    comparison
                    for comparison in every
                    if (comparison.mode, comparison.metric) == (mode, metric)
                ]
            )
    return lines[:-1]


def precision(rows: Sequence[Row], stored: Mapping[str, Sequence[Row]]) -> list[str]:
    """Markdown: `shadow-stack` of these rows less that of the stored ones, on the same models.

    Args:
        rows: of this benchmark, one target a half.
        stored: by target, of the benchmark ``quality``, two targets a half; of the first.
    """
    name = "shadow-stack"
    before = {
        (target, row.mode, row.shadows): row
        for target, target_rows in stored.items()
        for row in target_rows
        if row.attack == name and row.values
    }
    now = [
        row
        for row in rows
        if row.attack == f"{OWN}, {name}" and (row.target, row.mode, row.shadows) in before
    ]
    head = " | ".join(METRICS)
    lines = [f"| shadows | targets | {head} |", "|---|---:|" + "---|" * len(METRICS)]
    for mode, count in sorted({(row.mode, row.shadows) for row in now}):
        pairs = [
            (row, before[row.target, mode, count])
            for row in now
            if (row.mode, row.shadows) == (mode, count)
        ]
        cells = []
        for metric in METRICS:
            leads = [
                row.mean(metric) - float(np.mean(of.values[metric][::SEEDS])) for row, of in pairs
            ]
            cells.append(_difference(leads))
        lines.append(f"| {count} {mode} | {len(pairs)} | {' | '.join(cells)} |")
    return lines


def _difference(values: Sequence[float]) -> str:
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:+.4f} (one target)"
    low, high = intervals.student_mean(list(values))
    return f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"


def _describe_losses(lost: Sequence[tuple[Comparison, str]]) -> str:
    """By number of shadows, and the largest loss of a metric, after a count of all."""
    if not lost:
        return ""
    counts = Counter(comparison.shadows for comparison, _ in lost)
    by_count = ", ".join(f"{number} with {count}" for count, number in sorted(counts.items()))
    largest = []
    for metric in METRICS:
        of_metric = [(each, name) for each, name in lost if each.metric == metric]
        if of_metric:
            largest.append(min(of_metric, key=lambda pair: pair[0].differences[pair[1]]))
    worst = "; ".join(
        f"{target} {each.mode} with {each.shadows} in {each.metric}, by {each.attack}: "
        f"{-each.differences[target]:+.3f}"
        for each, target in largest
    )
    return f" ({by_count} shadows). The largest: {worst}"


def _table(rows: Sequence[Comparison]) -> list[str]:
    if not rows:
        return []
    counts = [count for count in BUDGETS if any(row.shadows == count for row in rows)]
    title = f"{rows[0].mode.capitalize()}, {rows[0].metric}, divulge's less the other's:"
    head = " | ".join(f"{count} shadow{'' if count == 1 else 's'}" for count in counts)
    lines = [title, "", f"| attack | {head} |", "|---|" + "---|" * len(counts)]
    for name in dict.fromkeys(row.attack for row in rows):
        cells = [
            next((_cell(row) for row in rows if (row.attack, row.shadows) == (name, count)), "")
            for count in counts
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(comparison: Comparison) -> str:
    mean = float(np.mean(list(comparison.differences.values())))
    if comparison.interval is None:
        return f"{mean:+.3f} (one target)"
    low, high = comparison.interval
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}] ({len(comparison.differences)})"


def to_csv(rows: Sequence[Row]) -> str:
    """All figures: a line a target, mode, number of shadows and attack, and one over targets.

    Figures are means over the models of a target with 95 % t-intervals over its halves. *Lead* is
    divulge's attack less this one: of a target half by half, of ``all`` target by target.
    """
    text = io.StringIO()
    parts = ("", " low", " high", " lead", " lead low", " lead high")
    head = ["target", "mode", "shadows", "attack", "targets", "CPU s, attack"]
    head += [f"{metric}{part}" for metric in METRICS for part in parts]
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    own = {
        (row.mode, row.shadows, row.target): row
        for row in rows
        if row.attack == own_attack(row.mode, row.shadows)
    }
    for key in sorted({(row.mode, row.shadows, row.attack) for row in rows}):
        same = [row for row in rows if (row.mode, row.shadows, row.attack) == key]
        pairs = [(row, own.get((row.mode, row.shadows, row.target))) for row in same]
        writer.writerows(_line(row.target, [(row, first)]) for row, first in pairs)
        writer.writerow(_line("all", pairs))
    return text.getvalue()


def _line(target: str, pairs: Sequence[tuple[Row, Row | None]]) -> dict[str, str]:
    row = pairs[0][0]
    line = {
        "target": target, "mode": row.mode, "shadows": f"{row.shadows}", "attack": row.attack,
        "targets": f"{len(pairs)}",
        "CPU s, attack": f"{np.mean([row.attack_cpu for row, _ in pairs]):.3g}",
    }  # fmt: skip
    for metric in METRICS:
        if len(pairs) == 1:
            values, first = row.halves(metric), pairs[0][1]
            leads = list(np.subtract(first.halves(metric), values)) if first else []
        else:
            values = [row.mean(metric) for row, _ in pairs]
            leads = [first.mean(metric) - row.mean(metric) for row, first in pairs if first]
        line |= _estimate(metric, values) | _estimate(f"{metric} lead", leads)
    return line


def _estimate(name: str, values: Sequence[float]) -> dict[str, str]:
    if not len(values):
        return {}
    line = {name: f"{np.mean(values):.4g}"}
    if len(values) > 1:
        low, high = intervals.student_mean([float(value) for value in values])
        line |= {f"{name} low": f"{low:.4g}", f"{name} high": f"{high:.4g}"}
    return line
