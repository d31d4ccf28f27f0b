"""Caveats of a verdict: failed controls, data sets that differ, and what an attacker must know."""

from collections.abc import Sequence

from divulge.attacks.catalog import ATTACKS_WITH_SHADOWS, CHECKPOINT_ATTACKS
from divulge.core import Check, ControlOutcome, Estimate, Verdict
from divulge.core.check_names import (
    BLIND,
    CLASSES,
    DATES,
    DIFFICULTY,
    DUPLICATES,
    PRECISION,
    RECORDS_EACH,
    TOKENS_EACH,
    VALUES,
)
from divulge.report import words
from divulge.report.evidence import Evidence
from divulge.report.schema import AttackRow, ControlRow
from divulge.report.shifts import CONFOUNDERS
from divulge.report.terms import Terms

_NOT_ONLY_MEMORY = (
    "This audit also measures the difference between its two data sets, "
    "not only what the model remembers."
)

EXPLAINED = (
    f"{_NOT_ONLY_MEMORY} How easy a record is for what never saw the model explains all "
    "that tells the two sets apart."
)
"""Attacks tell the sets apart, and given the difficulty of the records they do not."""

BY_SHADOWS = (
    f"{_NOT_ONLY_MEMORY} The model is less sure of non-members than shadow models that learned "
    "from others of them, and no surer of all candidates together."
)
"""Attacks that compare with shadow models of both sets tell the sets apart, and nothing else."""

_REASONS = {
    CLASSES: "they differ in their mix of classes",
    VALUES: "they differ in their true values",
    RECORDS_EACH: "people of one set have more records than those of the other",
    TOKENS_EACH: "texts of one set have more tokens than those of the other",
    DATES: "they are of different dates",
    PRECISION: "one of them was written with fewer digits than the other",
}
"""Why a check that warns makes every figure mean something else, as a clause."""


def control_failure(control: ControlRow) -> str:
    """A clause, without its full stop, on how an attack failed its controls."""
    blind = control.blind
    failed = blind is not None and blind.outcome is ControlOutcome.FAILED
    if blind is not None and blind.measured is not None and failed:
        return (
            "separates members from non-members even when the model's predictions are shuffled "
            f"among the records ({_auc_words(blind.measured)}): it may know the membership "
            "from elsewhere, or the two data sets may differ without the model"
        )
    if control.planted is not None and not control.sees:
        return f"missed the planted leak ({_auc_words(control.planted)})"
    if blind is not None and failed:
        return f"could not be tried on shuffled predictions{_reason_words(blind.reason)}"
    return (
        "raised a false alarm: with membership shuffled, only "
        f"{control.covered} of {control.shuffles} intervals covered chance"
    )


def _reason_words(reason: str) -> str:
    return f" ({reason.rstrip('.')})" if reason else ""


def confounding(checks: Sequence[Check]) -> str:
    """Some sentences on why every figure measures more than memory; empty if no check says so."""
    warned = {check.name: check for check in checks if check.verdict is Verdict.WARNING}
    reasons = []
    if BLIND in warned:
        auc = warned[BLIND].estimates.get("auc")
        area = "" if auc is None else f" ({_auc_words(auc)})"
        reasons.append(f"a classifier that never saw the model tells them apart{area}")
    if DUPLICATES in warned:
        reasons.append(
            "the non-members include copies of training records, so a leak looks smaller than it is"
        )
    if DIFFICULTY in warned:
        auc = warned[DIFFICULTY].estimates["auc"]
        reasons.append(f"without the model they differ in how easy they are ({_auc_words(auc)})")
    reasons += [reason for name, reason in _REASONS.items() if name in warned]
    sentences = [f"{reason[0].upper()}{reason[1:]}." for reason in reasons]
    return " ".join([_NOT_ONLY_MEMORY, *sentences]) if sentences else ""


def supposition(rows: Sequence[AttackRow], terms: Terms) -> str:
    """Some sentences on what the attacks suppose of the attacker; empty if very little."""
    done = [row for row in rows if row.attack in ATTACKS_WITH_SHADOWS and row.status == "done"]
    sentences = []
    if terms.given:
        sentences.append(
            f"The audit assumes an attacker who has {terms.given}, and nothing else of a record. "
            "One who can query the model may find more."
        )
    if terms.knows:
        sentences.append(
            f"The audit assumes an attacker who knows only {terms.knows} of each record, and its "
            "label. One who knows more may find more."
        )
    if terms.known_members:
        sentences.append(
            "The audit assumes an attacker who knows some members: "
            f"{terms.unit.count_members(terms.known_members)}, drawn at random and not scored. One "
            "who knows none may find less."
        )
    if any(row.attack in CHECKPOINT_ATTACKS and row.status == "done" for row in rows):
        sentences.append(
            "The attacks on the loss during training suppose an attacker who also has the model "
            "as it was then; one who has the trained model alone cannot carry them out."
        )
    if done and terms.shadows != "none":
        owns = (
            "holds the candidates themselves without knowing which are members"
            if terms.shadows == "online"
            else "owns other records like the candidates"
        )
        sentences.append(
            "The attacks with shadow models assume an attacker who knows how this model is "
            f"trained, and {owns}. One who knows less may find less."
        )
    return " ".join(sentences)


def _auc_words(estimate: Estimate) -> str:
    high = estimate.value if estimate.high is None else estimate.high
    return f"AUC {estimate.value:.3f}, 95 % interval {estimate.low:.3f} to {high:.3f}"


def list_warnings(
    rows: Sequence[AttackRow],
    evidence: Sequence[Evidence],
    checks: Sequence[Check],
    explained: Sequence[Evidence],
) -> list[str]:
    """Warnings beside the verdict, without what the verdict explains itself."""
    warnings = [
        f"{check.name.capitalize()}: {check.text}"
        for check in checks
        if check.verdict is Verdict.WARNING and check.name not in CONFOUNDERS
    ]
    warnings += [
        f"The figures of {item.row.label} do not count, because it "
        f"{control_failure(item.row.control)}."
        for item in evidence
        if item.row.control is not None and not item.row.sound and item not in explained
    ]
    warnings += [
        f"{item.row.label} ranks members below non-members "
        f"(AUC {words.format_auc(item.row.metrics['auc'])}): reversed, it would identify members."
        for item in evidence
        if item.backwards and item not in explained
    ]
    missing = sum(row.status == "missing" for row in rows)
    if missing:
        warnings.append(
            f"The run was interrupted: {words.format_count(missing, 'attack')} still missing."
        )
    lost = sum(row.status in ("failed", "not applicable") for row in rows)
    if lost:
        warnings.append(
            f"{lost} of {words.format_count(len(rows), 'attack')} did not run; the table of "
            "attacks says why."
        )
    return warnings
