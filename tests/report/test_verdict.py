"""The verdict: each level, who carries it, and what it must and must not say."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from divulge.core import Check, Control, Estimate, Status
from divulge.report import words
from divulge.report.schema import Conclusion, Shadows
from divulge.report.summary import summarise
from divulge.store import Entry

from . import cases

LEVELS = {
    "leaky": "leak",
    "tight": "no leak found",
    "confounded": "confounded",
    "failed": "instrument failed",
    "empty": "nothing measured",
    "label_only": "leak",
    "tiny": "no leak found",
    "constant": "no leak found",
    "many_classes": "leak",
    "claimed": "leak",
    "refuted": "leak",
    "hostile": "leak",
    "shadowed": "leak",
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
        assert ". " not in sentence


def test_a_leak_is_told_with_its_number_its_interval_and_what_guessing_reaches() -> None:
    summary = cases.summary("leaky")
    row = summary.attacks[0]
    value, low, high = words.of_hundred(row.metrics["tpr@0.01"])
    assert summary.verdict.attack == row.label
    assert summary.verdict.sentences[0] == (
        f"Someone who can query this model recognises {value} of every 100 training records "
        f"(95 % interval {low} to {high}) while wrongly accusing 1 of every 100 outsiders; "
        "guessing would recognise 1."
    )


def test_no_leak_found_says_how_large_a_leak_could_hide() -> None:
    verdict = cases.summary("tight").verdict
    row = next(row for row in cases.summary("tight").attacks if row.label == verdict.attack)
    high = words.of_hundred(row.metrics["tpr@0.01"])[2]
    assert f"up to {high} of every 100" in verdict.sentences[1]
    assert "other kinds of attack were not tried" in verdict.sentences[1]


def test_an_attack_without_low_fprs_is_told_by_its_auc() -> None:
    verdict = cases.summary("label_only").verdict
    assert verdict.metric == "auc"
    assert "tells which is which" in verdict.sentences[0]


@pytest.mark.parametrize("name", ["blind baseline", "duplicates"])
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
def test_what_shadows_suppose_of_the_attacker_is_said(shadows: Shadows, said: str) -> None:
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
    verdict = _verdict(made, [made.done("one", made.shifted(2))], cases.warned("class mix", "Odd."))
    assert verdict.level == "leak"
    assert verdict.warnings == ("Class mix: Odd.",)


@pytest.mark.parametrize(
    ("control", "said"),
    [
        (cases.BLIND, "did not find a leak planted on purpose"),
        (cases.NERVOUS, "raised a false alarm"),
        (replace(cases.SOUND, planted=None, reason="It broke."), "could not be tried"),
    ],
)
def test_a_failed_control_is_a_failed_instrument(control: Control, said: str) -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("one", made.shifted(2), control)])
    assert verdict.level == "instrument failed"
    assert said in verdict.sentences[0]
    assert verdict.warnings == ()  # the sentence has said it


def test_confounding_is_not_forgotten_when_the_instrument_failed() -> None:
    made = cases.bench()
    entries = [made.done("one", made.shifted(2), cases.BLIND)]
    verdict = _verdict(made, entries, cases.warned("blind baseline"))
    assert verdict.level == "instrument failed"
    assert verdict.confounding


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
    nothing = [made.done(f"nothing{number}", _shifted(made, 0)) for number in range(19)]
    assert hint.finding.metrics["auc"].low > 0.5
    assert _verdict(made, [hint]).level == "leak"
    assert _verdict(made, [hint, *nothing]).level == "no leak found"


def test_the_strongest_attack_has_the_highest_low_limit() -> None:
    made = cases.bench()

    def claiming(name: str, tpr: Estimate) -> Entry:
        entry = made.done(name, made.shifted(2))
        metrics = {**entry.finding.metrics, "tpr@0.01": tpr}
        return replace(entry, finding=replace(entry.finding, metrics=metrics))

    entries = [
        claiming("highest value", Estimate(0.5, 0.1, 0.9)),
        claiming("highest limit", Estimate(0.4, 0.3, 0.5)),
    ]
    assert _verdict(made, entries).attack == "highest limit"


def test_scores_that_point_the_wrong_way_are_pointed_out() -> None:
    made = cases.bench()
    verdict = _verdict(made, [made.done("flipped", -made.shifted(1))])
    assert verdict.level == "no leak found"
    assert "turned round, it would recognise members" in verdict.warnings[0]


def test_what_is_missing_or_lost_is_counted() -> None:
    warnings = " ".join(cases.summary("leaky").verdict.warnings)
    assert "1 attack still missing" in warnings
    assert "2 of 6 attacks could not be carried out" in warnings


@pytest.mark.parametrize(("size", "metric"), [(1000, "tpr@0.01"), (99, "tpr@0.1"), (9, "auc")])
def test_small_audits_decide_at_the_fpr_that_they_can_show(size: int, metric: str) -> None:
    made = cases.bench(members=size, nonmembers=size)
    assert _verdict(made, [made.done("one", made.shifted(4))]).metric == metric


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
    assert verdict.metric is None
    assert verdict.confidence is None
