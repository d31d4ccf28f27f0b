"""The page in a real browser: nothing is loaded, nothing complains, nothing sticks out."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from divulge_papers import page as tables
from papers.tests.test_page import outcome

from . import cases

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(params=[400, 1200])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    yield page
    page.close()


def cases_beyond(*names: str) -> list[Any]:
    """One report in every run of the tests, and the others each night."""
    return ["leaky", *(pytest.param(name, marks=pytest.mark.slow) for name in names)]


@pytest.mark.parametrize("case", cases_beyond("empty", "many_classes"))
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_core_finds_no_barrier(page: Page, case: str, scheme: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files(case)["report.html"])
    page.emulate_media(color_scheme=scheme)
    page.goto(file.as_uri())
    found = Axe().run(page)
    assert found.response["passes"]
    assert found.response["violations"] == []


@pytest.mark.parametrize("case", cases_beyond("confounded", "empty", "many_classes", "hostile"))
def test_it_opens_quietly_and_fits(page: Page, case: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files(case)["report.html"])
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert requests == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    drawings = page.locator("figure svg")
    drawn = sum(name.endswith(".svg") for name in cases.files(case))
    assert drawings.count() == drawn
    for at in range(drawn):
        box = drawings.nth(at).bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 50


@pytest.mark.slow
def test_the_page_of_tables_opens_quietly_and_fits(page: Page, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    outcome().save(tmp_path / "run")
    file = tables.write_page(tmp_path)
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert requests == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("figure svg").count() == 2


@pytest.mark.slow
def test_it_reads_the_same_without_javascript(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files("leaky")["report.html"])
    texts = []
    for scripts in (True, False):
        page = browser.new_page(java_script_enabled=scripts)
        page.goto(file.as_uri())
        texts.append(page.locator("body").inner_text())
        page.close()
    assert texts[0] == texts[1]
    assert cases.summary("leaky").verdict.headline in texts[0]


@pytest.mark.slow
def test_tables_are_sorted_and_searched_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files("many_classes")["report.html"])
    page = browser.new_page()
    page.goto(file.as_uri())
    page.locator("#classes summary").first.click()
    table = page.locator("#classes table")
    rows = table.locator("tbody tr:visible")
    heading = table.locator("thead th").nth(1)
    for order in ("descending", "ascending"):
        heading.locator("button").focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == order
        members = [int(text) for text in table.locator("td:nth-child(2)").all_inner_texts()]
        assert members == sorted(members, reverse=order == "descending")
    names = table.locator("tbody th").all_inner_texts()
    field = page.locator("#classes input")
    field.fill(names[3])
    found = [name for name in names if names[3].lower() in name.lower()]
    assert rows.count() >= len(found) > 0
    assert rows.count() < len(names)
    assert "of" in page.locator("#classes [role=status]").inner_text()
    field.fill("")
    assert rows.count() == len(names)
    page.close()


@pytest.mark.slow
def test_no_other_script_runs(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    text = cases.files("leaky")["report.html"].decode()
    hostile = "<script>document.title = 'taken'</script><p onclick='x()'>"
    file.write_text(text.replace("<main>", f"<main>{hostile}"), encoding="utf-8")
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(file.as_uri())
    assert page.title() != "taken"
    assert any("Content Security Policy" in line for line in said)
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_paper(browser: Browser, scheme: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files("leaky")["report.html"])
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(file.as_uri())
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for selector in ("h1", ".level", ".lede", ".note", "figure svg text", "nav a", "figcaption"):
        style = "fill" if "svg" in selector else "color"
        ink = page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{style}")
        assert _contrast(ink, paper) >= 4.5, selector
    page.close()


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2 between two colours written as rgb(r, g, b)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
def test_it_prints_on_a4(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(cases.files("many_classes")["report.html"])
    page = browser.new_page()
    page.goto(file.as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 672, "height": 978})  # A4 less its margins, at 96 dots an inch
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for at in range(page.locator("figure").count()):
        box = page.locator("figure").nth(at).bounding_box()
        assert box is not None
        assert box["height"] < 978  # a figure higher than the page would be cut
    for left_out in ("nav", ".search"):
        assert not page.locator(left_out).first.is_visible(), left_out
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.close()
