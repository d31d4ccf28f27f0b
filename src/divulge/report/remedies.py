"""A leak names what helps a model of its kind, with measured gain and cost.

The figures are those of ``python -m benchmarks remedies``; the table beside this file holds them.
What was not measured on a kind of model has no number here.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import NamedTuple

from divulge.attacks.catalog import LABEL_ATTACKS
from divulge.core import Check, Estimate
from divulge.report import words
from divulge.report.schema import AttackRow, ClaimRow, Level, Remedy

MEASURED = "remedies.csv"
"""The table of the benchmark, in this package."""
DATA = {
    "location-30": "Location-30",
    "location-2": "Location-30 in two classes",
    "digits": "handwritten digits",
    "verses": "Bible verses",
    "verses-4": "Bible verses that stood four times each",
}
"""How sets of records are called, by their name in the table."""
ANSWERS = ("top-1", "rounding")
"""Remedies that change answers, and train nothing."""
REASONS = {
    "fewer trees": "Each further tree fits what is left of single records.",
    "shallower trees": "A shallow tree cannot isolate a single record.",
    "larger leaves": "A leaf of many records says little about one of them.",
    "subsampling": "Each tree learns a part of the records. LightGBM needs subsample_freq = 1.",
    "stronger regularisation": "Smaller weights fit single records less.",
    "early stopping": "Training ends before the model memorises records.",
    "early-stopping": "Training ends before the model memorises records.",
    "a smaller network": "A small network cannot hold single records.",
    "more neighbours": "A record has a smaller share in the answer about itself.",
    "averaging": "A record changes only some of the models whose answers are averaged.",
    "relaxloss": "It keeps the training loss above a level.",
    "selena": "The model learns from models that never saw the record.",
    "dp-sgd": "The only one with a guarantee, whatever the attack; ε sets how strong it is.",
    "top-1": "An attacker then sees the label alone, which still tells something.",
    "rounding": "An attacker then sees less of the confidence, and every label.",
    "a smaller C": "A wide margin fits single records less.",
    "fewer epochs": "A text that is read less often is remembered less.",
    "larger batches": "Fewer steps follow single texts.",
    "goldfish loss": "A text of which tokens are left out is not memorised word for word.",
    "adapters": "Few weights hold little of single texts.",
    "deduplication": "A text that stands several times is learned several times.",
}
"""Why each works, by its name without settings."""
TIMES = {"early-stopping": "1", "relaxloss": "1.5", "selena": "7", "dp-sgd": "1.3 to 5"}
"""Training time an epoch, in times of an undefended model's: the table of `docs/defences`."""
UNMEASURED = {"PyTorch": ("early-stopping", "relaxloss", "selena", "dp-sgd"),
              "support vectors": ("a smaller C", "averaging")}  # fmt: skip
"""By kind, what helps such models and is no part of the table; without figures of leaks."""
LANGUAGE_MODEL = "language model"
"""The kind that has no accuracy and no labels: the probability of a token stands in its place."""
LARGE_GAP = 0.05
"""Accuracy on members less that on others from which both are named."""

_LEAST_GAIN = 0.01
"""Less of an AUC than this is next to nothing."""

MOST_SHOWN = 3
"""How many remedies are read without opening anything."""


class MeasuredRemedy(NamedTuple):
    """What one remedy did on one set of records: values before it, and paired differences."""

    kind: str
    remedy: str
    data: str
    auc: float
    auc_less: Estimate
    accuracy: float
    accuracy_less: Estimate
    times: str
    """The work of one training, in undefended ones."""

    @property
    def name(self) -> str:
        """The remedy without its settings."""
        return self.remedy.partition(" (")[0]

    @property
    def helps(self) -> bool:
        """Whether the attack was shown to find less."""
        return (self.auc_less.high or 0.0) < 0


def name_remedies(
    level: Level,
    checks: Sequence[Check],
    rows: Sequence[AttackRow],
    claim: ClaimRow | None,
    kind: str = "",
) -> tuple[Remedy, ...]:
    """What to do about a leak of a classifier or language model; nothing for other verdicts.

    Args:
        level: the level of the verdict.
        checks: the checks of the audit; they hold the model's accuracy.
        rows: every attack that was asked for.
        claim: what became of a claimed guarantee.
        kind: of model, see `divulge.targets.model_parts.ModelKind`.
    """
    accuracy = next((check.estimates for check in checks if check.name == "model accuracy"), {})
    if level != "leak" or not (accuracy or kind == LANGUAGE_MODEL):
        return ()
    remedies = []
    if claim is not None and claim.outcome == "contradicted":
        remedies.append(
            Remedy(
                "Find the error behind the claim",
                "The measured ε is above the claimed one, so noise, clipping, sampling or "
                "accounting are not what was claimed. No defence helps before that.",
                "no training",
            )
        )
    if kind == "URL":
        return (*remedies, *_of_answers(kind, rows), _LIMIT, *_by_owner())
    if kind == "table":
        return (*remedies, *_by_owner(), *_of_answers(kind, rows))
    trained = [*_of_training(kind), *_without_figures(kind)]
    if not trained:  # nobody knows how the model is trained
        return (*remedies, *_by_owner(), *_of_answers(kind, rows))
    first, *others = trained
    if accuracy and (gap := _describe_gap(accuracy)) is not None:
        first = replace(first, why=f"{gap} {first.why}")
    answers = () if kind == LANGUAGE_MODEL else _of_answers(kind, rows)
    return (*remedies, first, *others, _SEARCH, *answers)


_SEARCH = Remedy(
    "divulge harden",
    "It tries such settings on your own records, and audits the best model afresh.",
    "a budget of trainings that you set",
)
_LIMIT = Remedy(
    "a limit on questions",
    "The command divulge questions says how few questions show this leak. A limit below that, for "
    "each client, makes the attack slower and does not end it.",
    "no training; clients wait",
)


@cache
def measured_remedies() -> tuple[MeasuredRemedy, ...]:
    """The rows of the benchmark's table."""
    text = resources.files(__package__).joinpath(MEASURED).read_text("utf-8")
    return tuple(
        MeasuredRemedy(
            row["kind"],
            row["remedy"],
            row["data"],
            float(row["auc"]),
            _difference(row, "auc"),
            float(row["accuracy"]),
            _difference(row, "accuracy"),
            row["times"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def _difference(row: dict[str, str], what: str) -> Estimate:
    value, low, high = (float(row[f"{what}_less{end}"]) for end in ("", "_low", "_high"))
    return Estimate(value, low, high)


def _measured_of(kind: str) -> dict[str, list[MeasuredRemedy]]:
    """By remedy of a kind, its rows; those that were shown to help on some records."""
    measured: dict[str, list[MeasuredRemedy]] = {}
    for row in measured_remedies():
        if row.kind == kind:
            measured.setdefault(row.remedy, []).append(row)
    return {name: rows for name, rows in measured.items() if any(row.helps for row in rows)}


def _of_training(kind: str) -> list[Remedy]:
    """Remedies that train again: those that cost the least accuracy for their gain first."""
    known = [rows for rows in _measured_of(kind).values() if rows[0].name not in ANSWERS]
    guaranteed = [rows for rows in known if rows[0].name == "dp-sgd"]
    others = sorted((rows for rows in known if rows not in guaranteed), key=_price)
    return [_remedy(rows) for rows in (*others, *guaranteed)]


def _price(rows: Sequence[MeasuredRemedy]) -> tuple[bool, float]:
    """Accuracy lost for each point of AUC that an attack loses, over all records measured.

    What takes next to nothing off the attack comes last, whatever it costs.
    """
    lost = sum(-row.accuracy_less.value for row in rows)
    gain = sum(-row.auc_less.value for row in rows)
    return gain < _LEAST_GAIN * len(rows), lost / max(gain, 1e-3)


def _remedy(rows: Sequence[MeasuredRemedy]) -> Remedy:
    gain = ", ".join(
        f"{words.format_difference(row.auc_less)} from {row.auc:.2f} on {DATA[row.data]}"
        for row in rows
    )
    why = f"{REASONS[rows[0].name]} Attack AUC: {gain}."
    if rows[0].name in ANSWERS:
        return Remedy(rows[0].remedy, why, _NO_TRAINING)
    if rows[0].kind == LANGUAGE_MODEL:
        (row,) = rows
        what = "Probability of a token of other texts"
        points = f"{words.format_difference(row.accuracy_less)} from {row.accuracy:.3f}"
    else:
        what = "Accuracy on the same records"
        points = " and ".join(_points(row.accuracy_less) for row in rows)
    cost = f"{_time(rows[0].times)}. {what}: {points}"
    return Remedy(rows[0].remedy, why, cost)


_NO_TRAINING = "nothing is trained again; no label changes"


def _without_figures(kind: str) -> Iterator[Remedy]:
    """What helps a kind and was not measured on it."""
    measured = {row.name for row in measured_remedies() if row.kind == kind}
    for name in UNMEASURED.get(kind, ()):
        if name not in measured:
            cost = _time(TIMES[name]) if name in TIMES else "not measured"
            yield Remedy(name, REASONS[name], cost)


def _describe_gap(accuracy: Mapping[str, Estimate]) -> str | None:
    """A sentence on the accuracy of both groups where they differ much."""
    inside, outside = accuracy["members"], accuracy["non-members"]
    if inside.value - outside.value < LARGE_GAP:
        return None
    return (
        f"The accuracy is {words.format_rate(inside)} on members and {words.format_rate(outside)} "
        "on others."
    )


def _points(estimate: Estimate) -> str:
    high = estimate.value if estimate.high is None else estimate.high
    return f"{100 * estimate.value:+.1f} points ({100 * estimate.low:+.1f} to {100 * high:+.1f})"


def _time(times: str) -> str:
    return "no more training time" if times == "1" else f"{times} times the training time"


def _by_owner() -> Iterator[Remedy]:
    """For whoever can train the model again: of each kind what costs the least for its gain."""
    for kind in dict.fromkeys(row.kind for row in measured_remedies()):
        for best in _of_training(kind)[: kind != LANGUAGE_MODEL]:  # whose kind is always known
            yield Remedy(
                f"if its owner trains {_WITH_ARTICLE.get(kind, kind)}: {best.what}",
                best.why,
                best.cost,
            )


_WITH_ARTICLE = {
    "forest": "a forest",
    "linear model": "a linear model",
    "scikit-learn network": "a scikit-learn network",
    "PyTorch": "a PyTorch network",
}


def _of_answers(kind: str, rows: Sequence[AttackRow]) -> list[Remedy]:
    """Labels alone, and rounded answers: measured on the kind, or over all kinds."""
    remedies: list[Remedy] = []
    labels = [row for row in rows if row.attack in LABEL_ATTACKS and "auc" in row.metrics]
    for name in ANSWERS:
        every = [row for row in measured_remedies() if row.name == name]
        mine = [row for row in every if row.kind == kind]
        if mine:
            if not any(row.helps for row in mine):
                continue
            remedy = _remedy(mine)
        elif every:
            values = [row.auc_less.value for row in every]
            remedy = Remedy(
                every[0].remedy,
                f"{REASONS[name]} Attack AUC: {min(values):+.3f} to {max(values):+.3f} over "
                f"{len(every)} measured cases, a kind of model on a set of records each.",
                _NO_TRAINING,
            )
        else:
            continue
        if labels and not remedies:
            best = max(labels, key=lambda row: row.metrics["auc"].value)
            figure = f" Here {best.label} has an AUC of {words.format_auc(best.metrics['auc'])}."
            remedy = replace(remedy, why=remedy.why + figure)
        remedies.append(remedy)
    return remedies
