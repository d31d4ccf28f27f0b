"""A leak names defences, with the costs that the documentation gives."""

import re
from dataclasses import replace
from pathlib import Path

from divulge.core import Check, Estimate, Verdict
from divulge.defences import catalog
from divulge.report import markdown, remedies
from divulge.report.summary import summarise

from . import cases

DEFENCES = Path(__file__).parents[2] / "docs" / "defences" / "README.md"


def accuracy(members: float, others: float) -> Check:
    found = {
        name: Estimate(value, value - 0.02, value + 0.02)
        for name, value in (("members", members), ("non-members", others))
    }
    return Check("model accuracy", Verdict.PASS, "The accuracy.", found)


def named(members: float, others: float) -> list[str]:
    summary = summarise(cases.leaky())
    checks = [accuracy(members, others)]
    found = remedies.name_remedies("leak", checks, summary.attacks, None)
    return [one.what for one in found]


def test_a_leak_of_an_overfitted_model_names_the_cheapest_first() -> None:
    assert named(0.97, 0.70) == [
        "early-stopping", "relaxloss", "top-1 or rounding", "selena", "dp-sgd"
    ]  # fmt: skip
    assert named(0.72, 0.70)[0] == "relaxloss"


def test_other_verdicts_and_regression_name_none() -> None:
    summary = summarise(cases.leaky())
    checks = [accuracy(0.97, 0.7)]
    for level in ("no leak found", "undecided", "confounded"):
        assert remedies.name_remedies(level, checks, summary.attacks, None) == ()
    assert remedies.name_remedies("leak", [], summary.attacks, None) == ()


def test_every_name_is_a_defence_and_every_cost_is_that_of_the_page() -> None:
    known = catalog.TRAINED_DEFENCES
    page = DEFENCES.read_text(encoding="utf-8")
    for name, times in remedies.TIMES.items():
        assert name in known
        (row,) = re.findall(rf"^\| \[{name}\]\([^)]*\) \| (.*) \|$", page, re.M)
        for figure in re.findall(r"[\d.]+", times):
            assert re.search(rf"\b{re.escape(figure)}\b", row), (name, row)


def test_the_comment_shows_them_inert() -> None:
    summary = summarise(cases.leaky())
    one = replace(remedies.name_remedies("leak", [accuracy(0.9, 0.5)], (), None)[0], why="<b> *x*")
    text = markdown.render(replace(summary, remedies=(one,)))
    assert "- **early-stopping** (no more training time): &#60;b&#62;" in text
