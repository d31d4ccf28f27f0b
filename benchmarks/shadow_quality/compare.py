"""Compare attacks with shadow models on the same targets, and write the tables of their page."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.shadow_quality.rows import METRICS, MODES, Row, TargetRows
from divulge.metrics import intervals

Attacks = Mapping[str, Mapping[str, Row]]
"""Rows by attack and target."""

SHOWN = METRICS[1]
"""The metric of the table of each target."""


class Shortfall(NamedTuple):
    """A target on which the first attack finds less than another."""

    target: str
    attack: str
    difference: str


def page(measured: Sequence[TargetRows]) -> list[str]:
    """Markdown: for shadows online and offline, what each attack finds by number of shadows."""
    rows = [row for target in measured for row in target.rows]
    made = sorted(
        {f"{target.heading.measured} with {target.heading.environment}" for target in measured}
    )
    lines = [f"Measured on {', on '.join(made)}; one thread.", "", *map(_target, measured), ""]
    lines += [*_lost(rows), ""]
    for mode in MODES:
        own = [row for row in rows if row.mode == mode]
        lines += [f"### {mode.capitalize()}", "", f"{SHOWN}, mean over targets:", ""]
        lines += [*_by_shadows(own), ""]
        against = _against_lira(own)
        if against:
            lines += [f"{mode.capitalize()}, few shadows beside `lira` with 16:", "", *against]
    return lines[:-1]


LOST = 0.005
"""A difference of means from which on a comparison is counted as lost."""


def _lost(rows: Sequence[Row]) -> list[str]:
    """How often the best of all others finds more than the first attack on a single target."""
    total, lost = 0, dict.fromkeys(METRICS, 0)
    for mode in MODES:
        own = [row for row in rows if row.mode == mode and row.shadows]
        for count in sorted({row.shadows for row in own}):
            attacks = _by_attack([row for row in own if row.shadows == count])
            for metric in METRICS if len(attacks) > 1 else ():
                name = first_attack(attacks, metric)
                for target, first in attacks[name].items():
                    best = max(of[target].mean(metric) for of in attacks.values())
                    total += 1
                    lost[metric] += best - first.mean(metric) > LOST
    if not total:
        return []
    by_metric = ", ".join(f"{number} in {metric}" for metric, number in lost.items())
    return [
        f"By means alone, the best of all others finds more by over {LOST} than the first attack "
        f"in {sum(lost.values())} of {total} comparisons (a target, a metric, a number of shadows, "
        f"online or offline): {by_metric}."
    ]


def to_csv(measured: Sequence[TargetRows]) -> str:
    """All figures: a line a target, mode, number of shadows and attack, then those over targets.

    The lead is that of the attack that is first over targets. Intervals are over the halves of a
    target, and over targets; ``lead here`` is the interval of the mean lead over these targets.
    """
    rows = [row for target in measured for row in target.rows]
    parts = ("", " low", " high", " lead", " lead low", " lead high", " lead here low")
    figures = [f"{metric}{part}" for metric in METRICS for part in (*parts, " lead here high")]
    about = ("flagged in both", "CPU s, attack", "CPU s, shadows", "note")
    text = io.StringIO()
    header = ["target", "mode", "shadows", "attack", *figures, *about]
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    for mode in MODES:
        for count in sorted({row.shadows for row in rows}):
            own = [row for row in rows if (row.mode, row.shadows) == (mode, count)]
            writer.writerows(_csv_lines(own))
    return text.getvalue()


def _target(measured: TargetRows) -> str:
    """What a target is."""
    heading = measured.heading
    trained, tested = (np.mean(heading.accuracy[side]) for side in ("members", "others"))
    cpu = max(row.shadow_cpu / max(row.shadows, 1) for row in measured.rows)
    return (
        f"* **{heading.target}**: {heading.trained}; halves of {heading.records:,} records, "
        f"accuracy {trained:.3f} and {tested:.3f} on others; {cpu:.2f} CPU s a shadow."
    )


def _csv_lines(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Lines of one mode and number of shadows."""
    attacks = _by_attack(rows)
    first = {metric: attacks[first_attack(attacks, metric)] for metric in METRICS if attacks}
    for row in rows:
        line = _about(row.target, [row])
        for metric in METRICS if not row.reason else ():
            ahead = _by_halves(first[metric][row.target], row, metric)
            line |= _estimates(metric, row.halves(metric), 0.0)
            line |= _estimates(f"{metric} lead", ahead, -1.0)
        yield line
    for by_target in attacks.values():
        line = _about("all", list(by_target.values()))
        for metric in METRICS:
            line |= _estimates(metric, [row.mean(metric) for row in by_target.values()], 0.0)
            line |= _estimates(
                f"{metric} lead", _differences(first[metric], by_target, metric), -1.0
            )
            each = [_by_halves(first[metric][name], row, metric) for name, row in by_target.items()]
            low, high = mean_of_these(each)
            line |= {f"{metric} lead here low": f"{low:.4g}"}
            line |= {f"{metric} lead here high": f"{high:.4g}"}
        yield line


def _about(target: str, rows: Sequence[Row]) -> dict[str, str]:
    """What a line is about, with its costs and notes: of one row, or the mean of several."""
    shared = [row.shared for row in rows if row.shared is not None]
    line = {
        "target": target,
        "mode": rows[0].mode,
        "shadows": f"{rows[0].shadows}",
        "attack": rows[0].attack,
        "CPU s, attack": f"{np.mean([row.attack_cpu for row in rows]):.3g}",
        "CPU s, shadows": f"{np.mean([row.shadow_cpu for row in rows]):.3g}",
        "note": rows[0].reason,
    }
    return line | ({"flagged in both": f"{np.mean(shared):.4g}"} if shared else {})


def _estimates(name: str, values: Sequence[float], smallest: float) -> dict[str, str]:
    line = {name: f"{np.mean(values):.4g}"}
    if len(values) > 1:
        low, high = intervals.student_mean(values)
        line |= {f"{name} low": f"{max(smallest, low):.4g}", f"{name} high": f"{min(1, high):.4g}"}
    return line


def _by_shadows(rows: Sequence[Row]) -> list[str]:
    """A line an attack and a column a number of shadows; then which attack is first."""
    counts = sorted({row.shadows for row in rows if row.shadows})
    by_count = {count: _by_attack([r for r in rows if r.shadows == count]) for count in counts}
    names = dict.fromkeys(row.attack for row in rows if row.shadows)
    lines = ["| attack | " + " | ".join(f"{count} shadows" for count in counts) + " |"]
    lines += ["|---|" + "---|" * len(counts)]
    for name in names:
        cells = [_over_targets(by_count[count].get(name)) for count in counts]
        lines += [f"| `{name}` | " + " | ".join(cells) + " |"]
    return [*lines, "", *(_verdict(count, attacks) for count, attacks in by_count.items())]


def _over_targets(by_target: Mapping[str, Row] | None) -> str:
    if by_target is None:
        return "not on all targets"
    return _mean([row.mean(SHOWN) for row in by_target.values()], 0.0, 1.0)


def _by_attack(rows: Sequence[Row]) -> Attacks:
    """Attacks that are applicable on all targets of these rows."""
    targets = {row.target for row in rows}
    rows_by_attack: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row.reason:
            rows_by_attack.setdefault(row.attack, {})[row.target] = row
    return {name: of for name, of in rows_by_attack.items() if of.keys() == targets}


def first_attack(attacks: Attacks, metric: str) -> str:
    """The attack with the highest mean over targets."""
    return max(
        attacks, key=lambda name: float(np.mean([r.mean(metric) for r in attacks[name].values()]))
    )


def _verdict(count: int, attacks: Attacks) -> str:
    """Whether one attack is first in all metrics, and how clearly in the one that is shown."""
    first = {metric: first_attack(attacks, metric) for metric in METRICS}
    name = first[SHOWN]
    text = f"* With {count} shadows `{name}` is first in all three metrics"
    if len(set(first.values())) > 1:
        which = ", ".join(f"`{name}` in {metric}" for metric, name in first.items())
        text = f"* With {count} shadows **no single attack is first**: {which}"
    level = [
        f"`{other}`"
        for other, by_target in attacks.items()
        if other != name and not _clear(_differences(attacks[name], by_target, SHOWN))
    ]
    text += f", in {SHOWN} not clearly ahead of {', '.join(level)}" * bool(level)
    behind = "; ".join(
        f"{loss.target} in {metric}, by `{loss.attack}`: {loss.difference}"
        for metric in METRICS
        for loss in find_behind(attacks, first[metric], metric)
    )
    return f"{text}; another finds more on {behind}." if behind else f"{text}."


def mean_of_these(differences: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % interval of the mean over these targets, which are no sample of others.

    Within each target the halves are a sample; Welch and Satterthwaite's degrees of freedom.

    Args:
        differences: of each target, one value a half.
    """
    squares = np.array([np.var(of, ddof=1) / len(of) for of in differences])
    free = np.array([len(of) - 1 for of in differences])
    mean, total = float(np.mean([np.mean(of) for of in differences])), float(squares.sum())
    if total == 0.0:
        return mean, mean
    freedom = total**2 / float((squares**2 / free).sum())
    half = float(stats.t.ppf(0.975, freedom)) * total**0.5 / len(differences)
    return mean - half, mean + half


def _clear(differences: Sequence[float]) -> bool:
    """Whether the interval of the mean lies above 0."""
    return len(differences) > 1 and intervals.student_mean(differences)[0] > 0


def _differences(ahead: Mapping[str, Row], behind: Mapping[str, Row], metric: str) -> list[float]:
    """Target by target, means over models."""
    return [ahead[target].mean(metric) - behind[target].mean(metric) for target in behind]


def _by_halves(ahead: Row, behind: Row, metric: str) -> list[float]:
    """Half by half of one target, means over models."""
    pairs = zip(ahead.halves(metric), behind.halves(metric), strict=True)
    return [first - second for first, second in pairs]


def find_behind(attacks: Attacks, first: str, metric: str) -> Iterator[Shortfall]:
    """The targets on which an attack is behind another, with an interval that leaves out 0."""
    for target, own in attacks[first].items():
        for name, by_target in attacks.items():
            differences = _by_halves(by_target[target], own, metric)
            if _clear(differences):
                yield Shortfall(target, name, _mean(differences, -1.0, 1.0, "+.3f"))


def _against_lira(rows: Sequence[Row]) -> list[str]:
    """The first attack with few shadows beside `lira` with 16: what it finds, and what it costs."""
    lira = {row.target: row for row in rows if (row.attack, row.shadows) == ("lira", 16)}
    if lira.keys() != {row.target for row in rows}:
        return []
    lines = [
        f"| shadows | first in {SHOWN} | less `lira` with 16 | in AUC | "
        "its CPU seconds as a share |",
        "|---:|---|---|---|---|",
    ]
    for count in sorted({row.shadows for row in rows if 0 < row.shadows < 16}):
        attacks = _by_attack([row for row in rows if row.shadows == count])
        name = first_attack(attacks, SHOWN)
        by_target = attacks[name]
        shares = _mean([by_target[target].cpu / lira[target].cpu for target in lira], 0.0, 9.0)
        cells = [_difference(by_target, lira, metric) for metric in (SHOWN, METRICS[0])]
        lines.append(f"| {count} | `{name}` | {' | '.join(cells)} | {shares} |")
    return [*lines, ""]


def _difference(ahead: Mapping[str, Row], behind: Mapping[str, Row], metric: str) -> str:
    return _mean(_differences(ahead, behind, metric), -1.0, 1.0, "+.3f")


def _mean(values: Sequence[float], smallest: float, largest: float, form: str = ".3f") -> str:
    """A mean with its 95 % t-interval."""
    mean = format(np.mean(values), form)
    if len(values) < 2:
        return f"{mean} (one target)"
    low, high = intervals.student_mean(values)
    return f"{mean} [{max(smallest, low):{form}}, {min(largest, high):{form}}]"
