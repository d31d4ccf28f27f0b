"""How much more one attack finds than another, on the same candidates."""

from collections.abc import Mapping, Sequence

from divulge.core import Estimate
from divulge.metrics.difference import paired_auc, paired_tpr
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score, fewest_nonmembers
from divulge.report.parts import AttackDifference
from divulge.report.schema import AttackRow, Conclusion
from divulge.report.verdict_facts import deciding_fpr

_COMPARABLE = ("leak", "no leak found", "leak or shift")
"""Levels of verdicts in which figures of attacks can be compared."""


def subtract_attacks(
    score: Score, other: Score, member: Member, fprs: Sequence[float], pairs: int = 1
) -> dict[str, Estimate]:
    """By metric, what one attack reaches beyond another.

    Args:
        score: scores of the one.
        other: scores of the other, of the same candidates.
        member: which candidates are members.
        fprs: false-positive rates; those that have no lower limit here are left out.
        pairs: how many pairs of attacks the intervals hold for at once, at 95 % (Bonferroni).
    """
    confidence = 1 - (1 - CONFIDENCE) / pairs
    nonmembers = int((~member).sum())
    differences = {"auc": paired_auc(score, other, member, confidence)}
    for fpr in fprs:
        if nonmembers >= fewest_nonmembers(fpr, confidence):
            differences[f"tpr@{fpr:g}"] = paired_tpr(score, other, member, fpr, confidence)
    return differences


def compare_with_deciding(
    verdict: Conclusion,
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    member: Member,
) -> tuple[AttackDifference, ...]:
    """The deciding attack less each other attack that passed its controls, the nearest first.

    It was chosen among all attacks by what it reaches, so intervals hold for all pairs at once.
    """
    sound = [row.label for row in rows if row.label in scores and row.sound]
    if verdict.level not in _COMPARABLE or verdict.attack not in sound:
        return ()
    pairs = max(1, len(sound) * (len(sound) - 1) // 2)
    fpr = deciding_fpr(int((~member).sum()), pairs)
    fprs = () if fpr is None else (fpr,)
    deciding = scores[verdict.attack]
    differences = [
        AttackDifference(label, subtract_attacks(deciding, scores[label], member, fprs, pairs))
        for label in sound
        if label != verdict.attack
    ]
    return tuple(sorted(differences, key=lambda difference: difference.metrics["auc"].value))
