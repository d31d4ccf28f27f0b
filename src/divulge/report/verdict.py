"""Is there a leak, how large, and can the figures be believed?

A leak is declared if any attack that passed its controls beats chance, by its AUC or by its TPR at
the deciding FPR. Looking at k attacks and two statistics of each gives 2 k chances of a false
alarm, so each interval is taken anew at the confidence 1 - 0.05 / 2 k (Bonferroni). Of the attacks
that beat chance, the one with the highest low limit of the TPR speaks for all; if none does so by
its TPR, the one with the highest low limit of the AUC. A contradicted claim shows a leak too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divulge.core import Check, Verdict
from divulge.metrics import membership
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, Score
from divulge.report import sentences, words
from divulge.report.schema import AttackRow, ClaimRow, Conclusion, Shadows

DECIDING_FPRS = (0.01, 0.1)
"""The TPR at the first of these that the non-members can show ranks the attacks."""

STATISTICS = 2
"""Looked at for each attack: the AUC and one TPR."""

CHANCE_AUC = 0.5


def deciding_fpr(nonmembers: int) -> float | None:
    """The first of `DECIDING_FPRS` at which one false accusation fits.

    Examples:
        >>> deciding_fpr(100), deciding_fpr(99), deciding_fpr(9)
        (0.01, 0.1, None)
    """
    return next((fpr for fpr in DECIDING_FPRS if fpr * nonmembers >= 1 - 1e-9), None)


def required_confidence(attacks: int) -> float:
    """What an interval must reach before it counts, when so many attacks were tried.

    Examples:
        >>> required_confidence(10)
        0.9975
    """
    return 1 - (1 - CONFIDENCE) / (STATISTICS * attacks)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """One done attack, as the verdict sees it."""

    row: AttackRow
    tpr: str | None
    """Name of its TPR at the deciding FPR."""
    beats: tuple[str, ...]
    """Its statistics that lie above chance even at the required confidence."""
    backwards: bool
    """Its AUC lies below chance at that confidence."""

    @property
    def sound(self) -> bool:
        """No control of it failed."""
        return self.row.sound

    @property
    def strength(self) -> float:
        """The low limit of the statistic that speaks: attacks are ranked by it, not by values."""
        return self.row.metrics[self.metric].low

    @property
    def metric(self) -> str:
        """The statistic that says most about this attack in a sentence."""
        if self.tpr is None or (self.beats and self.tpr not in self.beats):
            return "auc"
        # an attack with a few distinct scores has no threshold at this FPR: its TPR says nothing
        return self.tpr if self.row.metrics[self.tpr].value > 0 else "auc"


def judge(
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    member: Member,
    checks: Sequence[Check],
    shadows: Shadows = "none",
    claim: ClaimRow | None = None,
    knows: str = "",
) -> Conclusion:
    """The verdict.

    Args:
        rows: every attack that was asked for.
        scores: those of each done attack, by its label.
        member: the truth.
        checks: those of the audit itself.
        shadows: whether there were shadow models, and what they were trained on.
        claim: what became of a claimed guarantee; to contradict one is to show a leak.
        knows: what the attacker knows of each record; empty if all.
    """
    confidence = required_confidence(max(1, len(scores)))
    evidence = [
        _weigh(row, scores[row.label], member, confidence) for row in rows if row.label in scores
    ]
    speaker = _speaker(evidence)
    confounding = sentences.confounding(checks)
    if speaker is None:
        said = sentences.nothing_measured(rows)
    else:
        said = _say(speaker, len(evidence), confounding, knows)
    metric = None if speaker is None else speaker.metric
    broken = claim.sentence if claim and claim.outcome == "contradicted" else ""
    if claim and broken and said.level != "leak":
        said, metric = sentences.broken_claim(broken), "epsilon"
        speaker = next(item for item in evidence if item.row.label == claim.attack)
    warnings = _warnings(rows, evidence, checks, speaker)
    return Conclusion(
        level=said.level,
        headline=said.headline,
        sentences=said.sentences,
        confounding=confounding,
        supposition=sentences.supposition(rows, shadows, knows),
        warnings=(*([broken] if broken and broken not in said.sentences else []), *warnings),
        attack=None if speaker is None else speaker.row.label,
        metric=metric,
        confidence=None if speaker is None else confidence,
    )


def _speaker(evidence: Sequence[_Evidence]) -> _Evidence | None:
    """The attack that carries the verdict.

    A sound attack that beats chance comes first. Failing that, an unsound one that does: it
    forbids to say that nothing was found. Failing both, a sound attack that found nothing.
    """
    sound = [item for item in evidence if item.sound]
    leaking = [item for item in sound if item.beats]
    alarming = [item for item in evidence if item.beats]
    return _strongest(leaking or alarming or sound or evidence)


def _strongest(evidence: Sequence[_Evidence]) -> _Evidence | None:
    """The best by TPR; where no TPR has anything to say, the best by AUC."""
    by_tpr = [item for item in evidence if item.metric != "auc"]
    return max(by_tpr or evidence, key=lambda item: item.strength, default=None)


def _say(speaker: _Evidence, attacks: int, confounding: str, knows: str) -> sentences.Said:
    case = sentences.Case(speaker.row, speaker.metric, attacks, bool(speaker.beats), knows)
    if not speaker.sound:
        return sentences.instrument_failed(case)
    if confounding:
        return sentences.confounded(case, confounding)
    return sentences.leak(case) if case.leaks else sentences.no_leak(case)


def _weigh(row: AttackRow, score: Score, member: Member, confidence: float) -> _Evidence:
    fpr = deciding_fpr(int((~member).sum()))
    auc = membership.auc(score, member, confidence)
    beats = ["auc"] if auc.low > CHANCE_AUC else []
    if fpr is not None and membership.tpr_at_fpr(score, member, fpr, confidence).low > fpr:
        beats.append(f"tpr@{fpr:g}")
    return _Evidence(
        row=row,
        tpr=None if fpr is None else f"tpr@{fpr:g}",
        beats=tuple(beats),
        backwards=auc.high is not None and auc.high < CHANCE_AUC,
    )


def _warnings(
    rows: Sequence[AttackRow],
    evidence: Sequence[_Evidence],
    checks: Sequence[Check],
    speaker: _Evidence | None,
) -> list[str]:
    """What a reader must know beside the verdict; what it says itself is not said twice."""
    said = [
        f"{check.name.capitalize()}: {check.text}"
        for check in checks
        if check.verdict is Verdict.WARNING and check.name not in sentences.CONFOUNDERS
    ]
    said += [
        f"The figures of {item.row.label} do not count, because it "
        f"{sentences.control_failure(item.row.control)}."
        for item in evidence
        if item.row.control is not None and not item.sound and item is not speaker
    ]
    said += [
        f"{item.row.label} ranks members below non-members "
        f"(AUC {words.auc(item.row.metrics['auc'])}): turned round, it would recognise members."
        for item in evidence
        if item.backwards
    ]
    missing = sum(row.status == "missing" for row in rows)
    if missing:
        said.append(f"The run was interrupted: {words.count(missing, 'attack')} still missing.")
    lost = sum(row.status in ("failed", "not applicable") for row in rows)
    if lost:
        said.append(
            f"{lost} of {words.count(len(rows), 'attack')} could not be carried out; "
            "the table of attacks says why."
        )
    return said
