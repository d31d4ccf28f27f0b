"""What tells the sets apart without the model: what a verdict makes of it."""

from collections.abc import Sequence

import numpy as np
import pytest

from divulge.core import Check, Claim, Estimate, Guarantee, Verdict
from divulge.core.check_names import ALL, OTHERS
from divulge.report.schema import Summary
from divulge.report.summary import summarise
from tests.report import cases

UNKNOWN = (Check("difficulty baseline", Verdict.NOT_APPLICABLE, "Nothing is known."),)
SHIFT = Estimate(0.6, 0.57, 0.63)


def easy(made: cases.Bench, by: float) -> np.ndarray:
    """How easy each record is, members by so many deviations easier."""
    return made.shifted(by)[None]


def judge(
    made: cases.Bench, score: np.ndarray, checks: Sequence[Check] = cases.CHECKS, **world: object
) -> Summary:
    contents = made.contents([made.done("one", score)], checks=checks, **world)  # type: ignore[arg-type]
    return summarise(contents)


def test_what_ease_explains_is_confounded_and_no_leak() -> None:
    made = cases.bench()
    ease = easy(made, 0.4)
    found = judge(made, ease[0] + 0.1 * made.rng.normal(size=2000), ease=ease)
    assert found.verdict.level == "confounded"
    assert "explains all" in found.verdict.confounding
    assert not found.exposed.lists


@pytest.mark.parametrize("name", ["difficulty baseline", "class mix"])
def test_a_leak_beyond_what_the_test_takes_off_is_one(name: str) -> None:
    made = cases.bench()
    ease = easy(made, 0.3)
    checks = cases.warned(name, auc=SHIFT)
    found = judge(made, ease[0] + 2.0 * made.member, checks, ease=ease)
    assert found.verdict.level == "leak"
    assert found.verdict.confounding
    assert not found.exposed.lists


def test_a_claim_is_not_measured_where_a_leak_stands_beside_a_shift() -> None:
    made = cases.bench()
    checks = cases.warned("difficulty baseline", auc=SHIFT)
    claim = Claim(Guarantee(0.01, 1e-6))
    found = judge(made, made.shifted(3), checks, ease=easy(made, 0.3), claim=claim)
    assert found.claim is not None
    assert found.claim.outcome == "not measured"


@pytest.mark.parametrize(("by", "level"), [(0.6, "confounded"), (2.0, "leak")])
def test_a_leak_stands_beside_a_blind_classifier_that_it_dwarfs(by: float, level: str) -> None:
    """The limit is an AUC of .76, twice as far from one half as .63."""
    made = cases.bench()
    found = judge(made, made.shifted(by), cases.warned("blind baseline", auc=SHIFT))
    assert found.verdict.level == level


def test_copies_among_the_non_members_confound_whatever_is_found() -> None:
    made = cases.bench()
    found = judge(made, made.shifted(3), cases.warned("duplicates"))
    assert found.verdict.level == "confounded"


def test_each_attack_is_shown_less_what_is_blind() -> None:
    made = cases.bench()
    score = made.shifted(2)
    checks = cases.warned("difficulty baseline", auc=SHIFT)
    (row,) = judge(made, score, checks, ease=easy(made, 0.3)).attacks
    assert row.beyond_blind is not None
    assert row.beyond_blind.value == pytest.approx(row.metrics["auc"].value - 0.6)
    assert row.beyond_blind.low < row.beyond_blind.value
    alone = judge(made, score, checks=()).attacks[0]
    assert alone.beyond_blind is None


def test_scores_that_go_with_the_ease_differ_from_it_more_narrowly() -> None:
    made = cases.bench()
    ease = easy(made, 0.3)
    checks = (*cases.CHECKS, Check("difficulty baseline", Verdict.WARNING, "", {"auc": SHIFT}))
    (alike,) = judge(made, ease[0], checks, ease=ease).attacks
    (other,) = judge(made, made.shifted(0.3), checks, ease=ease).attacks
    assert alike.beyond_blind is not None
    assert other.beyond_blind is not None
    narrow, wide = ((e.high or 0) - e.low for e in (alike.beyond_blind, other.beyond_blind))
    assert narrow < 0.7 * wide


def test_without_features_a_leak_may_be_a_shift() -> None:
    made = cases.bench()
    score = made.shifted(2)
    claim = Claim(Guarantee(0.01, 1e-6))
    found = judge(made, score, UNKNOWN, claim=claim)
    assert found.verdict.level == "leak or shift"
    assert "cannot tell" in found.verdict.sentences[1]
    assert "blind" in found.verdict.next_step
    assert found.claim is not None
    assert found.claim.outcome == "not measured"
    assert not found.exposed.lists


def test_a_random_draw_leaves_a_leak_alone() -> None:
    made = cases.bench()
    assert judge(made, made.shifted(2), UNKNOWN, randomised=True).verdict.level == "leak"


def test_without_features_nothing_found_is_still_nothing_found() -> None:
    made = cases.bench()
    assert judge(made, made.shifted(0), UNKNOWN).verdict.level == "no leak found"


@pytest.mark.parametrize(("name", "level"), [("lira", "confounded"), ("threshold", "leak")])
def test_only_comparisons_with_shadows_are_explained_by_them(name: str, level: str) -> None:
    made = cases.bench()
    surer = {OTHERS: Estimate(-0.1, -0.11, -0.09), ALL: Estimate(0.0, -0.02, 0.02)}
    checks = (*cases.CHECKS, Check("shadow models", Verdict.PASS, "", surer))
    contents = made.contents([made.done(name, made.shifted(2))], checks=checks, shadows="online")
    verdict = summarise(contents).verdict
    assert verdict.level == level
    assert ("shadow models that learned" in verdict.confounding) == (level == "confounded")
