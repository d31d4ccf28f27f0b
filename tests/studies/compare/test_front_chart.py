"""The page of a comparison: names that attack it, names in each other's way, a real browser."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page

from divulge.core import Estimate
from divulge.report.schema import NotMeasured
from divulge.studies.compare import front_chart as front
from divulge.studies.compare import page as compare_page
from divulge.studies.compare import table as compare_table
from tests.report import markup
from tests.report.test_browser import browser, page, pytestmark

__all__ = ["browser", "page", "pytestmark"]  # the fixtures, and the mark that skips them

HOSTILE = "</style><script>alert(1)</script> " + "x" * 60


def near(value: float) -> Estimate:
    return Estimate(value, value - 0.05, value + 0.05)


def row(name: str, accuracy: float, auc: float) -> compare_table.DefenceRow:
    best = {
        "auc": compare_table.StrongestAttack(name, near(auc)),
        "tpr@0.01": compare_table.StrongestAttack("b", near(0.1)),
    }
    aop = {"2": near(0.5)}
    return compare_table.DefenceRow(
        name, name, near(accuracy), near(0.9), best, aop, 2.0, 1e-5, 1, 3.0, 5, {"a": name}, "r",
        "leak" if auc > 0.6 else "no leak found", 0.001 if auc > 0.6 else 0.4, auc + 0.1,
    )  # fmt: skip


def told(*rows: compare_table.DefenceRow) -> compare_table.ComparisonSummary:
    scope = (NotMeasured("scope", "Other secrets", HOSTILE),)
    given = {"settings": HOSTILE}
    return compare_table.ComparisonSummary(
        HOSTILE, "now", 1000, 8, 3, 7, rows, "It sees much.", scope, given
    )


CASES = {
    "hostile": told(row(HOSTILE, 0.7, 0.6), row("plain", 0.8, 0.7)),
    "alone": told(row("undefended", 0.95, 0.6)),
    "crowded": told(*(row(f"defence number {k}", 0.8, 0.6) for k in range(8))),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_opens_quietly_and_fits(page: Page, case: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(compare_page.render_files(CASES[case])["report.html"])
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert requests == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("figure svg").count() == 2


def test_names_are_text_and_nothing_else() -> None:
    files = compare_page.render_files(CASES["hostile"])
    shown = markup.parse(files["report.html"].decode())
    assert shown.tags.count("script") == 1
    assert HOSTILE in shown.text
    assert b"<script" not in files["summary.md"]
    for name, content in files.items():
        if name.endswith(".svg"):
            assert "script" not in markup.parse(content.decode()).tags


def test_names_of_defences_at_one_place_stand_apart() -> None:
    drawn = markup.parse(
        compare_page.render_files(CASES["crowded"])["figures/front-auc.svg"].decode()
    )
    assert all(f"defence number {k}" in drawn.text for k in range(8))
    dots = [
        {"name": f"d{k}", "leak": 0.6, "accuracy": 0.8, "leak_low": 0.5, "leak_high": 0.7,
         "low": 0.7, "high": 0.9, "chance": 0.5}
        for k in range(25)
    ]  # fmt: skip
    leaks = [0.6, 0.5]
    x, y = front._axes(dots, "auc", leaks)
    bounds = front._axis_range(front._accuracies(dots))
    layers = front._label_layers(dots, leaks, bounds, x, y)
    offsets = [layer.mark["dy"] for layer in layers]
    assert len(set(offsets)) == 25
    levels = sorted(offsets)
    assert min(b - a for a, b in pairwise(levels)) >= front._LINE


def test_the_page_begins_with_which_ways_leak_and_ends_with_what_to_do() -> None:
    found = compare_table.judge_comparison(told(row("bare", 0.9, 0.8), row("guarded", 0.8, 0.52)))
    assert found.headline == "1 of 2 ways to train leak their training records"
    assert found.sentences[0] == "Models trained in these ways leak: bare."
    assert "guarded (up to an AUC of 0.62)" in found.sentences[1]
    assert "--export" in found.next_step


def test_a_leak_counts_for_all_ways_that_were_looked_at() -> None:
    weak = dataclasses.replace(row("bare", 0.9, 0.8), p_value=0.03)
    assert compare_table.judge_comparison(told(weak)).headline.startswith("1 of 1 way")
    found = compare_table.judge_comparison(told(weak, row("other", 0.8, 0.52)))
    assert found.headline == "No leak was found in 1 of 2 ways to train"
    assert "bare: a leak by itself (p = 0.03), but not where 2 ways were looked at." in (
        found.sentences
    )
