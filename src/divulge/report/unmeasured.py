"""A report names what an audit did not measure, so that silence does not pass for good news."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from divulge._util import showable
from divulge.attacks.catalog import ATTACKS_WITH_SHADOWS
from divulge.core import ControlOutcome, Finding
from divulge.report import words
from divulge.report.schema import AttackRow, ControlRow, NotMeasured

OTHER_RUNS = "Other training runs"
"""Name of the part of the scope that an audit of one model does not look at."""

_WHITE_BOX = (
    "White-box attacks",
    "No attack used weights, gradients or what happens inside the model. An attacker who has them "
    "can do more.",
)
_SCOPE = (
    (
        "Attacks on single chosen records",
        "Figures are averages over all candidates. A single unusual record can be far more "
        "exposed than any figure here.",
    ),
    (
        "Other secrets",
        "Only membership was attacked: no attribute inference, no reconstruction of records, no "
        "properties of the training data as a whole.",
    ),
    (
        OTHER_RUNS,
        "One model and one split: another training run may leak more or less.",
    ),
)


def not_measured(rows: Sequence[AttackRow]) -> tuple[NotMeasured, ...]:
    """List everything left out: attacks, metrics, controls, and kinds of attack never tried."""
    return (
        *unfinished_attacks(rows),
        *unmeasured_metrics(rows),
        *_missing_controls(rows),
        *_untried_kinds(rows),
    )


def up_to_notes(rows: Iterable[AttackRow | Finding], names: Collection[str]) -> tuple[str, ...]:
    """The footnote of a table in which values lack their lower limits; none if no value does.

    Args:
        rows: the rows of the table.
        names: the names of the metrics that are its columns.
    """
    reasons = dict.fromkeys(
        showable.make_showable(row.unmeasured[name])
        for row in rows
        for name in names
        if name in row.metrics and name in row.unmeasured
    )
    return tuple(f"Where a value reads “up to”, {reason}." for reason in reasons)


def unfinished_attacks(rows: Sequence[AttackRow | Finding]) -> Iterator[NotMeasured]:
    """One line for each attack that did not run to its end."""
    for row in rows:
        if row.status == "missing":
            yield NotMeasured("attack", row.label, "The run was interrupted before it had ended.")
        elif row.status != "done":
            yield NotMeasured("attack", row.label, f"{row.status.capitalize()}: {row.reason}")


def unmeasured_metrics(rows: Sequence[AttackRow | Finding]) -> Iterator[NotMeasured]:
    """One line for each metric and reason; the same reason holds for many attacks."""
    done = sum(row.status == "done" for row in rows)
    affected: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, reason in row.unmeasured.items():
            what = words.metric_title(name)
            what = f"Lower limit of {what}" if name in row.metrics else what
            affected.setdefault((what, reason), []).append(row.label)
    for (what, reason), labels in affected.items():
        of = "all attacks" if len(labels) == done > 1 else ", ".join(labels)
        yield NotMeasured("metric", what, f"{reason}. Affects {of}.")


def _missing_controls(rows: Sequence[AttackRow]) -> Iterator[NotMeasured]:
    for row in rows:
        if row.status == "done" and row.control is None:
            why = "Not run: nothing shows that this attack can detect a leak in these data."
            yield NotMeasured("control", row.label, why)
        elif row.control is not None and row.control.outcome is ControlOutcome.NOT_TESTED:
            yield from _untested_controls(row.label, row.control)


def _untested_controls(label: str, control: ControlRow) -> Iterator[NotMeasured]:
    blind = control.blind
    if control.planted is None:
        reason = f": {control.reason.rstrip('.')}" if control.reason else ""
        why = f"Not tested on a planted leak{reason}. It may miss leaks in these data."
        yield NotMeasured("control", label, why)
    if blind is None or blind.outcome is ControlOutcome.NOT_TESTED:
        reason = f": {blind.reason}" if blind and blind.reason else ""
        why = f"Not tested on shuffled predictions{reason}. It may know the truth from elsewhere."
        yield NotMeasured("control", label, why)


def _untried_kinds(rows: Sequence[AttackRow]) -> Iterator[NotMeasured]:
    if not any(row.attack in ATTACKS_WITH_SHADOWS and row.status == "done" for row in rows):
        yield NotMeasured(
            "scope",
            "Attacks with shadow models (LiRA, RMIA)",
            "They train further models for comparison and are often the strongest at low "
            "false-positive rates.",
        )
    inside = any(
        row.attack == "gradient-norm" or row.settings.get("access") == "gradients"
        for row in rows
        if row.status == "done"
    )
    for what, why in _SCOPE if inside else (_WHITE_BOX, *_SCOPE):
        yield NotMeasured("scope", what, why)
