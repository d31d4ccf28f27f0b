"""What checks of rows, answers and labels do to the verdict."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from divulge.core import Check, Claim, Entry, Estimate, Guarantee, Measurements, Verdict
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.rulings import hold_against_gate
from divulge.report.claim import doubt_claim
from divulge.report.files import render_files
from divulge.report.schema import Conclusion, Summary
from divulge.report.summary import summarise
from divulge.report.terms import Terms
from divulge.report.verdict import judge_models
from tests.report import cases

STRONG = ("fit of labels", "equal answers", "repeated rows")
WEAK = ("answers of 0 and 1", "infinite numbers", "answers by chance", "nothing learned")
RENAMED = {"members, with classes renamed": Estimate(0.97, 0.95, 0.98)}


def told(
    name: str, verdict: Verdict = Verdict.WARNING, estimates: Mapping[str, Estimate] | None = None
) -> Check:
    return Check(name, verdict, f"The check {name} found 10 % (8 to 12 %).", estimates or {})


def judged(check: Check, by: float, claim: Claim | None = None) -> Summary:
    """One attack whose scores of members stand higher by so many deviations."""
    made = cases.bench()
    entries: Sequence[Entry] = [made.done("one", made.shifted(by))]
    return summarise(made.contents(entries, checks=(*cases.CHECKS, check), claim=claim))


@pytest.mark.parametrize("name", STRONG)
@pytest.mark.parametrize("by", [-1.0, 0.0, 1.0])
def test_a_doubt_comes_before_all_that_attacks_show(name: str, by: float) -> None:
    summary = judged(told(name), by)
    verdict = summary.verdict
    assert (verdict.level, verdict.p_value) == ("inputs doubtful", None)
    assert verdict.headline.startswith("Inputs doubtful: ")
    assert len(verdict.headline.split()) <= 12
    assert verdict.sentences[0] == f"The check {name} found 10 % (8 to 12 %)."
    assert "neither shows a leak nor rules one out" in verdict.sentences[1]
    assert verdict.doubt
    assert verdict.doubt in summary.exposed.reason
    assert not verdict.sensitivity
    assert "exchanged" not in " ".join([verdict.headline, *verdict.sentences, verdict.next_step])
    assert not any(line.startswith(name.capitalize()) for line in verdict.warnings)


def test_a_doubt_comes_before_sets_that_differ() -> None:
    made = cases.bench()
    checks = (*cases.warned("blind baseline"), told("repeated rows"))
    found = summarise(made.contents([made.done("one", made.shifted(0))], checks=checks))
    assert found.verdict.level == "inputs doubtful"


@pytest.mark.parametrize("gate", [Gate(fail_on=("leak",)), Gate(fail_above={"auc": 0.99})])
@pytest.mark.parametrize("name", [*STRONG, *WEAK])
def test_a_doubt_leaves_every_gate_undecided(name: str, gate: Gate) -> None:
    verdict = judged(told(name), 0.0).verdict
    ruling = hold_against_gate(gate, verdict, verdict.limits)
    assert not ruling.passes
    assert not ruling.failed
    assert ruling.undecided == (f"{verdict.headline}. {verdict.next_step}",)


@pytest.mark.parametrize("name", WEAK)
def test_what_ranks_no_record_takes_back_a_reassurance_and_no_leak(name: str) -> None:
    check = told(name)
    quiet, loud, low = (judged(check, by).verdict for by in (0.0, 1.0, -1.0))
    assert quiet.level == "inputs doubtful"
    assert "run the audit again" in quiet.next_step
    assert loud.level == "leak"
    assert not loud.doubt
    assert any(check.text in line for line in loud.warnings)
    assert "exchanged" in low.headline


def test_a_model_that_shows_no_knowledge_of_labels_contradicts_a_leak_alone() -> None:
    check = told("fit of labels", Verdict.PASS)
    assert judged(check, 0.0).verdict.level == "no leak found"
    verdict = judged(check, 1.0).verdict
    assert verdict.level == "inputs doubtful"
    assert verdict.sentences[0].endswith("(8 to 12 %), yet attacks see a leak.")


def trained(check: Check) -> Conclusion:
    made = cases.bench()
    entry = made.done("one", made.shifted(0))
    assert entry.score is not None
    rows = summarise(made.contents([entry])).attacks
    together = {"one": Measurements(dict(entry.finding.metrics), {})}
    return judge_models(
        rows, [({"one": entry.score}, made.member)], together, (check,), Terms(trained=True)
    )


def test_labels_of_models_that_divulge_trained_are_doubted_for_their_order_alone() -> None:
    assert trained(told("fit of labels")).level == "no leak found"
    assert trained(told("fit of labels", estimates=RENAMED)).level == "inputs doubtful"
    assert trained(told("equal answers")).level == "inputs doubtful"
    assert trained(told("nothing learned")).level == "no leak found"
    assert trained(told("answers by chance")).level == "inputs doubtful"


def test_nothing_is_said_of_a_claim() -> None:
    made = cases.bench()
    perfect = [made.done("one", np.where(made.member, 1.0, 0.0))]
    claim = Claim(Guarantee(0.1, 1e-5))
    plain = summarise(made.contents(perfect, claim=claim)).claim
    assert plain is not None
    assert plain.outcome == "contradicted"
    checks = (*cases.CHECKS, told("repeated rows"))
    found = summarise(made.contents(perfect, claim=claim, checks=checks))
    assert found.claim is not None
    assert found.claim.outcome == "not measured"
    assert "rows repeat, so the inputs are doubtful" in found.claim.sentence
    assert not any("ε" in line for line in found.verdict.warnings)


def test_the_page_gives_no_p_value() -> None:
    made = cases.bench()
    checks = (*cases.CHECKS, told("equal answers"))
    run = made.contents([made.done("one", made.shifted(0))], checks=checks)
    page = render_files(run)["report.html"].decode()
    assert "Inputs doubtful: all answers are equal" in page
    assert "No figure below means what it says" in page
    assert "furthest below chance" not in page


def test_without_a_claim_there_is_none_to_take_back() -> None:
    assert doubt_claim(None, "rows repeat") is None
