"""The first screen of a federation: its counts are the deciding attack's, and anybody reads it."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from divulge.core import (
    Assignment,
    AssignmentFacts,
    Collusion,
    CompositionFacts,
    Finding,
    InteractionFacts,
    Proportions,
    Reconstruction,
    Status,
)
from divulge.metrics import assignment as assignment_metrics
from divulge.metrics import composition as share_metrics
from divulge.metrics import interactions as click_metrics
from divulge.metrics.uninformed import assignment as uninformed
from divulge.metrics.uninformed.draws import ERROR
from divulge.metrics.uninformed.interactions import BeyondPublic, SimulatedClicks
from divulge.report.federation import assignment, composition, interactions, page
from divulge.report.federation.story import FederationReport, PageContent
from divulge.report.federation.verdicts.assignment import AssignmentWords
from tests.report import reading

from .test_expected import EVEN, UNEVEN, guess

DONE = Finding("a", "a", "", {}, Status.DONE)
CLIENTS = tuple(f"clinic-{k}" for k in range(12))
Facts = CompositionFacts | InteractionFacts | AssignmentFacts


def shares(right: float) -> PageContent:
    """Guesses of which a share is right, and the rest those of other clients."""
    made = np.random.default_rng(0)
    counts = [made.multinomial(100, made.dirichlet([0.5] * 10)) for _ in CLIENTS]
    truth = [Proportions.of(one) for one in counts]
    guesses = [
        Proportions(right * a.share + (1 - right) * b.share, a.null if right == 1 else b.null)
        for a, b in zip(truth, [*truth[1:], truth[0]], strict=True)
    ]
    facts = CompositionFacts("f", CLIENTS, tuple(tuple(map(int, one)) for one in counts), ())
    finding = replace(DONE, metrics=dict(share_metrics.measure(guesses, truth).metrics))
    return composition.page_content(facts, (finding,), (guesses,))


def expected_shares(uneven: bool = True) -> PageContent:
    """Guesses about clients whose truth nobody gave, and how simulated ones are read."""
    facts = CompositionFacts("f", CLIENTS, None, ())
    told = [guess(UNEVEN if uneven else EVEN, 0.01 if uneven else 0.5) for _ in CLIENTS]
    return composition.page_content(facts, (DONE,), (told,))


def clicks(right: float, shuffled: float | None = 0.5) -> PageContent:
    """An attack that sees through a share of the items, and guesses the others."""
    made = np.random.default_rng(0)
    acted = [np.sort(made.permutation(20)[:6]) for _ in CLIENTS]
    facts = InteractionFacts("f", CLIENTS, (20,) * 12, tuple(tuple(map(int, a)) for a in acted))
    truth = facts.truth or ()
    score = [np.where(made.random(20) < right, one.acted, made.random(20)) for one in truth]
    guesses = [Reconstruction(one.astype(float), one > 0.7) for one in score]
    alike = np.array(
        [np.corrcoef(g.score, t.acted)[0, 1] for g, t in zip(guesses, truth, strict=True)]
    )
    without = None if shuffled is None else np.full(12, shuffled)
    finding = replace(DONE, metrics=dict(click_metrics.measure(guesses, truth).metrics))
    beyond = (BeyondPublic(alike, without),)
    return interactions.page_content(facts, (finding,), (guesses,), beyond=beyond)


def expected_clicks(auc: float = 0.9) -> PageContent:
    """Guesses of clicks whose truth nobody gave, and how simulated twins are read."""
    facts = InteractionFacts("f", CLIENTS, (20,) * 12, None)
    guesses = [Reconstruction(np.linspace(0, 1, 20), np.arange(20) > 15) for _ in CLIENTS]
    told = SimulatedClicks(np.full(12, auc) + np.linspace(-0.05, 0.05, 12), np.tile([1.0, -1.0], 6))
    return interactions.page_content(facts, (DONE,), (guesses,), simulated=(told,))


def owners(right: float, colluder: int | None = 2) -> PageContent:
    """An attack that is right about a share of the records, and guesses the others."""
    made = np.random.default_rng(0)
    truth = made.permutation(np.arange(120) % 4 - 1)
    known = () if colluder is None else tuple(np.flatnonzero(truth == colluder).tolist())
    other = made.permutation(np.arange(120) % 3 - 1)
    said = Assignment(np.where(made.random(120) < right, truth, other))
    facts = AssignmentFacts(
        ("a", "b", "c"), colluder, 120, (0,) * 120, known, tuple(truth.tolist()), 3
    )
    assert facts.truth is not None
    metrics = assignment_metrics.measure(said, facts.truth, facts.collusion).metrics
    return assignment.page_content(facts, (replace(DONE, metrics=dict(metrics)),), (said,))


def small() -> PageContent:
    """Too few clients to decide anything."""
    facts = CompositionFacts("f", ("a", "b"), ((9, 0), (0, 9)), ())
    return composition.page_content(facts, (DONE,), (facts.truth,))


def sums() -> PageContent:
    """A defence showed the server sums alone."""
    facts = CompositionFacts("f", CLIENTS, None, (), sums=(12, 12))
    missing = replace(DONE, status=Status.NOT_APPLICABLE, reason="needs updates of single clients")
    return composition.page_content(facts, (missing,), (None,))


CASES: dict[str, tuple[Callable[[], PageContent], str]] = {
    "shares": (lambda: shares(1.0), "leak"),
    "shares in part": (lambda: shares(0.6), "leak"),
    "no shares": (lambda: shares(0.0), "no leak found"),
    "expected shares": (expected_shares, "expected leak"),
    "even clients": (lambda: expected_shares(uneven=False), "undecided"),
    "clicks": (lambda: clicks(0.9), "leak"),
    "clicks, not shuffled": (lambda: clicks(0.9, None), "leak"),
    "no clicks": (lambda: clicks(0.0), "no leak found"),
    "expected clicks": (expected_clicks, "expected leak"),
    "unread clicks": (lambda: expected_clicks(0.5), "undecided"),
    "owners": (lambda: owners(0.8), "leak"),
    "owners, server": (lambda: owners(0.8, None), "leak"),
    "no owners": (lambda: owners(0.0), "no leak found"),
    "small": (small, "undecided"),
    "sums": (sums, "nothing measured"),
}


@cache
def story(case: str) -> PageContent:
    return CASES[case][0]()


@cache
def html(case: str) -> str:
    told = story(case)
    report = FederationReport("clinics", "2026-11-29T20:00:00+00:00", (DONE,), told)
    return page.render_files(report)["report.html"].decode()


@pytest.mark.parametrize("case", CASES)
def test_a_number_and_its_picture_stand_where_something_is_decided(case: str) -> None:
    found, level = story(case), CASES[case][1]
    assert found.verdict.level == level
    decided = level in ("leak", "expected leak", "no leak found")
    assert bool(found.brief.number) == bool(found.brief.certainty) == decided
    assert (found.brief.dots is not None) == decided
    text = html(case)
    assert ('class="number"' in text) == decided
    if decided:
        assert text.index('class="number"') < text.index("<svg") < text.index("<table")
    else:
        assert "Nobody can decide from this audit" in found.brief.meaning[0]
    keeps = "Keep the protection" if case == "sums" else "Do not rely on this audit."
    assert found.brief.decision.startswith(keeps) or decided


@pytest.mark.parametrize("case", CASES)
def test_the_first_screen_is_plain_english(case: str) -> None:
    said = reading.read(html(case).split('<section id="verdict"')[1].split("</dl>")[0])
    assert reading.ease(said) >= 60, (reading.ease(said), said)
    for term in ("AUC", "p-value", "TPR", "power", "interval", "FPR", "L1", "null"):
        assert not re.search(rf"\b{term}\b", " ".join(said))


@pytest.mark.parametrize("case", CASES)
def test_before_the_details_a_page_is_short_and_so_is_each_sentence(case: str) -> None:
    said = reading.read(html(case).split('<section id="details">')[0])
    assert sum(len(reading.words(one)) for one in said) <= 1_500
    longest = max(said, key=lambda one: len(reading.words(one)))
    assert len(reading.words(longest)) <= 25, longest


def test_records_in_the_right_class_are_one_less_half_of_the_distance() -> None:
    """Its limits hold for both statistics of one attack at once."""
    found = story("shares in part")
    made = np.random.default_rng(0)
    truth = [Proportions.of(made.multinomial(100, made.dirichlet([0.5] * 10))) for _ in CLIENTS]
    other = [*truth[1:], truth[0]]
    off = [0.4 * np.abs(a.share - b.share).sum() / 2 for a, b in zip(truth, other, strict=True)]
    said = found.brief.meaning[1] if len(found.brief.meaning) > 3 else found.brief.meaning[0]
    assert f"Of 100 records it puts {round(100 * (1 - np.mean(off)))} (" in said
    assert found.brief.number == f"{round(100 * (1 - np.mean(off)))} of 100"
    assert found.brief.concerned == "12 clients, who hold 1,200 records."


def test_clients_whose_absent_classes_are_all_named_are_counted() -> None:
    assert "Of 12 clients, it tells for 12 exactly which classes they lack." in (
        story("shares").brief.meaning
    )
    made = np.random.default_rng(0)
    lacks = [made.multinomial(100, made.dirichlet([0.5] * 10)) == 0 for _ in CLIENTS]
    right = sum((a == b).all() for a, b in zip(lacks, [*lacks[1:], lacks[0]], strict=True))
    assert f"it tells for {right} exactly" in " ".join(story("shares in part").brief.meaning)


def test_what_is_expected_is_said_to_be_expected_and_has_a_colour_of_its_own() -> None:
    found = story("expected shares").brief
    # errors of 0.15 to 0.25 in L1: 10 of 100 wrong on average, 12.1 for nine in ten (37th of 40)
    assert found.number == "expected 90 of 100"
    assert found.dots is not None
    assert (found.dots.least, found.dots.measured, found.dots.known) == (88, 90, "expected")
    assert "at least 88 there" in found.meaning[1]
    assert "Equal shares of all classes would be right for 60." in found.meaning[2]
    assert story("expected clicks").brief.number == "expected 90 of 100 pairs"
    for case in ("expected shares", "expected clicks"):
        assert "Nobody gave the truth." in story(case).brief.certainty
        assert 'data-level="expected leak"' in html(case)
        assert "<span>expected </span>90" in html(case)
        assert "90 expected</li>" in html(case)


def test_items_that_are_named_stand_beside_as_many_names_drawn_at_random() -> None:
    found = story("clicks").brief
    facts_random = re.search(r"drawn at random would hit (\d+)", found.meaning[0])
    assert facts_random is not None
    assert 25 <= int(facts_random[1]) <= 45  # about as many are named as clicked: 6 of 20
    assert re.search(r"Of 100 items that users clicked, the server names \d+ \(", found.meaning[0])
    assert "Where clicks are shuffled, it is right in 50." in found.meaning[1]
    assert "may come from what everybody knows" in story("clicks, not shuffled").brief.meaning[1]


def test_pairs_are_counted_where_as_many_random_names_would_hit_as_much() -> None:
    made = np.random.default_rng(0)
    acted = [np.sort(made.permutation(20)[:6]) for _ in CLIENTS]
    facts = InteractionFacts("f", CLIENTS, (20,) * 12, tuple(tuple(map(int, a)) for a in acted))
    truth = facts.truth or ()
    guesses = [Reconstruction(one.acted.astype(float), np.ones(20, bool)) for one in truth]
    beyond = (BeyondPublic(np.ones(12), np.full(12, 0.5)),)
    found = interactions.page_content(facts, (DONE,), (guesses,), beyond=beyond)
    assert found.verdict.level == "leak"
    assert found.brief.number == "100 of 100 pairs"


@pytest.mark.parametrize(
    ("statistic", "number"),
    [("accuracy", "of 100"), ("auc", "of 100 pairs"), ("top@0.05", "9 of 9")],
)
def test_every_statistic_of_assignments_is_counted(statistic: str, number: str) -> None:
    made, truth = np.random.default_rng(0), Assignment(np.arange(60) % 4 - 1)
    known = Collusion(None, np.zeros(0, bool), np.zeros(60, bool))
    score = made.random((60, 3)) + (truth.client[:, None] == np.arange(3))
    said = Assignment(truth.client, score)
    drawn = uninformed.randomise([said], truth, known, np.zeros(60, int), made)
    case = AssignmentWords([said], truth, known, drawn)
    found = case.count_result(0, statistic, 1 - ERROR / 2)
    assert found.number.endswith(number)
    assert found.dots is not None
    assert "Without the clients' models" in found.meaning[1]
    assert case.describe_attacker().startswith("The server.")
    assert story("owners").brief.attacker.startswith("A client that takes part.")
