"""A leak names the defences that fit, with what each costs by the pages of the defences."""

from collections.abc import Sequence

from divulge.core import Check
from divulge.report import words
from divulge.report.schema import AttackRow, ClaimRow, Level, Remedy

TIMES = {"early-stopping": "1", "relaxloss": "1.5", "selena": "7", "dp-sgd": "1.3 to 5"}
"""Training time an epoch, in times of an undefended model's: the table of `docs/defences`."""

LARGE_GAP = 0.05
"""Accuracy on members less that on others from which over-fitting is named as the cause."""

_LABELS_ALONE = ("gap", "shadow-gap", "oslo", "agreement", "boundary")


def name_remedies(
    level: Level, checks: Sequence[Check], rows: Sequence[AttackRow], claim: ClaimRow | None
) -> tuple[Remedy, ...]:
    """What to do about a leak of a classifier, the cheapest first; nothing for other verdicts.

    Args:
        level: the level of the verdict.
        checks: the checks of the audit; they hold the model's accuracy.
        rows: every attack that was asked for.
        claim: what became of a claimed guarantee.
    """
    accuracy = next((check.estimates for check in checks if check.name == "model accuracy"), {})
    if level != "leak" or not accuracy:
        return ()
    found = []
    if claim is not None and claim.outcome == "contradicted":
        found.append(
            Remedy(
                "Find the error behind the claim",
                "The measured ε is above the claimed one, so noise, clipping, sampling or "
                "accounting are not what was claimed. No defence helps before that.",
                "no training",
            )
        )
    inside, outside = accuracy["members"], accuracy["non-members"]
    gap = inside.value - outside.value
    said = (
        f"The accuracy is {words.format_rate(inside)} on members and {words.format_rate(outside)} "
        "on others. "
    )
    if gap >= LARGE_GAP:
        found += [
            Remedy("early-stopping", f"{said}Stop before the gap opens.", _time("early-stopping")),
            Remedy("relaxloss", "Keep the training loss above a level.", _time("relaxloss")),
        ]
    else:
        why = f"{said}The gap is small, so what leaks is confidence. Keep the loss above a level."
        found.append(Remedy("relaxloss", why, _time("relaxloss")))
    found.append(_round_answers(rows))
    found.append(
        Remedy(
            "selena",
            "Learn from models that never saw the record. It needs enough records to split.",
            _time("selena"),
        )
    )
    private = "The only one with a guarantee, whatever the attack. It costs accuracy; ε sets how "
    found.append(Remedy("dp-sgd", f"{private}much.", _time("dp-sgd")))
    return tuple(found)


def _round_answers(rows: Sequence[AttackRow]) -> Remedy:
    labels = [row for row in rows if row.attack in _LABELS_ALONE and "auc" in row.metrics]
    why = "Hide the probabilities. No guarantee: attacks that read labels alone lose nothing"
    if labels:
        best = max(labels, key=lambda row: row.metrics["auc"].value)
        why += f" ({best.label} has an AUC of {words.format_auc(best.metrics['auc'])} here)"
    return Remedy("top-1 or rounding", f"{why}.", "no training, no accuracy")


def _time(defence: str) -> str:
    times = TIMES[defence]
    return "no more training time" if times == "1" else f"{times} times the training time"
