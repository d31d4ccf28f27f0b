"""The verdict: each level, who carries it, and what it must and must not say."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from divulge.core import (
    Check,
    Claim,
    Control,
    ControlOutcome,
    Entry,
    Guarantee,
    Measurements,
    Membership,
    Status,
    Verdict,
)
from divulge.metrics import membership
from divulge.metrics.max_test import LEVEL_BELOW, join_small_strata, max_test
from divulge.metrics.measure import measure_together
from divulge.metrics.power import visible_leaks
from divulge.report import sentences, words
from divulge.report.schema import Conclusion, ShadowKind
from divulge.report.summary import summarise
from divulge.report.terms import Terms
from divulge.report.verdict import judge_models
from divulge.report.verdict_facts import deciding_fpr

from ..metrics import naive
from ..uneven_tables import LEAKY, TABLES
from . import cases

LEVELS = {
    "leaky": "leak",
    "tight": "no leak found",
    "confounded": "confounded",
    "failed": "instrument failed",
    "empty": "nothing measured",
    "label_only": "leak",
    "small": "leak",
    "tiny": "undecided",
    "constant": "no leak found",
    "many_classes": "leak",
    "claimed": "leak",
    "refuted": "leak",
    "hostile": "leak",
    "shadowed": "leak",
    "exchanged": "inputs doubtful",
}


def _verdict(
    made: cases.Bench, entries: Sequence[Entry], checks: Sequence[Check] = cases.CHECKS
) -> Conclusion:
    return summarise(made.contents(entries, checks=checks)).verdict


def _shifted(made: cases.Bench, by: float) -> np.ndarray:
    """Normal scores without sampling noise, the members' higher by so many deviations."""
    score = np.empty(len(made.member))
    for group, shift in ((made.member, by), (~made.member, 0)):
        size = group.sum()
        score[group] = stats.norm.ppf((np.arange(size) + 0.5) / size) + shift
    return score


@pytest.mark.parametrize("case", cases.CASES)
def test_each_case_has_its_level(case: str) -> None:
    assert cases.summary(case).verdict.level == LEVELS[case]


@pytest.mark.parametrize("case", cases.CASES)
def test_a_verdict_is_a_short_headline_and_two_sentences(case: str) -> None:
    verdict = cases.summary(case).verdict
    assert len(verdict.headline.split()) <= 12
    for sentence in verdict.sentences:
        assert sentence.endswith(".")
        assert ". " not in sentence or sentence == verdict.confounding


def test_a_leak_of_all_members_is_told_by_the_auc() -> None:
    made = cases.bench()
    summary = summarise(made.contents([made.done("one", made.shifted(1))]))
    value, low, high = words.per_hundred(summary.verdict.limits["auc"].estimate)
    assert summary.verdict.statistic == "auc"
    assert summary.verdict.sentences[0] == (
        "Shown one training record and one other record, the one attack tried picks the training "
        f"record {value} % of the time (95 % interval {low} to {high} %; guessing: 50 %; "
        "p = 0.0005)."
    )


def test_a_leak_of_a_few_members_is_told_by_the_top_of_the_scores() -> None:
    made = cases.bench(200, 200)
    score = _shifted(made, 0)
    score[np.flatnonzero(made.member)[90:110]] += 10  # the middle ones: the AUC rises by .05
    verdict = _verdict(made, [made.done("one", score), made.done("other", made.shifted(0))])
    assert (verdict.level, verdict.attack, verdict.statistic) == ("leak", "one", "top 5%")
    assert verdict.sentences[0] == (
        "Of the 20 records that the strongest attack ranks highest, 20 are training records "
        f"(guessing: 10; p = {words.format_p_value(verdict.p_value or 1)}, corrected for all 2 "
        "attacks); training raised the scores of at least 13 of them (95 % confidence)."
    )


def test_how_many_training_raised_is_left_out_where_the_sets_differ() -> None:
    made, score = cases.bench(200, 200), _shifted(cases.bench(200, 200), 0)
    score[np.flatnonzero(made.member)[90:110]] += 10
    unlike = Check("class mix", Verdict.WARNING, "members and non-members differ in their classes")
    for checks, said in ((cases.CHECKS, True), ((*cases.CHECKS, unlike), False)):
        verdict = _verdict(made, [made.done("one", score)], checks)
        assert verdict.level == "leak"
        assert ("training raised" in verdict.sentences[0]) == said


def test_no_leak_found_says_how_large_a_leak_could_hide() -> None:
    verdict = cases.summary("tight").verdict
    auc, tpr = verdict.limits["auc"].highest, verdict.limits["tpr@0.01"].highest
    assert auc is not None
    assert tpr is not None
    assert (
        f"picks the training record of a pair {math.ceil(100 * auc)} % of the time"
        in (verdict.sentences[1])
    )
    assert f"identifies {100 * tpr:.2g} % of the training records" in verdict.sentences[1]
    assert "attacks that were not tried may find more" in verdict.sentences[1]


def test_what_could_hide_is_the_largest_upper_limit_of_all_attacks() -> None:
    made = cases.bench()
    entries = [made.done(str(number), made.shifted(0.02 * number)) for number in range(4)]
    limits = _verdict(made, entries).limits
    for name in ("auc", "tpr@0.01", "tpr@0.1"):
        own = [entry.finding.metrics[name] for entry in entries]
        highest = limits[name].highest
        assert highest is not None
        assert all(one.high is not None and highest > one.high for one in own)
        assert limits[name].most == max(one.value for one in own)


def test_limits_hold_for_all_attacks_at_once() -> None:
    made = cases.bench()
    entry = made.done("one", made.shifted(1))
    alone = _verdict(made, [entry]).limits["auc"].estimate
    assert alone == entry.finding.metrics["auc"]
    others = [made.done(f"other{number}", made.shifted(0)) for number in range(11)]
    together = _verdict(made, [entry, *others]).limits["auc"]
    assert together.attack == "one"
    assert entry.score is not None
    scores = {row.finding.label: row.score for row in (entry, *others) if row.score is not None}
    truth = Membership(made.member, "fixed")
    assert together.estimate == measure_together(scores, truth)["one"].metrics["auc"]
    widest = membership.auc(entry.score, made.member, confidence=1 - 0.05 / 12)
    assert alone.low > together.estimate.low > widest.low
    tpr = membership.tpr_at_fpr(entry.score, made.member, 0.1, confidence=1 - 0.05 / 12)
    assert _verdict(made, [entry, *others]).limits["tpr@0.1"].estimate == tpr


def test_an_audit_that_could_miss_half_of_the_members_decides_nothing() -> None:
    made = cases.bench(6, 6)
    verdict = _verdict(made, [made.done("one", _shifted(made, 0))])
    assert verdict.level == "undecided"
    assert "Give at least" in verdict.next_step
    needed = int(verdict.next_step.split()[3])
    larger = cases.bench(needed, needed)
    assert _verdict(larger, [larger.done("one", _shifted(larger, 0))]).level == "no leak found"


def test_even_few_records_show_a_leak_that_chance_cannot_explain() -> None:
    made = cases.bench(6, 6)
    assert _verdict(made, [made.done("one", _shifted(made, 10))]).level == "leak"


@pytest.mark.parametrize("name", ["blind baseline", "duplicates", "precision", "true values"])
@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_a_confounder_comes_first_whatever_was_found(name: str, shift: float) -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("one", made.shifted(shift))], cases.warned(name))
    assert verdict.level == "confounded"
    assert verdict.sentences[0] == verdict.confounding
    assert "measures the difference between its two data sets" in verdict.confounding


@pytest.mark.parametrize(
    ("shadows", "said"), [("online", "the candidates themselves"), ("offline", "other records")]
)
def test_what_shadows_suppose_of_the_attacker_is_said(shadows: ShadowKind, said: str) -> None:
    made = cases.bench()
    entries = [made.done("lira", made.shifted(1)), made.done("gap", made.shifted(1))]
    supposed = summarise(made.contents(entries, shadows=shadows)).verdict.supposition
    assert said in supposed
    assert "knows how this model is trained" in supposed
    lost = cases.lost("lira", Status.NOT_APPLICABLE, "no")
    for others in ([entries[1], lost], [entries[1]]):
        assert not summarise(made.contents(others, shadows=shadows)).verdict.supposition


def test_other_checks_that_warn_do_not_confound_but_are_repeated() -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("one", made.shifted(2))], cases.warned("size", "Odd."))
    assert verdict.level == "leak"
    assert verdict.warnings == ("Size: Odd.",)


def test_another_mix_of_classes_alone_is_confounded_and_no_leak() -> None:
    rng = np.random.default_rng(4)
    member = rng.permutation(np.arange(1000) < 500)
    label = (rng.random(1000) < np.where(member, 0.65, 0.35)).astype(int)
    made = cases.Bench(member, label, rng)
    easier = label + rng.normal(size=1000)
    warned = cases.warned("class mix", "They differ.")
    verdict = _verdict(made, [made.done("one", easier)], warned)
    assert verdict.level == "confounded"
    assert "differ in their mix of classes" in verdict.confounding
    claimed = made.contents(
        [made.done("one", 9.0 * label)], checks=warned, claim=Claim(Guarantee(0.01, 1e-6))
    )
    found = summarise(claimed)
    assert found.verdict.level == "confounded"
    assert found.claim is not None
    assert found.claim.outcome == "not measured"
    assert found.exposed.reason
    assert not found.exposed.lists
    leak = made.contents([made.done("one", easier + 2 * member)], checks=warned)
    assert summarise(leak).verdict.level == "leak"
    assert not summarise(leak).exposed.lists  # whose rates would count the mix
    assert _verdict(made, [made.done("one", easier)]).level == "no leak found"


@pytest.mark.parametrize(
    ("control", "said"),
    [
        (cases.BLIND, "missed the planted leak"),
        (cases.NERVOUS, "raised a false alarm"),
        (cases.BROKEN, "could not be tried on shuffled predictions (It broke)"),
    ],
)
def test_a_failed_control_is_a_failed_instrument(control: Control, said: str) -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("one", made.shifted(2), control)])
    assert verdict.level == "instrument failed"
    assert said in verdict.sentences[0]
    assert verdict.warnings == ()  # the sentence has said it


def test_where_no_leak_could_be_planted_the_attack_is_not_tested_and_counts() -> None:
    made = cases.bench()
    untried = replace(cases.SOUND, planted=None, reason="It broke.")
    entry = made.done("one", made.shifted(2), untried)
    assert untried.outcome is ControlOutcome.NOT_TESTED
    assert entry.untested == "it could not be tried on a planted leak: It broke"
    assert _verdict(made, [entry]).level == "leak"
    for bad in ({"calm": False}, {"blind": replace(cases.SHUFFLED, outcome=ControlOutcome.FAILED)}):
        assert replace(untried, **bad).outcome is ControlOutcome.FAILED
    both = replace(untried, blind=cases.UNTESTED.blind)
    assert both.untested == "it could not be tried on a planted leak: It broke; 9 are too few"


def test_where_the_sets_differ_a_failed_control_is_a_warning() -> None:
    made = cases.bench()
    entries = [made.done("one", made.shifted(2), cases.BLIND)]
    verdict = _verdict(made, entries, cases.warned("blind baseline"))
    assert verdict.level == "confounded"
    assert "figures of one do not count" in verdict.warnings[0]


def test_a_sound_attack_carries_a_leak_that_an_unsound_one_shows_larger() -> None:
    made = cases.bench()
    entries = [
        made.done("sound", made.shifted(1)),
        made.done("unsound", made.shifted(4), cases.NERVOUS),
    ]
    verdict = _verdict(made, entries)
    assert (verdict.level, verdict.attack) == ("leak", "sound")
    assert "figures of unsound do not count" in verdict.warnings[0]


def test_an_unsound_alarm_forbids_to_say_that_nothing_was_found() -> None:
    made = cases.bench()
    entries = [
        made.done("sound", _shifted(made, 0)),
        made.done("unsound", made.shifted(4), cases.NERVOUS),
    ]
    verdict = _verdict(made, entries)
    assert (verdict.level, verdict.attack) == ("instrument failed", "unsound")


def test_an_unsound_silence_does_not_spoil_a_sound_one() -> None:
    made = cases.bench()
    entries = [
        made.done("sound", _shifted(made, 0)),
        made.done("unsound", _shifted(made, 0), cases.BLIND),
    ]
    verdict = _verdict(made, entries)
    assert (verdict.level, verdict.attack) == ("no leak found", "sound")
    assert "figures of unsound do not count" in verdict.warnings[0]


def test_attacks_without_controls_still_carry_a_verdict() -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("one", made.shifted(2), control=None)])
    assert verdict.level == "leak"


def test_many_attacks_need_stronger_evidence_than_one() -> None:
    made = cases.bench()
    hint = made.done("hint", _shifted(made, 0.11))
    nothing = [made.done(f"nothing{number}", made.shifted(0)) for number in range(19)]
    alone, among = _verdict(made, [hint]), _verdict(made, [hint, *nothing])
    assert alone.level == "leak"
    assert alone.p_value is not None
    assert among.p_value is not None
    assert among.p_value > alone.p_value


def test_the_deciding_attack_is_the_one_that_chance_explains_least() -> None:
    made = cases.bench()
    entries = [made.done("weak", _shifted(made, 0.3)), made.done("strong", _shifted(made, 0.5))]
    assert _verdict(made, entries).attack == "strong"


@pytest.mark.parametrize("case", cases.CASES)
def test_every_verdict_says_what_it_could_have_seen_and_what_to_do_next(case: str) -> None:
    verdict = cases.summary(case).verdict
    assert verdict.next_step.endswith(".")
    assert verdict.sensitivity.endswith(".") == (verdict.level != "nothing measured")


@pytest.mark.parametrize("name", TABLES)
def test_facts_of_a_verdict_are_those_of_its_groups(name: str) -> None:
    table = TABLES[name]
    verdict, attacks = cases.on_uneven_table(name).verdict, len(table.scores)
    strata = join_small_strata(table.label, table.scores)
    test = max_test(table.scores, table.member, strata)
    seen = visible_leaks(table.members, table.nonmembers, test.critical)
    assert verdict.tested == attacks
    assert verdict.sensitivity == sentences.sensitivity(seen, attacks)
    assert verdict.limits["auc"].most == pytest.approx(
        max(naive.auc(score, table.member) for score in table.scores)
    )
    assert (verdict.level == "leak") == (name in LEAKY)


@pytest.mark.parametrize("name", TABLES)
def test_exchanged_sets_are_never_a_leak(name: str) -> None:
    assert cases.on_table(TABLES[name].exchanged()).verdict.level != "leak"


@pytest.mark.parametrize("name", [name for name in TABLES if name not in LEAKY])
def test_where_no_leak_is_found_the_attack_with_the_highest_auc_is_named(name: str) -> None:
    table = TABLES[name]
    test = max_test(table.scores, table.member, join_small_strata(table.label, table.scores))
    assert cases.on_uneven_table(name).verdict.attack == str(test.deviation[:, 0].argmax())


def test_a_high_top_that_chance_explains_does_not_name_the_attack() -> None:
    made = cases.bench(200, 200)
    low, high = _shifted(made, -0.02), _shifted(made, 0.05)
    low[np.flatnonzero(made.member)[98:102]] += 10  # all four of the top 1 %: once in 16
    verdict = _verdict(made, [made.done("top", low), made.done("auc", high)])
    assert (verdict.level, verdict.attack) == ("no leak found", "auc")


def test_exchanged_sets_make_the_inputs_doubtful() -> None:
    made = cases.bench()
    entries = [
        made.done("idle", made.shifted(0)),
        made.done("low", -made.shifted(1)),
        made.done("lower", -made.shifted(2)),
    ]
    summary = summarise(made.contents(entries))
    verdict = summary.verdict
    assert (verdict.level, verdict.attack, verdict.warnings) == ("inputs doubtful", "lower", ())
    assert verdict.sentences[0].startswith(
        "Members and non-members look exchanged: lower ranks members below non-members, AUC 0.0"
    )
    assert "2 of 3 attacks do; p = 0.001, corrected for all 3 attacks" in verdict.sentences[0]
    assert "a defence or unlearning has pushed members below" in verdict.sentences[1]
    assert "Check what says who is a member" in verdict.next_step
    assert not summary.exposed.lists
    assert "rank members below non-members" in summary.exposed.reason


def test_models_that_divulge_trained_overshoot_in_words_of_their_own() -> None:
    made = cases.bench()
    entry = made.done("low", -made.shifted(1))
    assert entry.score is not None
    rows = summarise(made.contents([entry])).attacks
    together = {"low": Measurements(dict(entry.finding.metrics), {})}
    models = [({"low": entry.score}, made.member)]
    verdict = judge_models(rows, models, together, cases.CHECKS, Terms(trained=True))
    assert verdict.level == "inputs doubtful"
    assert "exchanged" not in " ".join([verdict.headline, *verdict.sentences, verdict.next_step])
    assert "This way to train and to answer overshoots: low" in verdict.sentences[0]
    assert "weaken the defence" in verdict.next_step


def test_a_leak_stands_beside_attacks_that_rank_members_below_others() -> None:
    made = cases.bench()
    entries = [
        made.done("shows", made.shifted(1)),
        *(made.done(f"flipped{number}", -made.shifted(2)) for number in range(3)),
    ]
    verdict = _verdict(made, entries)
    assert (verdict.level, verdict.attack) == ("leak", "shows")
    said = [line for line in verdict.warnings if "reversed, it would identify members" in line]
    assert len(said) == 3


def test_an_attack_that_failed_its_controls_makes_no_input_doubtful() -> None:
    made = cases.bench()
    entries = [
        made.done("sound", _shifted(made, 0)),
        made.done("unsound", -made.shifted(2), cases.NERVOUS),
    ]
    verdict = _verdict(made, entries)
    assert (verdict.level, verdict.attack) == ("no leak found", "sound")


def test_even_few_records_show_that_sets_look_exchanged() -> None:
    made = cases.bench(6, 6)
    assert _verdict(made, [made.done("one", -_shifted(made, 10))]).level == "inputs doubtful"


def test_where_sets_are_exchanged_no_claim_is_consistent() -> None:
    made = cases.bench()
    claim = Claim(Guarantee(1.0, 1e-5))
    held, doubted = (
        summarise(made.contents([made.done("one", made.shifted(by))], claim=claim)).claim
        for by in (0, -2)
    )
    assert held is not None
    assert doubted is not None
    assert held.outcome == "consistent"
    assert (doubted.outcome, doubted.bound) == ("not measured", None)
    assert "the inputs are doubtful" in doubted.sentence


@pytest.mark.slow
def test_inputs_are_seldom_doubted_where_nothing_leaks() -> None:
    runs = 60
    doubts = 0
    for seed in range(runs):
        made = cases.bench(100, 100, seed=seed)
        entries = [made.done(str(number), made.shifted(0)) for number in range(3)]
        doubts += _verdict(made, entries).level == "inputs doubtful"
    assert doubts <= stats.binom.isf(1e-3, runs, LEVEL_BELOW)


def test_what_is_missing_or_lost_is_counted() -> None:
    warnings = " ".join(cases.summary("leaky").verdict.warnings)
    assert "1 attack still missing" in warnings
    assert "2 of 6 attacks did not run" in warnings


def test_figures_show_the_tpr_at_an_fpr_that_has_a_lower_limit() -> None:
    assert [deciding_fpr(size) for size in (368, 367, 36, 35)] == [0.01, 0.1, 0.1, None]


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised() -> None:
    runs = 40
    alarms = 0
    for seed in range(runs):
        made = cases.bench(150, 150, seed=seed)
        entries = [made.done(str(number), made.shifted(0)) for number in range(4)]
        alarms += _verdict(made, entries).level == "leak"
    assert alarms <= stats.binom.isf(1e-3, runs, 0.05)


def test_a_run_of_nothing_but_failures_claims_nothing() -> None:
    made = cases.bench()
    verdict = _verdict(made, [cases.lost("gap", Status.FAILED, "It broke.")])
    assert verdict.level == "nothing measured"
    assert verdict.attack is None
    assert verdict.p_value is None
    assert not verdict.limits
