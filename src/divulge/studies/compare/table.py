"""The report of a comparison has one row a defence, the Pareto front, and tables for people."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from divulge._util import showable
from divulge._util.json import JSON, Settings
from divulge.core import Estimate
from divulge.metrics.max_test import LEVEL
from divulge.report import sentences, words
from divulge.report.markdown import make_inert
from divulge.report.schema import Level, NotMeasured
from divulge.report.units import PERSON, RECORD, Unit

SCHEMA = 1
SHOWN_METRICS = ("auc", "tpr@0.01", "tpr@0.001")
"""Metrics in the table; a metric that no row has gets no column."""
PAIRED_NOTE = (
    "Differences, target by target: each target of a row was trained on the same records as that "
    "of the first, so a difference may be clear where the rows' own intervals overlap."
)


@dataclass(frozen=True, slots=True)
class StrongestAttack:
    """A metric of the attack that is best at it, on average over targets."""

    attack: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class DefenceRow:
    """One defence: means over its targets, with 95 % intervals."""

    name: str
    trained_with: str
    """How its models were trained, in words."""
    accuracy: Estimate
    """Accuracy on records that a target was not trained on."""
    train_accuracy: Estimate
    strongest: Mapping[str, StrongestAttack]
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
    doubt: str = ""
    """Why the inputs are doubtful, as a clause; empty if they are not."""


@dataclass(frozen=True, slots=True)
class ComparisonVerdict:
    """The verdict of a comparison: what it says about leaks, before its table."""

    headline: str
    sentences: tuple[str, ...]
    next_step: str


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """All that the report of a comparison says."""

    name: str
    created: str
    records: int
    models: int
    targets: int
    shadows: int
    rows: tuple[DefenceRow, ...]
    """One row a defence; the others are compared with the first."""
    sensitivity: str
    """A sentence on the leaks that an audit of one way to train finds with 80 % power."""
    not_measured: tuple[NotMeasured, ...]
    reproduction: Settings
    set_aside: str = ""
    """A sentence on the records that were left out as copies; empty if none were."""
    people: int | None = None
    """The number of people whose records these are; None where records are audited."""

    @property
    def unit(self) -> Unit:
        """What was drawn and counted: people, or records."""
        return RECORD if self.people is None else PERSON

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of attacks that some row has, in order."""
        return tuple(
            name for name in SHOWN_METRICS if any(name in row.strongest for row in self.rows)
        )

    @property
    def lambdas(self) -> tuple[str, ...]:
        """Weights of privacy for which AOP is given."""
        return tuple(dict.fromkeys(weight for row in self.rows for weight in row.aop))


def judge_comparison(summary: ComparisonSummary) -> ComparisonVerdict:
    """Which ways to train leak; p-values count for all ways that were looked at (Bonferroni)."""
    leaking = [row for row in summary.rows if is_leaking(row, len(summary.rows))]
    quiet = [row for row in summary.rows if row.level == "no leak found"]
    open_ = [row for row in summary.rows if row not in leaking and row not in quiet]
    all_ = words.format_count(len(summary.rows), "way")
    headline = (
        f"{len(leaking)} of {all_} to train leak {summary.unit.leaked_by_all}"
        if leaking
        else f"No leak was found in {len(quiet)} of {all_} to train"
    )
    sentences = []
    if leaking:
        sentences.append(f"Models trained in these ways leak: {_names(leaking)}.")
    if quiet:
        bounds = "; ".join(
            row.name if row.hidden is None else f"{row.name} (up to an AUC of {row.hidden:.2f})"
            for row in quiet
        )
        sentences.append(f"No leak was found here, though one could still hide: {bounds}.")
    sentences += [f"{row.name}: {describe_open_row(row, all_)}." for row in open_]
    return ComparisonVerdict(
        headline,
        (*sentences, f"For each way to train: {summary.sensitivity}"),
        f"{_choice(summary)}Choose a way that no other dominates, export its model (--export), and "
        "audit that model on records that played no part in the choice.",
    )


def _choice(summary: ComparisonSummary) -> str:
    """Ways that no other dominates and that leak less than the first, with what each costs."""
    best = pareto_front(summary.rows)
    change = words.format_difference
    choices = [
        f"{row.name}: AUC {change(row.less['auc'])}, accuracy {change(row.less['accuracy'])}, "
        f"{row.seconds / summary.rows[0].seconds:.2g} times the seconds"
        for row in summary.rows[1:]
        if row.name in best and "auc" in row.less and (row.less["auc"].high or 0.0) < 0
    ]
    return f"These leak less than {summary.rows[0].name}: {'; '.join(choices)}. " if choices else ""


def describe_open_row(row: DefenceRow, ways: str) -> str:
    """A clause on a way to train of which nothing is decided; it follows its name."""
    if row.level == "inputs doubtful":
        sentence = f"the verdict is inputs doubtful, because {row.doubt}"
        if row.doubt != sentences.BACKWARDS:
            return sentence
        return (
            f"{sentence}: this way to train overshoots, and whoever reverses the scores finds "
            "members"
        )
    if row.level != "leak" or row.p_value is None:
        return f"the verdict is {row.level}"
    p = words.format_p_value(row.p_value)
    return f"a leak by itself (p = {p}), but not where {ways} were looked at"


def is_leaking(row: DefenceRow, ways: int) -> bool:
    """Whether a way to train leaks, where so many ways were looked at."""
    return row.level == "leak" and row.p_value is not None and row.p_value * ways <= LEVEL


def _names(rows: Sequence[DefenceRow]) -> str:
    return ", ".join(row.name for row in rows)


def pareto_front(rows: Sequence[DefenceRow], metric: str = "auc") -> tuple[str, ...]:
    """The defences that no other dominates: by values, whose intervals may overlap.

    One dominates another if it is as accurate and leaks as little by this metric, and is
    better at one of the two. Rows without the metric take no part, and none whose inputs are
    doubtful: neither an AUC below chance nor one of the wrong labels is a small leak.
    """
    candidates = [row for row in rows if metric in row.strongest and row.level != "inputs doubtful"]
    points = [(row.accuracy.value, row.strongest[metric].estimate.value) for row in candidates]
    best = undominated(points)
    return tuple(row.name for row, good in zip(candidates, best, strict=True) if good)


def undominated(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which pairs of accuracy and leakage no other pair dominates.

    One dominates another if it is as accurate and leaks as little, and is better at one of the two.
    """
    return [not any(_dominates(other, point) for other in points) for point in points]


def _dominates(point: tuple[float, float], other: tuple[float, float]) -> bool:
    return point != other and point[0] >= other[0] and point[1] <= other[1]


def headings(summary: ComparisonSummary) -> list[str]:
    """Column headings of the table, as people read them."""
    aop = [f"AOP({weight})" for weight in summary.lambdas]
    rest = ["Guaranteed ε", "Seconds", "Seconds an epoch"]
    return [
        "Defence",
        "Verdict",
        "Accuracy",
        *map(words.metric_title, summary.metrics),
        *aop,
        *rest,
    ]


def cells(summary: ComparisonSummary, row: DefenceRow) -> list[str]:
    """A row of the table."""
    attacked = [row.strongest.get(name) for name in summary.metrics]
    leaks = [
        "not measurable" if strongest is None else words.format_metric(name, strongest.estimate)
        for name, strongest in zip(summary.metrics, attacked, strict=True)
    ]
    aop = [
        words.format_auc(row.aop[weight]) if weight in row.aop else "not measurable"
        for weight in summary.lambdas
    ]
    times = [
        _seconds_cell(summary, row),
        "not known" if row.epochs is None else _epoch_cell(row, row.epochs),
    ]
    return [
        row.name,
        _verdict_cell(row),
        words.format_rate(row.accuracy),
        *leaks,
        *aop,
        _guarantee_cell(row),
        *times,
    ]


def _verdict_cell(row: DefenceRow) -> str:
    if row.p_value is None:
        return row.level
    return f"{row.level} (p = {words.format_p_value(row.p_value)})"


def differences(summary: ComparisonSummary) -> list[list[str]]:
    """The table of differences to the first row, with headings on top; empty with one row."""
    first, *others = summary.rows
    if not others:
        return []
    names = ["accuracy", *summary.metrics]
    head = [f"Less {first.name}", *map(words.metric_title, names)]
    return [head, *([row.name, *(_difference_cell(row, name) for name in names)] for row in others)]


def _difference_cell(row: DefenceRow, name: str) -> str:
    if name not in row.less:
        return "not measurable"
    if row.less[name].low == row.less[name].high:
        return "0, by definition: the same models and labels"
    return words.format_metric(name, row.less[name])


def _guarantee_cell(row: DefenceRow) -> str:
    if row.epsilon is None:
        return "none"
    guarantee = f"{row.epsilon:.3g} (δ = {row.delta:g})"
    return f"{guarantee}, contradicted on {row.contradicted}" if row.contradicted else guarantee


def _seconds_cell(summary: ComparisonSummary, row: DefenceRow) -> str:
    first = summary.rows[0]
    times = f" ({row.seconds / first.seconds:.2g} times)" if row.name != first.name else ""
    return f"{row.seconds:.2g}{times}"


def _epoch_cell(row: DefenceRow, epochs: int) -> str:
    return f"{row.seconds / epochs:.2g}"


def lines(summary: ComparisonSummary) -> tuple[str, ...]:
    """The sentences above (the first one) and below the table."""
    best = pareto_front(summary.rows)
    of = "" if summary.people is None else f" of {summary.unit.count(summary.people)}"
    return (
        f"{words.format_count(len(summary.rows), 'way')} to train, each with "
        f"{words.format_count(summary.models, 'model')} on random halves of "
        f"{words.format_count(summary.records, 'record')}{of}, the same halves for all. Figures "
        f"are means over {words.format_count(summary.targets, 'target')}, each attacked with "
        f"{summary.shadows} of the other models, which were trained and answer in the same way. "
        "Brackets are 95 % intervals over targets, which share records and shadows. "
        f"{summary.set_aside}".strip(),
        f"Dominated by no other, by accuracy and AUC together: {'; '.join(best)}."
        if best
        else "No attack could be measured, so this says nothing about privacy.",
        "Each privacy figure is that of the attack that is strongest on average. Its interval "
        "allows for the choice: the intervals of all attacks hold at once (Bonferroni). A low "
        "figure says that these attacks found little, not that there is little to find.",
        "Seconds are those of one model on one core, or wall-clock time on an accelerator, with "
        "all preparation; seconds per epoch are this time divided by the epochs of its recipe.",
    )


def as_markdown(summary: ComparisonSummary) -> str:
    """The table in Markdown, with what it means."""
    table = _markdown_table([headings(summary), *(cells(summary, row) for row in summary.rows)])
    paired = differences(summary)
    above, *below = (make_inert(line) for line in lines(summary))
    notes = [
        f"- {make_inert(row.name)}: {make_inert(note)}"
        for row in summary.rows
        for note in notes_on(row)
    ]
    further = [PAIRED_NOTE, _markdown_table(paired)] if paired else []
    verdict = judge_comparison(summary)
    conclusion = [f"**{make_inert(verdict.headline)}**", make_inert(" ".join(verdict.sentences))]
    conclusion.append(f"**Next:** {make_inert(verdict.next_step)}")
    left = [f"- {make_inert(gap.what)}: {make_inert(gap.why)}" for gap in summary.not_measured]
    parts = [*conclusion, above, table, *below, *further, *(["\n".join(notes)] if notes else [])]
    parts += ["**Not measured**", "\n".join(left)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = [[make_inert(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest))


def notes_on(row: DefenceRow) -> tuple[str, ...]:
    """Notes on why attacks were left out here, one note for each reason."""
    reasons: dict[str, list[str]] = {}
    for attack, reason in row.left_out.items():
        reasons.setdefault(reason, []).append(attack)
    return tuple(f"{', '.join(attacks)} left out, {why}" for why, attacks in reasons.items())


def as_csv(summary: ComparisonSummary) -> str:
    """One line per defence and figure: defence, figure, attack, value, low, high."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["defence", "figure", "attack", "value", "low", "high"])
    for row in summary.rows:
        for figure, attack, limits in _figures(row):
            writer.writerow(
                [showable.make_showable(row.name), figure, showable.make_showable(attack), *limits]
            )
    return file.getvalue()


def _figures(row: DefenceRow) -> list[tuple[str, str, tuple[float | None, ...]]]:
    def limits(estimate: Estimate) -> tuple[float | None, ...]:
        return estimate.value, estimate.low, estimate.high

    figures = [
        ("accuracy", "", limits(row.accuracy)),
        ("train_accuracy", "", limits(row.train_accuracy)),
        *((f"{name}_less_first", "", limits(estimate)) for name, estimate in row.less.items()),
    ]
    figures += [(name, best.attack, limits(best.estimate)) for name, best in row.strongest.items()]
    figures += [(f"aop({weight})", "", limits(estimate)) for weight, estimate in row.aop.items()]
    if row.epsilon is not None:
        figures.append(("guaranteed_epsilon", "", (row.epsilon, None, None)))
    return [*figures, ("seconds", "", (row.seconds, None, None))]


def as_json(summary: ComparisonSummary) -> dict[str, JSON]:
    """``summary.json``: all that the page says."""
    fronts = {name: list(pareto_front(summary.rows, name)) for name in summary.metrics}
    answer = {
        "schema": SCHEMA,
        "verdict": asdict(judge_comparison(summary)),
        **asdict(summary),
        "front": fronts,
        "sentences": list(lines(summary)),
    }
    plain: dict[str, JSON] = showable.make_all_showable(answer)
    return plain


def summary_files(summary: ComparisonSummary) -> dict[str, bytes]:
    """``summary.json``, ``summary.md`` and ``summary.csv``."""
    return {
        "summary.json": json.dumps(as_json(summary), indent=1).encode() + b"\n",
        "summary.md": f"# {make_inert(summary.name)}\n\n{as_markdown(summary)}".encode(),
        "summary.csv": as_csv(summary).encode(),
    }
