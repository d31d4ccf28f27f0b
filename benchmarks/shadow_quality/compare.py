"""Compare attacks with shadow models on the same targets, and write the tables of their page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.shadow_quality.rows import METRICS, MODES, Measured, Row
from divulge.metrics import intervals

Attacks = Mapping[str, Mapping[str, Row]]
"""Rows by attack and target."""

SHOWN = METRICS[1]
"""The metric of the table of each target."""


class Behind(NamedTuple):
    """A target on which the first attack finds less than another."""

    target: str
    attack: str
    difference: str


def page(measured: Sequence[Measured]) -> list[str]:
    """Markdown: over all targets, by number of shadows; then target by target."""
    rows = [row for one in measured for row in one.rows]
    names = ", ".join(one.heading.target for one in measured)
    made = sorted({f"{one.heading.measured} with {one.heading.environment}" for one in measured})
    lines = [f"Targets: {names}.", "", f"Measured on {', on '.join(made)}; one thread.", ""]
    for mode in MODES:
        lines += [f"### {mode.capitalize()}", ""]
        own = [row for row in rows if row.mode == mode]
        for count in sorted({row.shadows for row in own if row.shadows}):
            lines += _over_targets([row for row in own if row.shadows == count])
        against = _against_lira(own)
        if against:
            lines += [f"{mode.capitalize()}, few shadows beside `lira` with 16:", "", *against]
    lines += ["### Target by target", ""]
    for one in measured:
        lines += _one_target(one)
    return lines[:-1]


def _over_targets(rows: Sequence[Row]) -> list[str]:
    """One table: all attacks with so many shadows, and how far the first of them is ahead."""
    count = rows[0].shadows
    attacks = _by_attack(rows)
    first = {metric: first_attack(attacks, metric) for metric in METRICS}
    targets = len({row.target for row in rows})
    lines = [
        f"With {count} shadows, mean over {targets} target{'s' * (targets != 1)}:",
        "",
        "| attack | "
        + " | ".join(f"{metric} | the first less it" for metric in METRICS)
        + " | CPU s, attack | flagged in both |",
        "|---|" + "---|---|" * len(METRICS) + "---:|---|",
    ]
    for name, found in attacks.items():
        cells = []
        for metric in METRICS:
            values = [row.mean(metric) for row in found.values()]
            ahead = attacks[first[metric]]
            cells += [
                _mean(values, 0.0, 1.0),
                "**first**" if name == first[metric] else _difference(ahead, found, metric),
            ]
        cpu = np.mean([row.attack_cpu for row in found.values()])
        known = [row.shared for row in found.values() if row.shared is not None]
        shared = _mean(known, 0.0, 1.0) if known else "none flagged"
        lines.append(f"| `{name}` | " + " | ".join(cells) + f" | {cpu:.2f} | {shared} |")
    never = sorted({row.attack for row in rows if row.reason})
    partly = sorted({row.attack for row in rows} - attacks.keys() - set(never))
    for said, names in (("Not applicable", never), ("Not measured on all targets", partly)):
        if names:
            lines += ["", f"{said}: " + ", ".join(f"`{name}`" for name in names) + "."]
    return [*lines, "", *_verdict(attacks, first), ""]


def _by_attack(rows: Sequence[Row]) -> Attacks:
    """Attacks that are applicable on all targets of these rows."""
    targets = {row.target for row in rows}
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row.reason:
            found.setdefault(row.attack, {})[row.target] = row
    return {name: of for name, of in found.items() if of.keys() == targets}


def first_attack(attacks: Attacks, metric: str) -> str:
    """The attack with the highest mean over targets."""
    return max(
        attacks, key=lambda name: float(np.mean([r.mean(metric) for r in attacks[name].values()]))
    )


def _verdict(attacks: Attacks, first: Mapping[str, str]) -> Iterator[str]:
    """Whether one attack is first in all, how clearly, and where it is behind another."""
    if len(set(first.values())) == 1:
        yield f"* `{first[METRICS[0]]}` is first in all three."
    else:
        which = ", ".join(f"`{name}` in {metric}" for metric, name in first.items())
        yield f"* **No single attack is first**: {which}."
    for metric, name in first.items():
        level = [
            f"`{other}` ({_on_these(attacks[name], found, metric)})"
            for other, found in attacks.items()
            if other != name and not _clear(_differences(attacks[name], found, metric))
        ]
        if level:
            yield f"* In {metric} `{name}` is not clearly ahead of {', '.join(level)}."
        behind = list(find_behind(attacks, name, metric))
        if behind:
            said = "; ".join(f"{b.target}, by `{b.attack}`: {b.difference}" for b in behind)
            yield f"* In {metric} another attack finds more than `{name}` on {said}."


def _on_these(ahead: Mapping[str, Row], found: Mapping[str, Row], metric: str) -> str:
    """On how many targets an attack is ahead, and by how much given these targets."""
    differences = _differences(ahead, found, metric)
    won = sum(each > 0 for each in differences)
    low, high = mean_of_these(
        [_by_halves(row, found[target], metric) for target, row in ahead.items()]
    )
    mean = float(np.mean(differences))
    return (
        f"ahead on {won} of {len(differences)} targets; on these alone "
        f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    )


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


def _differences(ahead: Mapping[str, Row], found: Mapping[str, Row], metric: str) -> list[float]:
    """Target by target, means over models."""
    return [ahead[target].mean(metric) - found[target].mean(metric) for target in found]


def _by_halves(ahead: Row, found: Row, metric: str) -> list[float]:
    """Half by half of one target, means over models."""
    pairs = zip(ahead.halves(metric), found.halves(metric), strict=True)
    return [one - other for one, other in pairs]


def find_behind(attacks: Attacks, first: str, metric: str) -> Iterator[Behind]:
    """The targets on which an attack is behind another, with an interval that leaves out 0."""
    for target, own in attacks[first].items():
        for name, found in attacks.items():
            differences = _by_halves(found[target], own, metric)
            if _clear(differences):
                yield Behind(target, name, _mean(differences, -1.0, 1.0, "+.3f"))


def _against_lira(rows: Sequence[Row]) -> list[str]:
    """The first attack with few shadows beside `lira` with 16: what it finds, and what it costs."""
    lira = {row.target: row for row in rows if (row.attack, row.shadows) == ("lira", 16)}
    if lira.keys() != {row.target for row in rows}:
        return []
    lines = [
        f"| shadows | first in {SHOWN} | less `lira` with 16 | its CPU seconds as a share |",
        "|---:|---|---|---|",
    ]
    for count in sorted({row.shadows for row in rows if 0 < row.shadows < 16}):
        attacks = _by_attack([row for row in rows if row.shadows == count])
        name = first_attack(attacks, SHOWN)
        found = attacks[name]
        shares = _mean([found[target].cpu / lira[target].cpu for target in lira], 0.0, 9.0)
        lines.append(f"| {count} | `{name}` | {_difference(found, lira, SHOWN)} | {shares} |")
    return [*lines, ""]


def _difference(ahead: Mapping[str, Row], found: Mapping[str, Row], metric: str) -> str:
    return _mean(_differences(ahead, found, metric), -1.0, 1.0, "+.3f")


def _mean(values: Sequence[float], smallest: float, largest: float, form: str = ".3f") -> str:
    """A mean with its 95 % t-interval."""
    mean = format(np.mean(values), form)
    if len(values) < 2:
        return f"{mean} (one target)"
    low, high = intervals.student_mean(values)
    return f"{mean} [{max(smallest, low):{form}}, {min(largest, high):{form}}]"


def _one_target(measured: Measured) -> list[str]:
    """The table of one target: a line an attack, a column a number of shadows."""
    heading, rows = measured.heading, measured.rows
    counts = sorted({row.shadows for row in rows if row.shadows})
    trained, tested = (
        _mean([float(np.mean(pair)) for pair in np.reshape(heading.accuracy[side], (-1, 2))], 0, 1)
        for side in ("members", "others")
    )
    cpu = max(row.shadow_cpu / max(row.shadows, 1) for row in rows)
    lines = [
        f"**{heading.target}**: {heading.trained}. Halves of {heading.records:,} records, "
        f"accuracy {trained} on these and {tested} on the others; {heading.reference:,} reference "
        f"records; {cpu:.2f} CPU seconds a shadow. {SHOWN}:",
        "",
        "| attack | " + " | ".join(f"{count} shadows" for count in counts) + " |",
        "|---|" + "---|" * len(counts),
    ]
    for mode in MODES:
        of = {(row.attack, row.shadows): row for row in rows if row.mode == mode}
        for name in dict.fromkeys(row.attack for row in of.values() if row.shadows):
            cells = [_cell(of.get((name, count))) for count in counts]
            lines.append(f"| `{name}`, {mode} | " + " | ".join(cells) + " |")
        loss = of.get(("threshold", 0))
        lines.append(f"| the loss alone, {mode} | {_cell(loss)} |" + " |" * (len(counts) - 1))
    return [*lines, ""]


def _cell(row: Row | None) -> str:
    if row is None:
        return "not measured yet"
    return "not applicable" if row.reason else _mean(row.halves(SHOWN), 0.0, 1.0)
