import dataclasses
import itertools
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from divulge.attacks.catalog import UNINFORMED
from divulge.core import Estimate, Finding, Status
from divulge.errors import SpecError
from divulge.finished_runs.gate import FailOn, Gate, GateSpec, join_gate, read_ceiling
from divulge.finished_runs.judged import NONE, Attempts, Ruling, Sample
from divulge.finished_runs.rulings import hold_against_gate, hold_claim_against_gate
from divulge.report.schema import ClaimRow, Level, Limits
from divulge.studies.harden.config import check_ceilings
from tests.metrics import naive
from tests.report import cases
from tests.uneven_tables import TABLES


def limits(
    value: float, low: float, highest: float, undecided: str = "", most: float | None = None
) -> Limits:
    estimate = Estimate(value, low, highest)
    return Limits("strong", estimate, most or value, highest, undecided)


@dataclasses.dataclass(frozen=True)
class Verdict:
    level: Level = "no leak found"
    headline: str = "Headline"
    next_step: str = "Do this next."
    sentences: tuple[str, ...] = ()
    attack: str | None = None


LIMITS = {
    "auc": limits(0.7, 0.65, 0.75),
    "tpr@0.01": limits(0.06, 0.0, 0.9, "200 non-members: give 368"),
}


FIGURES = "highest value 0.7; lower limit 0.65 (strong), upper limit 0.75"


def ruled(gate: Gate, level: Level = "no leak found") -> Ruling:
    return hold_against_gate(gate, Verdict(level), LIMITS)


LEVELS: tuple[Level, ...] = get_args(Level)


def test_the_lower_limit_of_the_strongest_attack_decides() -> None:
    assert ruled(Gate(fail_above={"auc": 0.65})).passes
    ruling = ruled(Gate(fail_above={"auc": 0.6}))
    assert ruling == Ruling(failed=(f"auc: lower limit 0.65 exceeds 0.6 ({FIGURES})",))


def test_a_gate_that_passes_says_what_was_compared() -> None:
    ruling = ruled(Gate(fail_above={"auc": 0.66}))
    assert ruling.passed == (f"auc: lower limit 0.65 does not exceed 0.66 ({FIGURES})",)


def agreed(ceiling: float, name: str = "auc", attempts: Attempts = NONE) -> Ruling:
    gate = Gate(ceiling={name: ceiling})
    return hold_against_gate(gate, Verdict(), LIMITS, attempts=attempts)


def test_an_agreed_ceiling_passes_by_the_upper_limit_and_fails_by_the_lower_one() -> None:
    assert agreed(0.75) == Ruling(
        passed=(f"auc is at most 0.75, under the agreed ceiling 0.75 ({FIGURES})",)
    )
    assert agreed(0.6) == Ruling(
        failed=(f"auc is at least 0.65, over the agreed ceiling 0.6 ({FIGURES})",)
    )
    for ceiling in (0.65, 0.7, 0.74):
        assert agreed(ceiling).undecided, ceiling


def test_an_undecided_ceiling_says_how_many_records_would_decide() -> None:
    (sentence,) = agreed(0.72, attempts=Attempts(Sample(1000, "people"))).undecided
    # ((0.05 x (1 + 0.84 / 1.96)) / 0.02)^2 = 12.8 times as many
    assert sentence == (
        f"auc is not shown to be under the agreed ceiling 0.72, nor over it ({FIGURES}): about "
        "13,000 people would decide in four of five audits, if the value is right (this audit has "
        "1,000)"
    )
    (sentence,) = agreed(0.7, attempts=Attempts(Sample(1000, "people"))).undecided
    assert "no number of people is sure to decide" in sentence
    (sentence,) = agreed(0.05, "tpr@0.01").undecided
    assert sentence.endswith(": 200 non-members: give 368")


def finding(label: str, status: Status, auc: Estimate | None) -> Finding:
    return Finding(label, "threshold", "", {}, status, {} if auc is None else {"auc": auc})


@pytest.mark.parametrize(
    ("status", "auc", "counts", "why"),
    [
        (Status.DONE, Estimate(0.7, 0.6, 0.74), False, ""),
        (Status.DONE, Estimate(0.7, 0.6, 0.75), False, ""),
        (Status.DONE, Estimate(0.7, 0.6, 0.76), False, "b failed a control, and may be over"),
        (Status.DONE, Estimate(0.7, 0.6, None), False, "b failed a control, and may be over"),
        (Status.DONE, None, False, "b failed a control, and may be over"),
        (Status.DONE, None, True, "auc of b was not measured"),
        (Status.FAILED, None, False, "b ended with an error"),
        (Status.NOT_APPLICABLE, None, False, ""),
    ],
)
def test_an_attack_that_is_lost_lets_no_ceiling_pass(
    status: Status, auc: Estimate | None, counts: bool, why: str
) -> None:
    one = finding("b", status, auc)
    figures = {"b": one.metrics} if counts else {}
    ruling = agreed(0.75, attempts=Attempts(None, [one], figures))
    assert ruling.passes == (not why)
    assert why in "".join(ruling.undecided)
    assert agreed(0.6, attempts=Attempts(None, [one], figures)).failed


def test_an_attack_that_looks_at_nothing_keeps_no_ceiling_from_passing() -> None:
    one = dataclasses.replace(finding("b", Status.DONE, None), attack=next(iter(UNINFORMED)))
    assert agreed(0.75, attempts=Attempts(None, [one], {})).passes
    method = dataclasses.replace(one, attack="decaf", settings={"method": one.attack})
    assert agreed(0.75, attempts=Attempts(None, [method], {})).passes


def test_records_that_a_rate_needs_are_named_only_where_the_value_is_over_the_ceiling() -> None:
    few = {"auc": limits(0.7, 0.65, 0.75, "200 non-members: give 368")}
    for ceiling, says in ((0.69, "give 368"), (0.72, "about 13,000 people would decide")):
        ruling = hold_against_gate(
            Gate(ceiling={"auc": ceiling}), Verdict(), few,
            attempts=Attempts(Sample(1000, "people")),
        )  # fmt: skip
        assert says in ruling.undecided[0]


def test_a_value_at_its_limit_passes_and_an_upper_limit_at_it_is_enough() -> None:
    few = {"auc": limits(0.7, 0.65, 0.75, "200 non-members: give 368")}
    for judge, at in (("low", 0.65), ("value", 0.7)):
        assert ruled(Gate(fail_above={"auc": at}, judge=judge)).passes
        assert ruled(Gate(fail_above={"auc": at - 1e-9}, judge=judge)).failed
    assert hold_against_gate(Gate(fail_above={"auc": 0.75}), Verdict(), few).passes
    assert hold_against_gate(Gate(fail_above={"auc": 0.75 - 1e-9}), Verdict(), few).undecided


def test_a_difference_of_the_sets_beside_a_leak_lets_no_ceiling_be_compared() -> None:
    found = dataclasses.replace(cases.summary("leaky").verdict, confounding="They differ.")
    for gate in (Gate(fail_above={"auc": 1.0}), Gate(ceiling={"auc": 1.0})):
        (sentence,) = hold_against_gate(gate, found, LIMITS).undecided
        assert "auc cannot be compared with 1, since the two sets differ. " in sentence


def test_a_ceiling_of_what_has_no_upper_limit_is_refused() -> None:
    with pytest.raises(SpecError, match=r"'epsilon', .* use --fail-above epsilon=3"):
        Gate(ceiling={"epsilon": 3.0})
    with pytest.raises(SpecError, match="bounds from below alone"):
        Gate(ceiling={"epsilon": 3.0}, about="canaries")


def test_the_highest_value_of_all_attacks_can_decide_instead() -> None:
    found = {"auc": limits(0.7, 0.65, 0.75, most=0.8)}
    assert hold_against_gate(Gate(fail_above={"auc": 0.75}), Verdict(), found).passes
    assert hold_against_gate(Gate(fail_above={"auc": 0.75}, judge="value"), Verdict(), found).failed


def test_what_was_not_measured_cannot_pass() -> None:
    (sentence,) = ruled(Gate(fail_above={"epsilon": 8.0})).undecided
    assert "measured by no attack" in sentence


def test_a_metric_without_a_lower_limit_passes_only_below_its_upper_limit() -> None:
    ruling = ruled(Gate(fail_above={"tpr@0.01": 0.05}))
    assert ruling.undecided == ("tpr@0.01 cannot be compared with 0.05: 200 non-members: give 368",)
    assert ruled(Gate(fail_above={"tpr@0.01": 0.95})).passes


@pytest.mark.parametrize(("most", "passes"), [(8.0, False), (8.1, True)])
def test_an_epsilon_that_no_attack_could_exceed_does_not_pass(most: float, passes: bool) -> None:
    found = {"epsilon": dataclasses.replace(limits(0.0, 0.0, 1.0), highest=None)}
    reached = Attempts(reach=most)
    ruling = hold_against_gate(
        Gate(fail_above={"epsilon": 8.0}), Verdict(), found, attempts=reached
    )
    assert ruling.passes == passes
    assert passes or "no more than 8 with so many records" in ruling.undecided[0]


@pytest.mark.parametrize("level", LEVELS)
def test_only_no_leak_found_passes_a_gate_on_leaks(level: Level) -> None:
    ruling = ruled(Gate(("leak",)), level)
    assert ruling.passes == (level == "no leak found")
    assert bool(ruling.failed) == (level == "leak")
    if ruling.undecided:
        assert "Do this next." in ruling.undecided[0]


@pytest.mark.parametrize(
    ("word", "levels"),
    [
        ("leak", {"leak"}),
        ("confounded", {"confounded"}),
        ("control-failed", {"instrument failed"}),
        ("undecided", {"undecided", "nothing measured", "expected leak"}),
    ],
)
def test_each_word_fails_on_its_verdict(word: str, levels: set[str]) -> None:
    failed = {level for level in LEVELS if ruled(Gate((word,)), level).failed}
    assert failed == levels


@pytest.mark.parametrize("level", LEVELS)
def test_untested_controls_fail_by_a_word_of_their_own_alone(level: Level) -> None:
    untested = {"raifle": "6 clients are too few for this control"}
    asked = hold_against_gate(Gate(("control-untested",)), Verdict(level), LIMITS, untested)
    (sentence,) = asked.failed
    assert "raifle could not be run" in sentence
    assert "6 clients are too few" in sentence
    tested = hold_against_gate(Gate(("control-untested",)), Verdict(level), LIMITS)
    assert tested.passes == (level != "inputs doubtful")
    other = hold_against_gate(Gate(("control-failed",)), Verdict(level), LIMITS, untested)
    assert bool(other.failed) == (level == "instrument failed")
    assert all("controls not tested of raifle" in said for said in other.passed)


@pytest.mark.parametrize("word", get_args(FailOn))
def test_doubtful_inputs_leave_every_gate_undecided(word: str) -> None:
    above = [Gate(fail_above={"auc": value}) for value in (0.99, 0.1)]
    for gate in (Gate((word,)), *above, Gate(ceiling={"auc": 1.0})):
        ruling = ruled(gate, "inputs doubtful")
        assert ruling == Ruling(undecided=("Headline. Do this next.",))


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"did you mean 'tpr@0\.01'"):
        Gate(fail_above={"tpr@.01": 0.05})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("tpr@1%", "tpr@0.01"),
        ("tpr@1", "tpr@0.01"),
        ("tpr@10%", "tpr@0.1"),
        ("tpr@0.10", "tpr@0.1"),
        ("tpr@0.010", "tpr@0.01"),
    ],
)
def test_a_percentage_is_understood(given: str, meant: str) -> None:
    with pytest.raises(SpecError, match=f"did you mean '{meant}'"):
        Gate(fail_above={given: 0.05})


@pytest.mark.parametrize(
    ("name", "ceiling"), [("auc", 0.5), ("auc", 0.4), ("tpr@0.01", 0.01), ("advantage", 0.0)]
)
def test_a_ceiling_that_guessing_reaches_is_refused_but_may_be_proven_exceeded(
    name: str, ceiling: float
) -> None:
    for make in (lambda: Gate(ceiling={name: ceiling}), lambda: check_ceilings({name: ceiling})):
        with pytest.raises(SpecError, match="which guessing reaches, got"):
            make()
    assert Gate(fail_above={name: ceiling}).ceilings == ((name, ceiling),)


@pytest.mark.parametrize("ceiling", [math.nan, math.inf, -math.inf, -0.1, 1.1])
def test_a_ceiling_out_of_range_is_refused(ceiling: float) -> None:
    with pytest.raises(SpecError, match="expected a ceiling of auc from 0 to 1"):
        Gate(fail_above={"auc": ceiling})


def test_epsilon_has_no_highest_ceiling() -> None:
    assert Gate(fail_above={"epsilon": 8.0}).ceilings == (("epsilon", 8.0),)
    with pytest.raises(SpecError, match="of 0 or more"):
        Gate(fail_above={"epsilon": math.inf})


@pytest.mark.parametrize("text", ["auc", "auc=", "=0.5", "auc=nan", "auc=inf", "auc=0_1", "auc=½"])
def test_a_ceiling_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="METRIC=CEILING"):
        read_ceiling(text)


def test_an_unknown_verdict_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'leak'"):
        Gate(("leek",))


CLAIM = ClaimRow(
    1.0, 1e-5, "", False, "contradicted", Estimate(2.0, 1.5, None), "a", 4.0, None, "It is false."
)


@pytest.mark.parametrize(
    ("claim", "ruling"),
    [
        (CLAIM, Ruling(failed=("It is false.",))),
        (
            dataclasses.replace(CLAIM, outcome="not measured"),
            Ruling(undecided=("It is false.",)),
        ),
        (dataclasses.replace(CLAIM, outcome="consistent"), Ruling(passed=("It is false.",))),
    ],
)
def test_a_claim_passes_only_where_it_is_consistent(claim: ClaimRow, ruling: Ruling) -> None:
    assert hold_claim_against_gate(claim) == ruling


def test_without_a_claim_none_can_hold() -> None:
    assert "no ε is claimed" in hold_claim_against_gate(None).undecided[0]


@pytest.mark.parametrize(
    "level", ["instrument failed", "confounded", "leak or shift", "nothing measured"]
)
def test_figures_that_nobody_can_believe_pass_no_ceiling(level: Level) -> None:
    (sentence,) = ruled(Gate(fail_above={"auc": 1.0}), level).undecided
    assert level in sentence
    assert ruled(Gate(ceiling={"auc": 1.0}), level).undecided == (sentence,)
    assert ruled(Gate(), level).passes  # nothing was asked


def test_too_few_records_pass_a_ceiling_only_below_their_upper_limit() -> None:
    gate = Gate(fail_above={"auc": 0.7})
    assert ruled(gate).passes
    (sentence,) = ruled(gate, "undecided").undecided
    assert sentence == "auc cannot be compared with 0.7: Do this next."
    assert ruled(Gate(fail_above={"auc": 0.76}), "undecided").passes
    assert ruled(Gate(fail_above={"auc": 0.6}), "undecided").failed


def test_a_rate_without_its_number_is_asked_for() -> None:
    with pytest.raises(SpecError, match=r"at which rate: tpr@0\.001, tpr@0\.01, tpr@0\.1\?"):
        Gate(fail_above={"tpr": 0.1})


CEILINGS = st.tuples(
    st.sampled_from(["auc", "tpr@0.01", "epsilon"]), st.sampled_from([0.05, 0.6, 0.66, 0.72, 0.95])
)
CONDITIONS = st.lists(CEILINGS | st.sampled_from(get_args(FailOn)), max_size=8)


def join(conditions: list[tuple[str, float] | str], split: int, judges: tuple[str, str]) -> Gate:
    """The conditions up to one in the settings, as far as these hold them, the others besides."""
    settings, command = conditions[:split], conditions[split:]
    spec = GateSpec.model_validate(
        {
            "fail_on": [one for one in settings if isinstance(one, str)],
            "fail_above": dict(one for one in settings if not isinstance(one, str)),
            "judge": judges[0],
        }
    )
    kept = spec.fail_above.items()
    lost = [one for one in settings if not isinstance(one, str) and one not in kept]
    ceilings = [*lost, *(one for one in command if not isinstance(one, str))]
    words = [one for one in command if isinstance(one, str)]
    return join_gate(spec, "membership", words, ceilings, judges[1])


def worst(rulings: list[Ruling]) -> tuple[bool, bool]:
    failed = any(one.failed for one in rulings)
    return failed, not failed and any(one.undecided for one in rulings)


@given(
    st.data(),
    CONDITIONS,
    st.sampled_from([("low", "low"), ("value", "low"), ("low", "value")]),
    st.sampled_from(LEVELS),
)
def test_the_order_and_place_of_conditions_change_nothing(
    data: st.DataObject,
    conditions: list[tuple[str, float] | str],
    judges: tuple[str, str],
    level: Level,
) -> None:
    gate = join(conditions, 0, judges)
    ruling = ruled(gate, level)
    other = data.draw(st.permutations(conditions))
    split = data.draw(st.integers(0, len(conditions)))
    for order in (judges, judges[::-1]):
        assert ruled(join(other, split, order), level) == ruling
    judge = "value" if "value" in judges else "low"
    alone = [
        ruled(
            Gate((one,), judge=judge)
            if isinstance(one, str)
            else Gate(fail_above=(one,), judge=judge),
            level,
        )
        for one in conditions
    ]
    assert worst([ruling]) == worst(alone)
    assert worst([ruled(one, level) for one in gate.parts.values()]) == worst(alone)
    assert len(gate.parts) == len(set(conditions))


@given(CONDITIONS, CEILINGS, st.sampled_from(LEVELS))
def test_a_further_ceiling_lets_nothing_more_pass(
    conditions: list[tuple[str, float] | str], further: tuple[str, float], level: Level
) -> None:
    before = ruled(join(conditions, 0, ("low", "low")), level)
    after = ruled(join([*conditions, further], 0, ("low", "low")), level)
    assert set(after.failed) >= set(before.failed)
    assert not after.passes or before.passes


def test_each_of_several_ceilings_is_judged_by_name() -> None:
    gate = Gate(fail_above=(("auc", 0.9), ("auc", 0.6)))
    ruling = ruled(gate)
    assert len(ruling.failed) == len(ruling.passed) == 1
    assert [*gate.parts] == ["fail-above auc=0.6", "fail-above auc=0.9"]


@pytest.mark.parametrize("judge", ["low", "value"])
@pytest.mark.parametrize("name", TABLES)
def test_each_of_two_ceilings_is_held_against_its_own_figure(name: str, judge: str) -> None:
    """In verdicts on all tables of odd shape: below what is compared, and at the upper limit."""
    audit, table = cases.on_uneven_table(name), TABLES[name]
    found = audit.limits
    assert found["auc"].most == pytest.approx(max(naive.auc(s, table.member) for s in table.scores))
    two = [one for one in ("auc", "advantage") if one in found and not found[one].undecided]
    for missing in {"auc", "advantage"} - {*two}:  # of groups that are too small for it
        assert audit.gate(fail_above={missing: 0.5}).undecided
    compared = {one: found[one].estimate.low if judge == "low" else found[one].most for one in two}
    for exceeded in itertools.product([False, True], repeat=len(two)):
        ceilings = {
            one: compared[one] - 1e-9 if over else found[one].highest or 1.0
            for one, over in zip(two, exceeded, strict=True)
        }
        if min(ceilings.values(), default=0) < 0:
            continue  # nothing is below a limit of 0
        ruling = audit.gate(fail_above=ceilings, judge=judge)
        assert [one for one in two if any(f"{one}: " in said for said in ruling.failed)] == [
            one for one, over in zip(two, exceeded, strict=True) if over
        ]
        assert ruling.passes == (not any(exceeded))
