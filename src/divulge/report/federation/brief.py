"""The brief on a federation: who is concerned, what the server learns, how sure, what now."""

from collections.abc import Collection, Sequence

from divulge.core import Finding
from divulge.report.federation.verdicts.case import Count, Judgement, VerdictWords
from divulge.report.federation.verdicts.judge import confidence_of_each, tried_attacks
from divulge.report.parts import Brief

_NOT_TRIED = "Attacks that were not tried may find more."


def write_brief(
    case: VerdictWords,
    verdict: Judgement,
    findings: Sequence[Finding],
    unsound: Collection[int],
    concerned: str,
) -> Brief:
    """Write the brief of one audited federation.

    Args:
        case: what the attacks guessed, and the truth.
        verdict: the verdict on it.
        findings: one finding an attack.
        unsound: positions of the attacks that failed a control.
        concerned: how many clients and records were tried; sentences.
    """
    tried = tried_attacks(findings)
    sound = [k for k in tried if k not in unsound]
    count = _count(case, verdict, findings, tried, sound)
    if count is None:
        return Brief(
            number="",
            meaning=(f"Nobody can decide from this audit whether anybody learns {case.subject}.",),
            concerned=concerned,
            attacker="",
            certainty="",
            decision=_decide_without(verdict),
            dots=None,
        )
    return Brief(
        number=count.number,
        meaning=count.meaning,
        concerned=concerned,
        attacker=case.describe_attacker(),
        certainty=_describe_certainty(verdict, count, len(sound)),
        decision=(
            f"Is {count.number} few enough? If not, audit more clients or records first."
            if verdict.level == "no leak found"
            else f"{case.question} If not, {case.protect}."
        ),
        dots=count.dots,
    )


def _count(
    case: VerdictWords,
    verdict: Judgement,
    findings: Sequence[Finding],
    tried: Sequence[int],
    sound: Sequence[int],
) -> Count | None:
    """The number that decides; None where nothing is decided."""
    if verdict.level == "expected leak":
        return case.count_expected(findings, tried)
    confidence = confidence_of_each(case, sound) if sound else 0.0
    if verdict.level == "no leak found":
        return case.count_hidden(sound, confidence)
    if verdict.level != "leak":
        return None
    assert case.test is not None
    strongest = case.test.of(sound).strongest
    assert strongest is not None
    return case.count_result(*strongest, confidence)


def _describe_certainty(verdict: Judgement, count: Count, tried: int) -> str:
    if verdict.level == "expected leak":
        return (
            "Nobody gave the truth. The number is how the server does on clients that it made up. "
            "It holds if real clients train like these."
        )
    if verdict.level == "no leak found":
        attacks = f"all {tried} attacks that were" if tried > 1 else "the one attack that was"
        return (
            f"In 95 of 100 such audits the true number is no higher, for {attacks} tried. Other "
            "attacks may find more."
        )
    if not count.limited:
        return f"Chance alone does so well in at most 5 of 100 such audits. {_NOT_TRIED}"
    return f"In 95 of 100 such audits the true number lies within the limits. {_NOT_TRIED}"


def _decide_without(verdict: Judgement) -> str:
    keep = verdict.next_step.startswith("Keep")
    return verdict.next_step if keep else f"Do not rely on this audit. {verdict.next_step}"
