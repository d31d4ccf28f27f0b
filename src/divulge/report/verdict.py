"""The verdict on a model says whether there is a leak, how large, and whether figures are sound.

One exact permutation test of all attacks that were done decides (`divulge.metrics.max_test`). A
leak is declared if an attack that passed its controls has a p-value of at most 5 % there, which
counts all attacks that were looked at. A contradicted claim shows a leak too. Of one model
membership is permuted within classes alone: where two sets differ in their mix of classes, whatever
depends on the class tells them apart. Where that is all that is found, the verdict is confounded.

Where no leak is declared, but an attack that passed its controls ranks members below non-members
further than chance explains (p of at most 2.5 %, corrected alike), the inputs are doubtful: the
sets look exchanged. A leak that some attack shows is never doubted for another attack that lies
below chance.

Rows, answers and labels that contradict each other make the inputs doubtful as well, and come
before all else (`divulge.report.doubts`).

Figures that the page shows with the verdict, and that a gate compares, have intervals that hold for
all attacks at once: those of AUCs by the joint distribution of the attacks, all others at the
confidence 1 - 0.05 / k for k attacks (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from divulge.core import Check, Measurements, Membership
from divulge.metrics import measure, power
from divulge.metrics.difficulty_test import Ease, max_test_given_difficulty
from divulge.metrics.max_test import (
    LEVEL,
    STATISTICS,
    MaxTest,
    Strata,
    join_small_strata,
    max_test_of_models,
)
from divulge.metrics.membership import Member, Score
from divulge.report import caveats, doubts, sentences, shifts
from divulge.report.evidence import (
    Evidence,
    choose_backwards,
    choose_deciding,
    leave_out_shadows,
    limits_by_metric,
    weigh_evidence,
)
from divulge.report.lazy_scores import LazyScores
from divulge.report.parts import DecidingRate
from divulge.report.schema import AttackRow, ClaimRow, Conclusion, Level
from divulge.report.terms import USUAL, Terms
from divulge.report.verdict_facts import COARSEST, VerdictFacts, gather_facts


def judge_model(
    rows: Sequence[AttackRow],
    scores: Mapping[str, Score],
    truth: Membership,
    checks: Sequence[Check],
    terms: Terms = USUAL,
    claim: ClaimRow | None = None,
    delta: float = 0.0,
    strata: Strata | None = None,
    ease: Ease | None = None,
) -> Conclusion:
    """Judge one model.

    Args:
        rows: every attack that was asked for.
        scores: the scores of each done attack, by its label.
        truth: which candidates are members, and how that was decided.
        checks: the checks of the audit itself.
        terms: what the words depend on besides.
        claim: what became of a claimed guarantee; to contradict one is to show a leak.
        delta: the δ of the bounds on ε.
        strata: the stratum of each candidate, such as its class: that members and non-members
            differ in their mix of strata is no leak.
        ease: how easy each candidate is for what never saw the model: what that explains is no
            leak; None if nobody knows.
    """
    together = measure.measure_together(scores, truth, delta)
    of_model = None if strata is None else [strata]
    models = [(scores, truth.member)]
    return judge_models(rows, models, together, checks, terms, claim, strata=of_model, ease=ease)


def judge_models(
    rows: Sequence[AttackRow],
    models: Sequence[tuple[Mapping[str, Score], Member]],
    together: Mapping[str, Measurements],
    checks: Sequence[Check],
    terms: Terms = USUAL,
    claim: ClaimRow | None = None,
    *,
    strata: Sequence[Strata] | None = None,
    ease: Ease | None = None,
    test: MaxTest | None = None,
) -> Conclusion:
    """Judge models that were trained alike, with independently drawn members.

    Args:
        rows: every attack that was asked for; one that failed a control on any model is unsound.
        models: for each model, the scores of the attacks done on all models, and the truth.
        together: metrics of these attacks, with intervals that hold for all of them at once.
        checks: the checks of the audits.
        terms: as for `judge_model`.
        claim: as for `judge_model`.
        strata: of each model, as for `judge_model`.
        ease: as for `judge_model`, where there is one model.
        test: of these attacks, in the order of their rows, where the models are each other's
            shadows; None tests models whose scores are independent.
    """
    done = [row for row in rows if row.label in together]
    confounding = caveats.confounding(checks)
    if not done:
        return _conclude_nothing(rows, checks, confounding)
    by_shadows = shifts.shadows_explain(checks, terms.shadows)
    alone, test = _test(done, models, strata, ease, test)
    evidence = [weigh_evidence(row, test, k) for k, row in enumerate(done)]
    if by_shadows:
        evidence = [leave_out_shadows(item) for item in evidence]
    speaker = choose_deciding(evidence)
    strongest = np.minimum(alone.p, test.p)
    apart = any(row.sound and p <= LEVEL for row, p in zip(done, strongest, strict=True))
    if apart and not speaker.leaks and (by_shadows or test is not alone):
        confounding = confounding or (caveats.BY_SHADOWS if by_shadows else caveats.EXPLAINED)
    counted = [item.row.label for item in evidence if item.row.sound] or list(together)
    limits = limits_by_metric({label: together[label] for label in counted})
    case = replace(
        gather_facts(speaker, models, together[speaker.row.label], limits, test),
        terms=terms,
        backwards=len(choose_backwards(evidence)),
        blind=shifts.find_blind(checks),
    )
    if confounding:  # not chance alone decided who is a member
        case = replace(case, raised=0)
    stands = speaker.leaks and speaker.row.sound and shifts.stands_beside(checks, limits)
    chosen = _choose_words(case, checks, speaker, "" if stands else confounding)
    if claim is not None and claim.outcome == "contradicted" and not confounding:
        chosen = _break_claim(chosen, claim, case, evidence)
    if chosen.wording.level in ("no leak found", "undecided"):
        doubt = doubts.find_weak_doubt(checks, trained=terms.trained or claim is not None)
        chosen = chosen._replace(doubt=doubt, wording=doubt.wording if doubt else chosen.wording)
    conclusion = _conclude(chosen, case, rows, checks, evidence, test)
    return replace(conclusion, confounding=confounding, limits=limits)


class _ChosenWords(NamedTuple):
    """The words of a verdict, and what they rest on."""

    wording: sentences.Wording
    speaker: Evidence
    """That of the deciding attack."""
    statistic: str
    doubt: doubts.Doubt | None
    """Why rows, answers or labels make the inputs doubtful."""
    broken: str = ""
    """The sentence of a contradicted claim."""


def _choose_words(
    case: VerdictFacts, checks: Sequence[Check], speaker: Evidence, confounding: str
) -> _ChosenWords:
    """The words for what the tests show; doubts about the inputs come before all else."""
    shows = speaker.leaks and speaker.row.sound
    doubt = doubts.find_doubt(checks, leaks=shows, trained=case.terms.trained)
    wording = doubt.wording if doubt else _choose_wording(case, confounding)
    return _ChosenWords(wording, speaker, STATISTICS[speaker.statistic], doubt)


def _break_claim(
    chosen: _ChosenWords, claim: ClaimRow, case: VerdictFacts, evidence: Sequence[Evidence]
) -> _ChosenWords:
    """The words where a claim is contradicted, which shows a leak too."""
    chosen = chosen._replace(broken=claim.sentence)
    if not claim.sentence or chosen.doubt or chosen.wording.level == "leak":
        return chosen
    return chosen._replace(
        wording=sentences.describe_broken_claim(claim.sentence, case),
        speaker=next(item for item in evidence if item.row.label == claim.attack),
        statistic="epsilon",
    )


def _conclude(
    chosen: _ChosenWords,
    case: VerdictFacts,
    rows: Sequence[AttackRow],
    checks: Sequence[Check],
    evidence: Sequence[Evidence],
    test: MaxTest,
) -> Conclusion:
    """The verdict in these words, without what confounds it, and without limits."""
    wording, speaker, statistic, doubt, broken = chosen
    backwards = wording.level == "inputs doubtful" and doubt is None
    explained = choose_backwards(evidence) if backwards else []
    if wording.level == "instrument failed":
        explained = [speaker]
    others = [check for check in checks if doubt is None or check.name != doubt.check]
    warnings = caveats.list_warnings(rows, evidence, others, explained)
    if broken and not doubt and broken not in wording.sentences:
        warnings.insert(0, broken)
    enough = None if case.enough else power.members_needed(exposed=COARSEST, attacks=len(evidence))
    sensitivity = sentences.sensitivity(case.visible, len(evidence), unit=case.terms.unit)
    next_step = sentences.next_step(wording.level, enough, case.terms)
    return Conclusion(
        level=wording.level,
        headline=wording.headline,
        sentences=wording.sentences,
        sensitivity="" if doubt else sensitivity,
        next_step=doubt.next_step if doubt else next_step,
        confounding="",
        doubt=doubt.clause if doubt else sentences.BACKWARDS if backwards else "",
        supposition=caveats.supposition(rows, case.terms),
        warnings=tuple(warnings),
        attack=speaker.row.label,
        statistic=statistic,
        p_value=None if doubt else case.p_value if backwards else test.p_value,
        tested=len(evidence),
        limits={},
        deciding_rate=_choose_rate(wording.level, statistic, case),
        critical=test.critical,
    )


def _choose_rate(level: Level, statistic: str | None, case: VerdictFacts) -> DecidingRate | None:
    """The rate that decides, at the lowest false-positive rate that the sizes support.

    Pairs are counted where they support none, and where the AUC shows the leak while the attack is
    no better than guessing at that rate. A claim that is contradicted is decided by ε instead.
    """
    if level == "no leak found":
        most = case.highest_auc if case.fpr is None else case.highest_tpr
        assert most is not None
        return DecidingRate(case.fpr, None, most)
    if level != "leak" or statistic == "epsilon":
        return None
    share, fpr = (case.auc, None) if case.tpr is None else (case.tpr, case.fpr)
    if fpr is not None and share.low <= fpr and statistic == STATISTICS[0]:
        share, fpr = case.auc, None
    return DecidingRate(fpr, share, share.value if share.high is None else share.high)


def _test(
    done: Sequence[AttackRow],
    models: Sequence[tuple[Mapping[str, Score], Member]],
    strata: Sequence[Strata] | None,
    ease: Ease | None,
    test: MaxTest | None,
) -> tuple[MaxTest, MaxTest]:
    """The test whatever makes members differ, and the one that decides; see `judge_models`."""
    chosen = [LazyScores([r.label for r in done], s.__getitem__).values() for s, _ in models]
    if strata is not None:
        strata = [join_small_strata(*each) for each in zip(strata, chosen, strict=True)]
    if ease is not None and strata is not None:
        tests = max_test_given_difficulty(np.stack([*chosen[0]]), models[0][1], strata[0], ease)
        return tests.alone, tests.given
    alone = test or max_test_of_models(chosen, [member for _, member in models], strata)
    return alone, alone


def _conclude_nothing(
    rows: Sequence[AttackRow], checks: Sequence[Check], confounding: str
) -> Conclusion:
    wording = sentences.describe_nothing_measured(rows)
    return Conclusion(
        level=wording.level,
        headline=wording.headline,
        sentences=wording.sentences,
        sensitivity="",
        next_step=sentences.next_step(wording.level),
        confounding=confounding,
        doubt="",
        supposition="",
        warnings=tuple(caveats.list_warnings(rows, [], checks, [])),
        attack=None,
        statistic=None,
        p_value=None,
        tested=0,
        limits={},
    )


def _choose_wording(case: VerdictFacts, confounding: str) -> sentences.Wording:
    if confounding:  # first: where the sets differ, sound attacks may fail their controls too
        return sentences.describe_confounded(case, confounding)
    if case.backwards:  # next: few records may show it, and where sets are exchanged all is void
        return sentences.describe_backwards(case)
    if not case.enough and not case.leaks:  # few records may make a sound attack fail its control
        return sentences.describe_undecided(case)
    if not case.row.sound:
        return sentences.describe_failed_instrument(case)
    if not case.leaks:
        return sentences.describe_no_leak(case)
    return (
        sentences.describe_leak(case)
        if case.terms.shift_excluded
        else sentences.describe_shift(case)
    )
