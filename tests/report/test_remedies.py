"""A leak names what helps a model of its kind, with the figures of the benchmark."""

import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest

from divulge.core import Check, Estimate, Verdict
from divulge.defences import catalog
from divulge.report import markdown, remedies
from divulge.report.schema import Remedy
from divulge.report.summary import summarise
from divulge.targets.model_parts import ModelKind

from . import cases

DEFENCES = Path(__file__).parents[2] / "docs" / "defences" / "README.md"
STORED = Path(__file__).parents[2] / "docs" / "results" / "measured" / remedies.MEASURED
KINDS = get_args(ModelKind)
MEASURED = remedies.measured_remedies()


def accuracy(members: float, others: float) -> Check:
    found = {
        name: Estimate(value, value - 0.02, value + 0.02)
        for name, value in (("members", members), ("non-members", others))
    }
    return Check("model accuracy", Verdict.PASS, "The accuracy.", found)


def advised(kind: str) -> tuple[Remedy, ...]:
    """What is advised to a leaky model of a kind."""
    rows = summarise(cases.leaky()).attacks
    return remedies.name_remedies("leak", [accuracy(0.97, 0.7)], rows, None, kind)


def test_the_table_is_that_of_the_benchmark() -> None:
    own = resources.files("divulge.report").joinpath(remedies.MEASURED).read_bytes()
    assert own == STORED.read_bytes()
    assert {row.kind for row in MEASURED} <= set(KINDS) - {"", "URL", "table"}
    assert all(row.name in remedies.REASONS and row.data in remedies.DATA for row in MEASURED)


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_in_the_table(kind: str) -> None:
    rows = {row.remedy: row for row in MEASURED}
    for one in advised(kind):
        name = one.what.rpartition(": ")[2]
        if "Attack AUC" in one.why:
            assert name in rows, one
        else:
            figures = set(re.findall(r"[\d.]+", one.what + one.cost))
            assert figures <= set(re.findall(r"[\d.]+", remedies.TIMES.get(name, ""))), one


@pytest.mark.parametrize("kind", sorted({row.kind for row in MEASURED}))
def test_advice_is_what_was_shown_to_help_such_a_model_the_cheapest_first(kind: str) -> None:
    found = [one.what for one in advised(kind)]
    mine = [row for row in MEASURED if row.kind == kind]
    helpful = {row.remedy for row in mine if row.helps}
    unmeasured = [one for one in remedies.UNMEASURED.get(kind, ()) if one not in helpful]
    trained = [one for one in found[: found.index("divulge harden")] if one not in unmeasured]
    assert trained
    assert set(trained) <= helpful
    prices = [
        remedies._price([row for row in mine if row.remedy == name])
        for name in trained
        if not name.startswith("dp-sgd")
    ]
    assert prices == sorted(prices)
    others = [name for name in catalog.TRAINED_DEFENCES if name in found]
    assert kind == "PyTorch" or not others


def test_a_language_model_is_advised_without_an_accuracy_or_labels() -> None:
    rows = summarise(cases.leaky()).attacks
    found = remedies.name_remedies("leak", [], rows, None, remedies.LANGUAGE_MODEL)
    names = [one.what for one in found]
    assert names[:2] == ["adapters (LoRA, rank 1)", "fewer epochs (1 in place of 3)"]
    assert names.index("goldfish loss (every 4th token left out)") > 3  # next to nothing
    assert names[-1] == "divulge harden"
    assert "-0.286 (-0.324 to -0.248) from 1.00 on Bible verses" in found[0].why
    assert "Probability of a token of other texts: -0.003" in found[0].cost


def test_nothing_is_trained_behind_a_url_or_a_table() -> None:
    for kind in ("URL", "table"):
        for one in advised(kind):
            trained = one.what.startswith("if its owner trains ")
            assert trained or one.cost.startswith(("nothing is trained", "no training")), one
    assert [one.what for one in advised("URL")][2] == "a limit on questions"
    assert advised("table")[0].what.startswith("if its owner trains ")


def test_every_time_is_that_of_the_page() -> None:
    page = DEFENCES.read_text(encoding="utf-8")
    for name, times in remedies.TIMES.items():
        assert name in catalog.TRAINED_DEFENCES
        (row,) = re.findall(rf"^\| \[{name}\]\([^)]*\) \| (.*) \|$", page, re.M)
        for figure in re.findall(r"[\d.]+", times):
            assert re.search(rf"\b{re.escape(figure)}\b", row), (name, row)


@pytest.mark.slow
def test_answers_that_are_rounded_leave_the_accuracy_as_it_is() -> None:
    assert all("no accuracy" not in one.cost for kind in KINDS for one in advised(kind))


def test_other_verdicts_and_regression_name_none() -> None:
    summary = summarise(cases.leaky())
    checks = [accuracy(0.97, 0.7)]
    for level in ("no leak found", "undecided", "confounded"):
        assert remedies.name_remedies(level, checks, summary.attacks, None) == ()
    assert remedies.name_remedies("leak", [], summary.attacks, None) == ()


def test_the_comment_shows_them_inert() -> None:
    summary = summarise(cases.leaky())
    one = replace(advised("linear model")[0], what="label", cost="none", why="<b> *x*")
    text = markdown.render(replace(summary, remedies=(one,)))
    assert "- **label**: &#60;b&#62;" in text
    assert " Cost: none." in text
