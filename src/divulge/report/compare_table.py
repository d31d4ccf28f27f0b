"""The report of a comparison has one row a defence, the Pareto front, and tables for people."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from divulge.core import Estimate
from divulge.metrics.max_test import LEVEL
from divulge.report import words
from divulge.report.markdown import inert
from divulge.report.schema import Level, NotMeasured

SCHEMA = 1
SHOWN = ("auc", "tpr@0.01", "tpr@0.001")
"""Metrics in the table; a metric that no row has gets no column."""
PAIRED = (
    "Differences, target by target: each target of a row was trained on the same records as that "
    "of the first, so a difference may be clear where the rows' own intervals overlap."
)


@dataclass(frozen=True, slots=True)
class Strongest:
    """A metric of the attack that is best at it, on average over targets."""

    attack: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Row:
    """One defence: means over its targets, with 95 % intervals."""

    name: str
    trained_with: str
    """How its models were trained, in words."""
    accuracy: Estimate
    """Accuracy on records that a target was not trained on."""
    train_accuracy: Estimate
    strongest: Mapping[str, Strongest]
    """The strongest attack by metric, among those that passed their controls on every target."""
    aop: Mapping[str, Estimate]
    """Accuracy over privacy (AOP), by its weight λ as text."""
    epsilon: float | None
    """The ε that is guaranteed at ``delta``; None if nothing is guaranteed."""
    delta: float | None
    contradicted: int
    """Number of targets on which the measurement contradicts that guarantee."""
    seconds: float
    epochs: int | None
    left_out: Mapping[str, str]
    """Attacks that count for nothing here, each with the reason."""
    run: str
    """Folder of its audits, within the comparison's folder; empty without one."""
    level: Level
    """Level of the verdict about models that are trained in this way."""
    p_value: float | None
    """P-value of that verdict; None if nothing was measured."""
    hidden: float | None
    """The AUC of an attack up to which a leak could still hide; None if nothing was measured."""
    less: Mapping[str, Estimate] = field(default_factory=dict)
    """Differences of accuracy and metrics to the first row, target by target; empty in the first
    row. A difference that is zero by definition has an interval of zero width."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a comparison: what it says about leaks, before its table."""

    headline: str
    sentences: tuple[str, ...]
    next_step: str


@dataclass(frozen=True, slots=True)
class Told:
    """All that the report of a comparison says."""

    name: str
    created: str
    records: int
    models: int
    targets: int
    shadows: int
    rows: tuple[Row, ...]
    """One row a defence; the others are compared with the first."""
    sensitivity: str
    """A sentence on the leaks that an audit of one way to train finds with 80 % power."""
    not_measured: tuple[NotMeasured, ...]
    reproduction: Mapping[str, Any]
    set_aside: str = ""
    """A sentence on the records that were left out as copies; empty if none were."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of attacks that some row has, in order."""
        return tuple(name for name in SHOWN if any(name in row.strongest for row in self.rows))

    @property
    def lambdas(self) -> tuple[str, ...]:
        """Weights of privacy for which AOP is given."""
        return tuple(dict.fromkeys(weight for row in self.rows for weight in row.aop))


def verdict(told: Told) -> Verdict:
    """Which ways to train leak; p-values count for all ways that were looked at (Bonferroni)."""
    leaking = [row for row in told.rows if _leaks(row, len(told.rows))]
    quiet = [row for row in told.rows if row.level == "no leak found"]
    open_ = [row for row in told.rows if row not in leaking and row not in quiet]
    all_ = words.count(len(told.rows), "way")
    headline = (
        f"{len(leaking)} of {all_} to train leak their training records"
        if leaking
        else f"No leak was found in {len(quiet)} of {all_} to train"
    )
    said = []
    if leaking:
        said.append(f"Models trained in these ways leak: {_names(leaking)}.")
    if quiet:
        bounds = "; ".join(
            row.name if row.hidden is None else f"{row.name} (up to an AUC of {row.hidden:.2f})"
            for row in quiet
        )
        said.append(f"No leak was found here, though one could still hide: {bounds}.")
    said += [f"{row.name}: {_open(row, all_)}." for row in open_]
    return Verdict(
        headline,
        (*said, f"For each way to train: {told.sensitivity}"),
        "Choose a way that no other dominates, export its model (--export), and audit that model "
        "on records that played no part in the choice.",
    )


def _open(row: Row, ways: str) -> str:
    if row.level != "leak" or row.p_value is None:
        return f"the verdict is {row.level}"
    p = words.p_value(row.p_value)
    return f"a leak by itself (p = {p}), but not where {ways} were looked at"


def _leaks(row: Row, ways: int) -> bool:
    return row.level == "leak" and row.p_value is not None and row.p_value * ways <= LEVEL


def _names(rows: Sequence[Row]) -> str:
    return ", ".join(row.name for row in rows)


def front(rows: Sequence[Row], metric: str = "auc") -> tuple[str, ...]:
    """The defences that no other dominates: by values, whose intervals may overlap.

    One dominates another if it is as accurate and leaks as little by this metric, and is
    better at one of the two. Rows without the metric take no part.
    """
    found = [row for row in rows if metric in row.strongest]
    points = [(row.accuracy.value, -row.strongest[metric].estimate.value) for row in found]
    return tuple(
        row.name
        for row, point in zip(found, points, strict=True)
        if not any(_dominates(other, point) for other in points)
    )


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] >= other[0] and one[1] >= other[1]


def headings(told: Told) -> list[str]:
    """Column headings of the table, as people read them."""
    aop = [f"AOP({weight})" for weight in told.lambdas]
    rest = ["Guaranteed ε", "Seconds", "Seconds an epoch"]
    return ["Defence", "Verdict", "Accuracy", *map(words.title, told.metrics), *aop, *rest]


def cells(told: Told, row: Row) -> list[str]:
    """A row of the table."""
    attacked = [row.strongest.get(name) for name in told.metrics]
    leaks = [
        "not measurable" if found is None else words.measured(name, found.estimate)
        for name, found in zip(told.metrics, attacked, strict=True)
    ]
    aop = [
        words.auc(row.aop[weight]) if weight in row.aop else "not measurable"
        for weight in told.lambdas
    ]
    times = [_seconds(told, row), "not known" if row.epochs is None else _epoch(row, row.epochs)]
    return [
        row.name,
        _verdict(row),
        words.rate(row.accuracy),
        *leaks,
        *aop,
        _guarantee(row),
        *times,
    ]


def _verdict(row: Row) -> str:
    if row.p_value is None:
        return row.level
    return f"{row.level} (p = {words.p_value(row.p_value)})"


def differences(told: Told) -> list[list[str]]:
    """The table of differences to the first row, with headings on top; empty with one row."""
    first, *others = told.rows
    if not others:
        return []
    names = ["accuracy", *told.metrics]
    head = [f"Less {first.name}", *map(words.title, names)]
    return [head, *([row.name, *(_difference(row, name) for name in names)] for row in others)]


def _difference(row: Row, name: str) -> str:
    if name not in row.less:
        return "not measurable"
    if row.less[name].low == row.less[name].high:
        return "0, by definition: the same models and labels"
    return words.measured(name, row.less[name])


def _guarantee(row: Row) -> str:
    if row.epsilon is None:
        return "none"
    said = f"{row.epsilon:.3g} (δ = {row.delta:g})"
    return f"{said}, contradicted on {row.contradicted}" if row.contradicted else said


def _seconds(told: Told, row: Row) -> str:
    first = told.rows[0]
    times = f" ({row.seconds / first.seconds:.2g} times)" if row.name != first.name else ""
    return f"{row.seconds:.2g}{times}"


def _epoch(row: Row, epochs: int) -> str:
    return f"{row.seconds / epochs:.2g}"


def lines(told: Told) -> tuple[str, ...]:
    """The sentences above (the first one) and below the table."""
    best = front(told.rows)
    return (
        f"{words.count(len(told.rows), 'way')} to train, each with "
        f"{words.count(told.models, 'model')} on random halves of "
        f"{words.count(told.records, 'record')}, the same halves for all. Figures are means over "
        f"{words.count(told.targets, 'target')}, each attacked with {told.shadows} of the other "
        "models, which were trained and answer in the same way. Brackets are 95 % intervals over "
        f"targets, which share records and shadows. {told.set_aside}".strip(),
        f"Dominated by no other, by accuracy and AUC together: {'; '.join(best)}."
        if best
        else "No attack could be measured, so nothing is said of privacy.",
        "Each privacy figure is that of the attack that is strongest on average. Its interval "
        "allows for the choice: the intervals of all attacks hold at once (Bonferroni). A low "
        "figure says that these attacks found little, not that there is little to find.",
        "Seconds are what one model takes on one core, or on the wall where an accelerator trains, "
        "with all that comes before; those of an epoch are the same over the epochs of its recipe.",
    )


def markdown(told: Told) -> str:
    """The table in Markdown, with what it means."""
    table = _table([headings(told), *(cells(told, row) for row in told.rows)])
    paired = differences(told)
    above, *below = (inert(line) for line in lines(told))
    notes = [f"- {inert(row.name)}: {inert(note)}" for row in told.rows for note in notes_on(row)]
    further = [PAIRED, _table(paired)] if paired else []
    found = verdict(told)
    said = [f"**{inert(found.headline)}**", inert(" ".join(found.sentences))]
    said.append(f"**Next:** {inert(found.next_step)}")
    left = [f"- {inert(one.what)}: {inert(one.why)}" for one in told.not_measured]
    parts = [*said, above, table, *below, *further, *(["\n".join(notes)] if notes else [])]
    parts += ["**Not measured**", "\n".join(left)]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = [[inert(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest))


def notes_on(row: Row) -> tuple[str, ...]:
    """Notes on why attacks were left out here, one note for each reason."""
    reasons: dict[str, list[str]] = {}
    for attack, reason in row.left_out.items():
        reasons.setdefault(reason, []).append(attack)
    return tuple(f"{', '.join(attacks)} left out, {why}" for why, attacks in reasons.items())


def as_csv(told: Told) -> str:
    """One line per defence and figure: defence, figure, attack, value, low, high."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["defence", "figure", "attack", "value", "low", "high"])
    for row in told.rows:
        for figure, attack, one in _figures(row):
            writer.writerow([words.plain(row.name), figure, words.plain(attack), *one])
    return file.getvalue()


def _figures(row: Row) -> list[tuple[str, str, tuple[float | None, ...]]]:
    def limits(one: Estimate) -> tuple[float | None, ...]:
        return one.value, one.low, one.high

    found = [
        ("accuracy", "", limits(row.accuracy)),
        ("train_accuracy", "", limits(row.train_accuracy)),
        *((f"{name}_less_first", "", limits(one)) for name, one in row.less.items()),
    ]
    found += [(name, best.attack, limits(best.estimate)) for name, best in row.strongest.items()]
    found += [(f"aop({weight})", "", limits(one)) for weight, one in row.aop.items()]
    if row.epsilon is not None:
        found.append(("guaranteed_epsilon", "", (row.epsilon, None, None)))
    return [*found, ("seconds", "", (row.seconds, None, None))]


def as_json(told: Told) -> dict[str, Any]:
    """``summary.json``: all that the page says."""
    fronts = {name: list(front(told.rows, name)) for name in told.metrics}
    answer = {
        "schema": SCHEMA,
        "verdict": asdict(verdict(told)),
        **asdict(told),
        "front": fronts,
        "sentences": list(lines(told)),
    }
    plain: dict[str, Any] = words.plain_all(answer)
    return plain


def files(told: Told) -> dict[str, bytes]:
    """``summary.json``, ``summary.md`` and ``summary.csv``."""
    return {
        "summary.json": json.dumps(as_json(told), indent=1).encode() + b"\n",
        "summary.md": f"# {inert(told.name)}\n\n{markdown(told)}".encode(),
        "summary.csv": as_csv(told).encode(),
    }
