"""What simulated clients allow to say of a federation whose truth nobody gave."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from divulge.core import CompositionFacts, Finding, Proportions, SimulatedErrors, Status
from divulge.finished_runs.gate import Gate
from divulge.finished_runs.rulings import hold_against_gate
from divulge.metrics.expected import adjust_p_values, largest_error, merge_p_values
from divulge.metrics.uninformed.interactions import SimulatedClicks
from divulge.report.federation import composition, page
from divulge.report.federation.story import FederationReport
from divulge.report.federation.verdicts.composition import CompositionWords
from divulge.report.federation.verdicts.interactions import InteractionWords
from divulge.report.federation.verdicts.judge import judge_federation

DONE = Finding("decaf", "decaf", "", {}, Status.DONE)
OTHER = Finding("label-counts", "label-counts", "", {}, Status.DONE)
UNEVEN, EVEN = np.array([0.7, 0.3, 0.0, 0.0]), np.array([0.26, 0.24, 0.25, 0.25])


def guess(share: np.ndarray, even: float | None, off: float = 0.2, far: float = 0.5) -> Proportions:
    """A guess, with 40 simulated clients like it that such guesses are off by 0.05 more or less."""
    null = np.tile([2, 0, 2, 0], (40, 1))
    null[:4, 1] = 1  # of 80 classes declared null 4 are there
    l1 = off + np.linspace(-0.05, 0.05, 40)
    errors = SimulatedErrors(np.arange(40), l1, np.full(40, 0.8), null, far)
    return Proportions(share, share == 0, even, errors=None if even is None else errors)


def judge(guesses: Sequence[Proportions]) -> tuple[str, str]:
    """Level, and all that the verdict says."""
    found = judge_federation(CompositionWords([guesses], None, None), [DONE])
    return found.level, " ".join([found.headline, *found.sentences, found.next_step])


def test_uneven_clients_that_simulated_ones_like_them_are_read_are_an_expected_leak() -> None:
    level, said = judge([guess(UNEVEN, 0.01), guess(UNEVEN, 0.01), guess(EVEN, 0.29)])
    assert level == "expected leak"
    assert "Uneven, and read by the server: 2 of 3 clients." in said
    assert "10 % (L1 0.20) of their records into wrong classes" in said
    # the 37th smallest of 40, as 0.9 · 41 is 36.9: 0.15 + 36 · 0.1 / 39
    assert "at most 13 % (L1 0.24); equal shares of all classes would put 40 % (L1 0.80)" in said
    assert "declares absent is there in 5 % (95 % interval" in said
    assert "Nobody gave the truth" in said
    assert "This supposes that real clients train as the transcript says" in said
    assert "secure aggregation" in said
    assert "Optional: give the truth (counts in [updates])" in said


@pytest.mark.parametrize(
    ("guesses", "says"),
    [
        ([guess(UNEVEN, 0.06), guess(EVEN, 0.9)], "No client is shown to hold its classes uneven"),
        ([guess(UNEVEN, 0.03)] + [guess(EVEN, 0.9)] * 4, "corrected for 5 clients"),
        ([guess(UNEVEN, 0.01, off=0.8)] * 2, "are no better than equal shares"),
        ([guess(UNEVEN, 0.01, far=0.01)] * 3, "do not look like those of simulated clients"),
    ],
)
def test_everything_else_is_undecided(guesses: Sequence[Proportions], says: str) -> None:
    level, said = judge(guesses)
    assert (level, says in said) == ("undecided", True)
    assert "neither shows a leak nor rules one out" in said


def test_a_client_unlike_simulated_ones_is_left_out_of_what_is_expected() -> None:
    level, said = judge([guess(UNEVEN, 0.01)] * 3 + [guess(UNEVEN, 0.01, far=0.002)])
    assert level == "expected leak"
    assert "3 of 4 clients" in said
    assert "1 of them do not, and are left out" in said


def test_without_simulated_clients_the_verdict_says_why_nothing_can_be_judged() -> None:
    level, said = judge([guess(UNEVEN, None)] * 2)
    assert level == "nothing measured"
    assert "None of the attacks that ran simulates clients" in said


@pytest.mark.parametrize(("fewest", "level"), [(12, "nothing measured"), (1, "undecided")])
def test_where_sums_hide_updates_the_page_keeps_the_protection(fewest: int, level: str) -> None:
    missing = replace(DONE, status=Status.NOT_APPLICABLE, reason="needs updates")
    found = judge_federation(CompositionWords([None], None, None, (30, fewest)), [missing])
    assert found.level == level
    assert found.next_step.startswith("Keep the protection")
    assert str(fewest) in found.sentences[0]


def test_each_client_has_a_sentence_and_the_page_a_level_of_its_own() -> None:
    told = [guess(UNEVEN, 0.01), guess(UNEVEN, 0.01, far=0.002), guess(EVEN, 0.29)]
    facts = CompositionFacts("f", ("a", "b", "c"), None, ())
    flat = Proportions(EVEN, EVEN == 0)
    same = Proportions(np.array([0.5, 0.5, 0, 0]), np.array([False, False, True, True]))
    findings = (OTHER, DONE)
    story = composition.page_content(facts, findings, ((flat, same, flat), told))
    assert story.speaker == 1
    assert story.sentences == (
        "Client a seems to hold mostly class 0 (70 %) and class 1 (30 %). It seems to lack class 2 "
        "and class 3. Its classes are uneven (p = 0.015). Expected in wrong classes: 10 % (L1 "
        "0.20) of its records; at most 13 % (L1 0.24) for 90 % of simulated clients like it.",
        "Client b seems to hold mostly class 0 (70 %) and class 1 (30 %). It seems to lack class 2 "
        "and class 3. Its classes are uneven (p = 0.015). Its update does not look like those of "
        "simulated clients (p = 0.002), so nothing says how far off this is.",
        "Client c seems to be even: no class stands out (p = 0.29). Expected in wrong classes: "
        "10 % (L1 0.20) of its records; at most 13 % (L1 0.24) for 90 % of simulated clients like "
        "it.",
    )
    counted = composition.page_content(facts, (OTHER,), ((flat, same, flat),))
    assert counted.sentences == (
        "Client a seems to be even: no class stands out.",
        "Client b seems to hold equal shares of 2 classes. It seems to lack class 2 and class 3.",
        "Client c seems to be even: no class stands out.",
    )
    files = page.render_files(FederationReport("audit", "2026", findings, story))
    html = files["report.html"].decode()
    assert 'data-level="expected leak"' in html
    assert "Expected leak, estimated without the truth" in html
    assert b'"l1_at_most": 0.24' in files["summary.json"]


def test_a_gate_neither_passes_nor_fails_on_what_is_only_expected() -> None:
    told = [guess(UNEVEN, 0.01)] * 2
    found = judge_federation(CompositionWords([told], None, None), [DONE])
    ruling = hold_against_gate(Gate(("leak",), about="composition"), found, {})
    assert (ruling.failed, ruling.passed, len(ruling.undecided)) == ((), (), 1)
    assert hold_against_gate(Gate(("undecided",), about="composition"), found, {}).failed


@pytest.mark.parametrize(
    ("auc", "longer", "level", "says"),
    [
        ([0.9] * 8, [1, -1] * 4, "expected leak", "90 % (95 % interval"),
        ([0.5] * 8, [1, -1] * 4, "undecided", "guessing: 50 %"),
        ([0.9] * 4, [1, -1] * 2, "undecided", "5 clients or more"),
        ([0.9] * 8, [1] * 8, "undecided", "differ in length (p = 0.008)"),
        ([0.9] * 8, [0] * 8, "expected leak", "p = 1.00"),
    ],
)
def test_clicks_are_expected_to_be_read_where_those_of_simulated_clients_are(
    auc: list[float], longer: list[int], level: str, says: str
) -> None:
    told = SimulatedClicks(np.array(auc), np.array(longer, np.float64))
    found = judge_federation(InteractionWords([[]], None, None, (), (told,)), [DONE])
    assert found.level == level
    assert says in " ".join([*found.sentences, found.next_step])


def test_limits_and_corrected_p_values_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(0)
    for many in (9, 40, 100):
        errors = rng.random(many)
        limit = largest_error(errors)
        assert (errors <= limit).sum() == np.ceil(0.9 * (many + 1) - 1e-9)
    p = rng.random(7)
    naive = [min(min(1.0, q * 7 / (p <= q).sum()) for q in p if q >= one) for one in p]
    np.testing.assert_allclose(adjust_p_values(p), naive)
    assert merge_p_values(p) == pytest.approx(min(1.0, np.sort(p)[3] * 7 / 4))
