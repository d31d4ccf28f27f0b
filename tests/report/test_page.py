"""The page: complete, inert, self-contained, and careful with its words."""

import base64
import functools
import hashlib
import html
import re
from pathlib import Path

import pytest

from divulge._util import showable
from divulge.report import page, words
from divulge.report.schema import Summary

from . import cases, markup

FORBIDDEN = re.compile(
    r"\b(safe|safely|private|compliant|compliance|no risk|risk-free|harmless)\b", re.IGNORECASE
)
SECTIONS = (
    "verdict", "act", "glance", "figures", "exposed", "classes", "not-measured", "details",
)  # fmt: skip
PARTS = ("checks", "controls", "terms", "reproduce")
"""Parts of the details, which are folded."""
SCRIPT = Path(page.__file__).with_name("templates") / "tables.js"
ACTIVE = {
    "iframe", "object", "embed", "link", "base", "form", "img", "image", "use",
    "foreignobject", "animate", "video", "audio", "applet",
}  # fmt: skip


def _text(case: str) -> str:
    return cases.files(case)["report.html"].decode()


@functools.cache
def _parsed(case: str) -> markup.Parsed:
    return markup.parse(_text(case))


def _words(text: str) -> str:
    return " ".join(showable.make_showable(text).replace("\u202f", " ").split())


def _reading(case: str) -> str:
    return _words(_parsed(case).text)


@pytest.mark.parametrize("case", cases.CASES)
def test_it_is_one_inert_file(case: str) -> None:
    parsed = _parsed(case)
    assert not ACTIVE & set(parsed.tags)
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on")]
    assert all(value.startswith("#") for value in parsed.values("href"))
    assert not parsed.values("src")
    assert not parsed.values("xlink:href")
    for style in [*parsed.styles, *parsed.values("style")]:
        assert not re.search(r"url\(|@import|//", style)
    assert parsed.tags.count("script") == 1
    assert not [value for value in parsed.values("role") if value.startswith("graphics-")]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.read_bytes()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:"
    )
    assert ("meta", "content", policy) in parsed.attributes
    assert _text(case).count(f"<script>{SCRIPT.read_text()}</script>") == 1


def test_the_script_sets_no_html_and_asks_for_nothing() -> None:
    text = SCRIPT.read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "fetch", "XMLHttp", "eval", "import",
                 "Function", "storage", "cookie", "location", "document.write", "</"):  # fmt: skip
        assert word not in text, word


@pytest.mark.parametrize("case", cases.CASES)
def test_addresses_stand_in_texts_and_name_spaces_alone(case: str) -> None:
    parsed = _parsed(case)
    links = [
        (name, value)
        for _, name, value in parsed.attributes
        if "://" in value and not name.startswith("xmlns") and name != "aria-label"
    ]
    assert links == []


@pytest.mark.parametrize("case", cases.CASES)
def test_it_is_a_document_with_headings_in_order(case: str) -> None:
    parsed = _parsed(case)
    assert _text(case).startswith("<!doctype html>")
    assert ("html", "lang", "en") in parsed.attributes
    assert parsed.tags.count("h1") == 1
    ids = parsed.values("id")
    assert [name for name in ids if name in SECTIONS + PARTS] == list(SECTIONS + PARTS)
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in parsed.values("href")} <= set(ids)
    assert parsed.tags.count("caption") == parsed.tags.count("table")
    assert parsed.tags.count("figcaption") == parsed.tags.count("figure")
    assert len(parsed.values("role")) >= parsed.tags.count("figure")


@pytest.mark.parametrize("case", cases.CASES)
def test_each_section_says_first_what_it_answers(case: str) -> None:
    for name in SECTIONS[1:]:
        section = _text(case).split(f'<section id="{name}">')[1]
        assert re.match(r'\s*<h2>[^<]+</h2>\s*<p class="lede">[^<]+[.?]', section)
    for name in PARTS:
        part = _text(case).split(f'<section id="{name}" class="part">')[1]
        assert re.match(r"\s*<details>\s*<summary><h3>[^<]+</h3>", part)
        assert re.match(r'\s*<p class="lede">[^<]+[.?]', part.split("</summary>")[1])


@pytest.mark.parametrize("case", cases.CASES)
def test_nothing_that_was_asked_for_is_dropped(case: str) -> None:
    summary, reading = cases.summary(case), _reading(case)
    markdown = html.unescape(cases.files(case)["summary.md"].decode()).replace("\u2060", "")
    data = cases.files(case)["summary.json"].decode()
    for row in summary.attacks:
        label = _words(row.label)
        assert label in reading
        assert label[:200] in markdown
        assert row.label.split("\n")[0].replace("\\", "\\\\").replace('"', '\\"') in data
        assert _words(row.reason) in reading
        for name, reason in row.unmeasured.items():
            assert words.metric_title(name) in reading
            assert words.metric_title(name) in markdown
            assert reason in reading
            assert f'"{name}": "{reason}' in data
    for item in summary.not_measured:
        assert _words(item.what) in reading
        assert _words(item.why) in reading


@pytest.mark.parametrize("case", [case for case in cases.CASES if case != "hostile"])
def test_no_report_promises_anything(case: str) -> None:
    for name in ("report.html", "summary.json", "summary.md"):
        assert not FORBIDDEN.findall(cases.files(case)[name].decode())


@pytest.mark.parametrize("case", ["confounded", "hostile"])
def test_the_confounding_warning_is_the_first_thing_on_the_page(case: str) -> None:
    summary = cases.summary(case)
    reading = _reading(case).partition(f"{summary.verdict.level}")[2]  # after the title
    first = reading.strip().startswith("Read this first. This audit also measures the difference")
    assert first == bool(summary.verdict.confounding)


def test_metrics_come_with_their_intervals() -> None:
    reading = _reading("leaky")
    for row in cases.summary("leaky").attacks:
        for name, estimate in row.metrics.items():
            assert words.format_metric(name, estimate, row.unmeasured) in reading


def test_a_figure_without_a_lower_limit_says_so_and_how_many_records_it_needs() -> None:
    reading = _reading("small")
    row = cases.summary("small").attacks[0]
    assert row.metrics["tpr@0.01"].low == 0
    high = words.per_hundred(row.metrics["tpr@0.01"])[2]
    assert f"100 % (up to {high})" in reading
    markdown = cases.files("small")["summary.md"].decode()
    for text in (reading, markdown):
        assert (
            "reads “up to”, 200 non-members cannot support a lower limit: give at least 368" in text
        )
        assert "Lower limit of TPR at 1 % FPR" in text


def test_hostile_texts_stay_texts() -> None:
    parsed = _parsed("hostile")
    assert parsed.tags.count("style") == 1
    assert parsed.tags.count("b") == 0
    for text in cases.HOSTILE:
        assert _words(text) in _reading("hostile")
    assert "49" not in re.findall(r"\{\{ (\S+) \}\}", parsed.text)


def test_large_audits_are_cut_where_they_say_so() -> None:
    reading = _reading("many_classes")
    assert "The first 30 of" in reading
    assert re.search(r"and \d+ more\.", reading)
    assert len(_text("many_classes")) < 300_000


def test_the_page_needs_nothing_but_the_summary() -> None:
    again = page.render(_revived("leaky"), {
        name: cases.files("leaky")[f"figures/{name}.svg"].decode()
        for name in ("roc", "scores", "attacks", "classes")
    })  # fmt: skip
    assert again.encode() == cases.files("leaky")["report.html"]


def _revived(case: str) -> Summary:
    from pydantic import TypeAdapter

    return TypeAdapter(Summary).validate_json(cases.files(case)["summary.json"])
