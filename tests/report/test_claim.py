"""A claimed guarantee beside what was measured."""

from collections.abc import Sequence

import numpy as np
import pytest

from divulge.core import Check, Claim, Control, Guarantee, Membership
from divulge.metrics.epsilon import epsilon_lower_bound, largest_bound
from divulge.report.claim import judge_claim
from divulge.report.schema import ClaimRow, Summary
from divulge.report.summary import summarise

from . import cases

DELTA = 1e-5


def summary(
    made: cases.Bench,
    scores: Sequence[np.ndarray],
    epsilon: float,
    delta: float = DELTA,
    controls: Sequence[Control] = (),
    checks: Sequence[Check] = cases.CHECKS,
) -> Summary:
    controls = controls or [cases.SOUND] * len(scores)
    entries = [
        made.done(f"attack{k}", score, control)
        for k, (score, control) in enumerate(zip(scores, controls, strict=True))
    ]
    claim = Claim(Guarantee(epsilon, delta))
    return summarise(made.contents(entries, checks=checks, claim=claim))


def row(found: Summary) -> ClaimRow:
    assert found.claim is not None
    return found.claim


def test_nothing_is_said_where_nothing_is_claimed() -> None:
    assert cases.summary("leaky").claim is None
    assert "Claimed" not in cases.files("leaky")["report.html"].decode()


def test_a_memory_contradicts_a_small_epsilon() -> None:
    made = cases.bench()
    found = row(summary(made, [made.shifted(4), made.shifted(0)], epsilon=0.1))
    assert (found.outcome, found.attack) == ("contradicted", "attack0")
    assert found.bound is not None
    assert found.bound.low > 0.1
    assert found.sentence.startswith(
        "The claim of ε = 0.1 at δ = 1e-05 is false at 95 % confidence"
    )
    assert "or the training did not do what was claimed" in found.sentence


def test_a_coin_flip_contradicts_nothing_and_proves_nothing() -> None:
    made = cases.bench()
    found = row(summary(made, [made.shifted(0)], epsilon=4.0))
    assert found.outcome == "consistent"
    assert "does not contradict" in found.sentence
    assert "nor prove it" in found.sentence


@pytest.mark.parametrize(("parts", "said"), [(1.0, True), (1.01, False)])
def test_a_delta_of_one_over_the_members_is_said_to_promise_little(
    parts: float, said: bool
) -> None:
    made = cases.bench()
    members = int(made.member.sum())
    claim = row(summary(made, [made.shifted(0)], epsilon=1.0, delta=1 / (members * parts)))
    assert (f"to publish 1 record of {members:,} whole" in claim.sentence) == said


def test_a_contradiction_is_a_warning_and_a_leak() -> None:
    made = cases.bench()
    found = summary(made, [made.shifted(4)], epsilon=0.1)
    assert found.verdict.level == "leak"
    assert found.verdict.warnings[0] == row(found).sentence


def tilted(made: cases.Bench) -> np.ndarray:
    """The 44 lowest of 2,000 scores are non-members': neither an AUC nor a top shows it."""
    score = made.shifted(0)
    score[np.flatnonzero(~made.member)[:44]] -= 10.0
    return score


def test_a_contradiction_without_another_leak_carries_the_verdict() -> None:
    made = cases.bench()
    noise = [made.shifted(0) for _ in range(2)]
    found = summary(made, [tilted(made), *noise], epsilon=0.01, delta=0.0)
    before = cases.summary("tight").verdict
    assert before.level == "no leak found"
    assert found.verdict.level == "leak"
    assert found.verdict.headline == "This model leaks more than was claimed for it"
    assert found.verdict.sentences[0] == row(found).sentence
    assert (found.verdict.attack, found.verdict.statistic) == ("attack0", "epsilon")
    assert row(found).sentence not in found.verdict.warnings


def test_an_unsound_attack_contradicts_nothing() -> None:
    made = cases.bench()
    scores = [made.shifted(4), made.shifted(0)]
    found = row(summary(made, scores, 0.1, controls=[cases.BLIND, cases.SOUND]))
    assert (found.outcome, found.attack) == ("consistent", "attack1")
    alone = row(summary(made, scores[:1], 0.1, controls=[cases.NERVOUS]))
    assert (alone.outcome, alone.bound) == ("not measured", None)
    assert "no attack that passed its controls" in alone.sentence


def test_confounded_figures_contradict_nothing() -> None:
    made = cases.bench()
    checks = cases.warned("blind baseline")
    found = row(summary(made, [made.shifted(4)], 0.1, checks=checks))
    assert found.outcome == "not measured"
    assert "differ without the model" in found.sentence


def test_a_claim_that_no_leak_could_contradict_is_undecidable() -> None:
    made = cases.bench(100, 100)
    found = row(summary(made, [made.member + 0.0], 8.0))
    most = largest_bound(200, DELTA)
    assert found.outcome == "undecidable"
    assert found.bound is not None
    assert found.bound.low == found.largest == most < 8.0
    assert found.needed is not None
    assert largest_bound(found.needed, DELTA) > 8.0
    assert "cannot be decided with 200 records" in found.sentence
    assert f"About {found.needed:,} records" in found.sentence
    # a claim just below what the size can show is decided
    assert row(summary(made, [made.shifted(0)], most - 0.01)).outcome == "consistent"
    assert row(summary(made, [made.member + 0.0], most - 0.01)).outcome == "contradicted"


def test_no_number_of_records_decides_an_absurd_claim() -> None:
    made = cases.bench(100, 100)
    found = row(summary(made, [made.shifted(0)], 60.0))
    assert (found.outcome, found.needed) == ("undecidable", None)
    assert "No number of records would do" in found.sentence


def test_coins_and_known_noise_refute_more() -> None:
    made = cases.bench()
    score = made.shifted(2)
    member = made.member
    bounds = []
    for drawn, noise in (("fixed", "any"), ("coins", "any"), ("coins", "gaussian")):
        claim = Claim(Guarantee(0.1, DELTA, noise=noise))  # type: ignore[arg-type]
        found = judge_claim(
            claim,
            summary(made, [score], 0.1).attacks,
            {"attack0": score},
            Membership(member, drawn),  # type: ignore[arg-type]
            differ="",
        )
        assert found is not None
        assert found.bound is not None
        bounds.append(found.bound.low)
        assert found.bound == epsilon_lower_bound(
            score,
            member,
            DELTA,
            drawn=drawn,  # type: ignore[arg-type]
            noise=noise,  # type: ignore[arg-type]
        )
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[2]


def test_the_bound_stands_at_the_claims_own_delta() -> None:
    made = cases.bench()
    score = made.shifted(4)
    for delta in (0.0, 1e-5, 1e-3):
        bound = row(summary(made, [score], 0.1, delta)).bound
        assert bound == epsilon_lower_bound(score, made.member, delta)


def test_many_attacks_pay_for_the_choice_of_the_strongest() -> None:
    made = cases.bench()
    score = made.shifted(2)
    alone = row(summary(made, [score], 1.0)).bound
    chosen = row(summary(made, [score, *(made.shifted(0) for _ in range(9))], 1.0)).bound
    assert alone is not None
    assert chosen is not None
    assert 0 < chosen.low < alone.low
    assert chosen == epsilon_lower_bound(score, made.member, DELTA, tries=10)


@pytest.mark.slow
def test_the_best_of_ten_attacks_that_know_nothing_rarely_contradicts_a_tiny_epsilon() -> None:
    made = cases.bench(500, 500)
    rows = summary(made, [made.shifted(0)] * 10, epsilon=1e-9, delta=0.0).attacks
    claim, wrong = Claim(Guarantee(1e-9, 0.0)), 0
    for _ in range(40):
        scores = {row.label: made.shifted(0) for row in rows}
        found = judge_claim(claim, rows, scores, Membership(made.member), differ="")
        assert found is not None
        wrong += found.outcome == "contradicted"
    assert wrong <= 8  # 5 % of 40: exceeded once in a thousand


@pytest.mark.parametrize("case", ["claimed", "refuted"])
def test_the_page_and_the_comment_say_it_once(case: str) -> None:
    found = cases.summary(case).claim
    assert found is not None
    page = cases.files(case)["report.html"].decode().replace("\u202f%", " %")
    assert page.count(found.sentence) == 1
    assert cases.files(case)["summary.md"].decode().replace("&#43;", "+").count("δ = 1e-05") == 1
    assert ("This claim was not stated" in page) == (case == "claimed")
