"""The pages of audited federations in a real browser: nothing is loaded, nothing sticks out."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from divulge.core import (
    NOBODY,
    Assignment,
    AssignmentFacts,
    Estimate,
    Finding,
    InteractionFacts,
    Interactions,
    Reconstruction,
    Status,
)
from divulge.metrics import interactions as metrics
from divulge.report.contact_sheet import contact_sheet
from divulge.report.federation import assignment, interactions, page
from divulge.report.federation.story import FederationReport, ImageSheet, PageContent

from .test_browser import CHROMIUM, browser

__all__ = ["browser"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

HOSTILE = "<img src=x onerror=alert(1)>" + "w" * 60


def finding(name: str, measured: dict[str, Estimate]) -> Finding:
    return Finding(name, name, "", {}, Status.DONE, measured, how=HOSTILE)


def of_interactions() -> tuple[tuple[Finding, ...], PageContent]:
    rng = np.random.default_rng(0)
    truth = [Interactions(np.arange(20) < 4) for _ in range(40)]
    guess = [Reconstruction(rng.random(20), rng.random(20) > 0.5) for _ in truth]
    findings = (finding("raifle", dict(metrics.measure(guess, truth).metrics)),)
    clients = (HOSTILE, *(f"client-{k}" for k in range(39)))
    facts = InteractionFacts("shop", clients, (20,) * 40, (tuple(range(4)),) * 40)
    return findings, interactions.page_content(facts, findings, (guess,))


def of_assignment() -> tuple[tuple[Finding, ...], PageContent]:
    truth = Assignment(np.array([0, 1, 2, *[NOBODY] * 9]))
    clients, owners = (HOSTILE, "b", "c"), tuple(truth.client.tolist())
    facts = AssignmentFacts(clients, 2, 12, (0,) * 12, (2,), owners)
    findings = (finding("nobody", {"accuracy": Estimate(0.8, 0.5, 0.9)}),)
    guess = Assignment(np.where(truth.client == 2, 2, NOBODY))
    return findings, assignment.page_content(facts, findings, (guess,))


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("made", [of_interactions, of_assignment])
def test_it_opens_quietly_and_fits(
    browser: Browser, width: int, made: object, tmp_path: Path
) -> None:
    assert callable(made)
    findings, story = made()
    files = page.render_files(FederationReport("audit", "2026", findings, story))
    file = tmp_path / "report.html"
    file.write_bytes(files["report.html"])
    opened = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert requests == [file.as_uri()]
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.locator("img").count() == 0
    assert opened.locator("figure svg").count() == len(tuple(story.figures())) == 1
    opened.close()


def test_images_that_were_asked_for_fit_and_a_hostile_name_stays_a_name(
    browser: Browser, tmp_path: Path
) -> None:
    pytest.importorskip("PIL.Image", reason="needs pillow")
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 224, 224)).astype(np.uint8)
    sheet = ImageSheet('"' + HOSTILE, 8, 20, contact_sheet(images, 255 - images))
    findings, story = of_interactions()
    files = page.render_files(FederationReport("audit", "2026", findings, story, sheets=(sheet,)))
    file = tmp_path / "report.html"
    file.write_bytes(files["report.html"])
    opened = browser.new_page(viewport={"width": 400, "height": 900})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.locator("img").count() == 1
    assert opened.evaluate("document.querySelector('img').naturalWidth") == 8 * 226
    assert HOSTILE in str(opened.locator("img").get_attribute("alt"))
    assert HOSTILE in opened.locator("#records figcaption").inner_text()
    opened.close()
