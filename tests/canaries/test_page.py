"""The page of an audit by canaries: written again from its run folder, and opened in a browser."""

import dataclasses
import json
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner
from playwright.sync_api import Browser

from divulge.canaries import page as canary_page
from divulge.canaries.audit import audit_canaries
from divulge.canaries.facts import BoxResult, CanaryFacts, RoundResult
from divulge.cli.main import main
from divulge.core import Estimate
from divulge.finished_runs.run_json import HEAD
from divulge.finished_runs.stored import PAGE
from tests import resealed
from tests.canaries import sets
from tests.report import markup
from tests.report.test_browser import browser, pytestmark

__all__ = ["browser"]  # the fixture


def near(value: float) -> Estimate:
    return Estimate(value, value - 0.1, value + 0.1)


WHITE = BoxResult(
    "white", near(1.2), near(0.8), 12, "m" * 64, near(2.0),
    tuple(RoundResult(near(0.2), near(0.5)) for _ in range(12)), 0.6,
)  # fmt: skip
FOUND = CanaryFacts(
    1.0, 1e-5, "independent-gaussian", 400, 207, "c" * 64, (WHITE,), 9.0, 60, None,
    "adding or removing one client",
)  # fmt: skip
BLACK = dataclasses.replace(WHITE, box="black", steps=0, gaussian=None, rounds=(), rounding=None)


def text(found: CanaryFacts) -> str:
    return markup.parse(canary_page.render(found, "2026-01-01")).text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "Do not state this ε"),
        ({}, "it can hide canaries that noise does not hide"),
        ({"epsilon": 4.0}, "This is no proof that the statement holds"),
        ({"epsilon": 4.0, "results": (BLACK,)}, "Score the white box, too"),
        ({"epsilon": 40.0}, "Make more canaries"),
        ({"utility": near(-0.03)}, "accuracy changed by -3.0 points"),
    ],
    ids=["contradicted", "rounding", "consistent", "black box", "undecidable", "utility"],
)
def test_it_says_what_was_found_and_what_to_do(change: dict[str, object], says: str) -> None:
    assert says in text(dataclasses.replace(FOUND, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rounding", "says"),
    [
        (0.6, "up to 60.00% of a round's change: it can hide canaries that noise does not hide."),
        (0.0213, "up to 2.13% of a round's change."),
        (1e-9, "up to 0.01% of a round's change."),
        (None, ""),
    ],
)
def test_rounding_is_said_to_a_hundredth_of_a_percent(rounding: float | None, says: str) -> None:
    said = dataclasses.replace(WHITE, rounding=rounding).rounding_sentence
    assert said == (f"Rounding by secure aggregation: {says}" if says else "")


def test_many_rounds_are_folded() -> None:
    many = dataclasses.replace(WHITE, rounds=WHITE.rounds * 2)
    assert "All 24 rounds" in text(dataclasses.replace(FOUND, results=(many,)))
    assert "All 12 rounds" not in text(FOUND)


def test_a_run_is_rendered_again_without_canaries_or_scores(tmp_path: Path) -> None:
    folder, run = sets.make(tmp_path), tmp_path / "run"
    scores = sets.write_scores(folder, sets.leak(folder, 3.0))
    audit_canaries(folder, [scores], epsilon=1.0, delta=1e-5, run=run)
    before = (run / PAGE).read_bytes()
    (run / PAGE).unlink()
    done = CliRunner().invoke(main, ["report", str(run)])
    assert done.exit_code == 0, done.output
    assert (run / PAGE).read_bytes() == before
    done = CliRunner().invoke(main, ["measure", str(run)])
    assert done.exit_code == 2
    assert "got an audit by canaries" in done.output


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    folder, run = sets.make(tmp_path), tmp_path / "run"
    scores = sets.write_scores(folder, sets.leak(folder, 3.0))
    audit_canaries(folder, [scores], epsilon=1.0, delta=1e-5, run=run)
    head = json.loads((run / HEAD).read_bytes())
    damages: tuple[dict[str, object], ...]
    damages = ({"results": []}, {"noise": "none"}, {"canaries": "many"})
    for damage in damages:
        resealed.write(run / HEAD, {**head, "facts": {**head["facts"], **damage}})
        done = CliRunner().invoke(main, ["report", str(run)])
        assert done.exit_code == 2, done.output
        assert "as divulge wrote it" in done.output


@pytestmark
@pytest.mark.slow
def test_it_opens_quietly_fits_and_has_no_barrier(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / PAGE
    file.write_text(canary_page.render(FOUND, "2026-01-01"), encoding="utf-8")
    page = browser.new_page()
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri(), wait_until="networkidle")
    for width in (390, 768, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert Axe().run(page).response["violations"] == []
    assert said == []
    assert requests == [file.as_uri()]
    page.close()
