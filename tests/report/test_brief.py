"""The brief: its number is the deciding attack's, rounded as elsewhere, and anybody can read it."""

import re

import numpy as np
import pytest

from divulge.attacks import catalog
from divulge.core import Estimate, Membership, Need
from divulge.metrics.measure import measure_together
from divulge.report import brief, page
from divulge.report.parts import DecidingRate, ExposedList, ExposedRecords
from divulge.report.schema import Sizes
from divulge.report.summary import summarise
from divulge.report.terms import Terms
from divulge.report.units import PERSON, TEXT

from . import cases, reading

OPEN = ("confounded", "failed", "empty", "tiny", "exchanged")
"""Cases in which it is not decided whether there is a leak."""

SIZES = Sizes(members=100, nonmembers=100, reference=0, classes=2, smallest_fpr=0.01)


def first_screen(case: str) -> str:
    """The HTML of the top of a page, to the end of what to decide."""
    text = cases.files(case)["report.html"].decode()
    return text.split('<section id="verdict"')[1].split("</dl>")[0]


def test_the_number_of_a_leak_is_the_corrected_rate_of_the_deciding_attack() -> None:
    made = cases.bench()
    entries = [made.done("one", made.shifted(3, share=0.5))]
    entries += [made.done(f"other{k}", made.shifted(0)) for k in range(8)]
    scores = {each.finding.label: each.score for each in entries if each.score is not None}
    measured = measure_together(scores, Membership(made.member))["one"].metrics["tpr@0.01"]
    found = summarise(made.contents(entries))
    assert found.verdict.deciding_rate == DecidingRate(0.01, measured, measured.high or 0)
    assert measured != found.attacks[0].metrics["tpr@0.01"]  # its interval alone is narrower
    assert found.brief.number == f"{round(100 * measured.value)} of 100"


def test_no_leak_found_shows_the_highest_limit_of_all_attacks_and_marks_nobody_as_recognised() -> (
    None
):
    found = cases.summary("tight")
    most = found.verdict.limits["tpr@0.01"].highest
    assert found.verdict.deciding_rate == DecidingRate(0.01, None, most or 0)
    assert found.brief.dots is not None
    assert (found.brief.dots.least, found.brief.dots.measured) == (0, 0)
    assert found.brief.dots.most == np.ceil(100 * (most or 0))


@pytest.mark.parametrize(("case", "counted"), [("small", "10 outsiders in 100"),
                                               ("leaky", "1 outsider in 100"),
                                               ("label_only", "100 pairs")])  # fmt: skip
def test_it_counts_at_the_lowest_rate_that_sizes_and_attack_support(
    case: str, counted: str
) -> None:
    found = cases.summary(case).brief
    assert counted in found.meaning[0]


@pytest.mark.parametrize("case", OPEN)
def test_where_nothing_is_decided_there_is_no_number_and_no_picture(case: str) -> None:
    found = cases.summary(case).brief
    assert (found.number, found.dots, found.certainty) == ("", None, "")
    assert "Nobody can decide from this audit whether the model leaks" in found.meaning[0]
    assert "<svg" not in first_screen(case)
    assert 'class="number"' not in first_screen(case)


def test_limits_are_rounded_as_in_sentences_and_small_shares_counted_in_a_thousand() -> None:
    rate = DecidingRate(0.01, Estimate(0.352, 0.289, 0.411), 0.411)
    number, meaning, dots = brief._count_rate(rate, Terms())
    assert number == "35 of 100"
    assert "recognises 35 (29 to 41)." in meaning[0]
    assert (dots.least, dots.measured, dots.most, dots.each) == (29, 35, 41, 1)
    rare = DecidingRate(0.01, Estimate(0.0262, 0.0139, 0.0421), 0.0421)
    number, meaning, dots = brief._count_rate(rare, Terms(unit=PERSON))
    assert number == "26 of 1,000"
    assert "may wrongly accuse 10 outsiders in 1,000 recognises 26 (14 to 42)." in meaning[0]
    assert (dots.least, dots.measured, dots.most, dots.each) == (1, 3, 4, 10)


def test_one_interval_is_rounded_alike_on_the_first_screen_and_in_the_sentence_below() -> None:
    found = cases.summary("label_only")
    counted = re.search(r"\((\d+) to (\d+)\)", found.brief.meaning[0])
    said = re.search(r"interval ([\d.]+) to ([\d.]+) %", found.verdict.sentences[0])
    assert counted is not None
    assert said is not None
    assert [round(float(each)) for each in said.groups()] == [
        int(each) for each in counted.groups()
    ]


def test_a_limit_that_stands_alone_is_rounded_up() -> None:
    number, _, dots = brief._count_rate(DecidingRate(0.01, None, 0.034), Terms())
    assert number == "at most 4 of 100"
    assert dots.most == 4


@pytest.mark.parametrize(
    ("attack", "terms", "classes", "said"),
    [
        ("threshold", Terms(), 2, "a record with its true label, and sees what the model answers"),
        ("gap", Terms(), 2, "sees the label that the model answers"),
        ("residual", Terms(), 0, "its true value, and sees the value that the model predicts"),
        ("quantile", Terms(), 2, "They also have other records like it."),
        ("con-recall", Terms(unit=TEXT), 1, "They also have other texts like it."),
        ("iha", Terms(), 2, "They also have the model itself."),
        ("lira", Terms(shadows="online"), 2, "train models of their own"),
        ("mrad", Terms(knows="the columns age and zip"), 2, "who has the columns age and zip of"),
        ("supervised", Terms(known_members=9), 2, "already know 9 training records"),
        ("given-score", Terms(given="the loss in column 'nll'"), 1, "who has the loss in column"),
    ],
)
def test_it_says_what_the_attacker_has(attack: str, terms: Terms, classes: int, said: str) -> None:
    made = cases.bench(40, 40)
    (row,) = summarise(made.contents([made.done(attack, made.shifted(1))])).attacks
    sizes = Sizes(members=40, nonmembers=40, reference=0, classes=classes, smallest_fpr=None)
    assert said in brief.describe_attacker(row, sizes, terms)


@pytest.mark.parametrize(
    ("names", "need"),
    [
        (catalog.LABEL_ATTACKS, Need.HARD_LABELS),
        (catalog.REFERENCE_ATTACKS, Need.REFERENCE),
        (catalog.WHITE_BOX_ATTACKS, Need.AUTOGRAD),
        (catalog.ATTACKS_WITH_SHADOWS, Need.SHADOWS),
    ],
)
def test_what_the_attacker_has_is_what_the_attack_needs(names: tuple[str, ...], need: Need) -> None:
    """Those on tokens of texts are described by what their table holds."""
    needs = {name: catalog.attack(name).needs for name in catalog.CATALOGUE["membership"]}
    apart = {name for name in needs if Need.TOKENS in needs[name]} | {"mrad"}  # by its settings
    found = {name for name in needs if need & needs[name]}
    assert found - apart == {*names} - apart


def test_who_reads_gradients_of_a_language_model_has_it() -> None:
    made = cases.bench(40, 40)
    sizes = Sizes(members=40, nonmembers=40, reference=0, classes=1, smallest_fpr=None)
    said = {}
    for signal in ("loss", "gradient-norm"):
        entry = made.done("token-threshold", made.shifted(1), signal=signal)
        (row,) = summarise(made.contents([entry])).attacks
        said[signal] = brief.describe_attacker(row, sizes, Terms(unit=TEXT))
    assert said["gradient-norm"] == said["loss"] + " They also have the model itself."


def test_a_list_that_could_not_be_made_says_what_would_let_it_be() -> None:
    longest = ExposedList(0.1, None, 40, 1_000, "")
    said = brief.describe_list(ExposedRecords("lira", "", (longest,), ()), 200, PERSON)
    assert said == (
        "No list of exposed people could be made of which at most 1 in 10 is wrong. With more "
        "outsiders in the test, a list of few of them might be."
    )


def test_the_number_stands_before_the_first_table_and_nothing_on_the_page_is_larger() -> None:
    text = cases.files("leaky")["report.html"].decode()
    assert text.index('class="number"') < text.index("<svg") < text.index("<table")
    style = text.split("<style>")[1].split("</style>")[0]
    largest = {
        name: max(map(float, re.findall(r"([\d.]+)rem", rule)))
        for name, rule in re.findall(
            r"\n(\.number|\.brief h1|h1|h2) \{[^}]*?font(?:-size)?: ([^;]+)", style
        )
    }
    assert set(largest) == {".number", ".brief h1", "h1", "h2"}
    assert largest[".number"] == max(largest.values())
    assert list(largest.values()).count(largest[".number"]) == 1


@pytest.mark.parametrize("case", [case for case in cases.CASES if case not in ("hostile",)])
def test_the_first_screen_is_plain_english(case: str) -> None:
    said = reading.read(first_screen(case))
    assert reading.ease(said) >= 60
    for term in ("AUC", "p-value", "TPR", "power", "interval", "FPR"):
        assert not re.search(rf"\b{term}\b", " ".join(said))


@pytest.mark.parametrize("case", [case for case in cases.CASES if case != "hostile"])
def test_before_the_details_a_page_is_short_and_so_is_each_sentence(case: str) -> None:
    text = cases.files(case)["report.html"].decode().split('<section id="details">')[0]
    said = reading.read(text)
    assert sum(len(reading.words(one)) for one in said) <= 1_500
    longest = max(said, key=lambda one: len(reading.words(one)))
    assert len(reading.words(longest)) <= 25, longest


def test_a_page_with_twenty_attacks_is_as_short() -> None:
    made = cases.bench()
    names = [f"threshold(signal=number{k})" for k in range(8)] + [f"attack{k}" for k in range(12)]
    found = summarise(made.contents([made.done(name, made.shifted(1)) for name in names]))
    text = page.render(found, dict.fromkeys(("roc", "scores", "attacks", "classes"), ""))
    said = reading.read(text.split('<section id="details">')[0])
    assert sum(len(reading.words(one)) for one in said) <= 1_200  # and 300 in the figures
