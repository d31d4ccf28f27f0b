"""The comment on a pull request: short, complete, and inert."""

import pytest
from markdown_it import MarkdownIt

from divulge.report import markdown
from tests.slow import thin

from . import cases, markup


def _rendered(text: str) -> markup.Parsed:
    return markup.parse(MarkdownIt("commonmark").enable("table").render(text))


def _comment(case: str) -> str:
    return cases.files(case)["summary.md"].decode()


@pytest.mark.parametrize("case", thin(3, cases.CASES))
def test_every_attack_has_a_row_of_the_same_width(case: str) -> None:
    parsed = _rendered(_comment(case))
    attacks = cases.summary(case).attacks
    rows = sum(row.status == "done" for row in attacks)
    assert parsed.tags.count("table") == 1
    assert parsed.tags.count("tr") == rows + 1
    assert parsed.tags.count("td") == 6 * rows
    assert set(parsed.tags) <= {
        "h3", "p", "blockquote", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip


@pytest.mark.parametrize("case", thin(2, cases.CASES))
def test_it_says_the_verdict_and_what_was_not_measured(case: str) -> None:
    verdict, text = cases.summary(case).verdict, _rendered(_comment(case)).text
    assert verdict.headline in text
    for sentence in verdict.sentences:
        assert sentence in text
    assert "Not measured: " in text.replace("Not measured:  ", "Not measured: ")
    assert "Other training runs" in text


def test_a_confounding_warning_comes_before_everything() -> None:
    assert _comment("confounded").startswith("> **Warning.** This audit also measures")


@pytest.mark.parametrize("text", cases.HOSTILE)
def test_hostile_texts_stay_texts(text: str) -> None:
    parsed = _rendered(f"x {markdown.make_inert(text)} y")
    assert parsed.tags == ["p"]


@pytest.mark.parametrize("text", ["@all", "#12", "www.evil.example", "https://evil.example"])
def test_nothing_is_mentioned_or_linked_afterwards(text: str) -> None:
    # GitHub looks for these in what was rendered, or while parsing
    assert text not in markdown.make_inert(text)


def test_long_texts_are_cut() -> None:
    assert len(markdown.make_inert("word " * 1000)) <= 500
