"""Pages, help texts and messages use the field's words; these are the words that they avoid."""

import ast
import re
from collections.abc import Iterator

import pytest

from .distributions import ROOT, SOURCES

AVOID = {
    r"outsiders?": "non-member",
    r"beforehand": "in advance, first",
    r"dear(er|est)?": "expensive",
    r"nought": "zero",
    r"hence|thereby|whereof|thereof": "so",
    r"a good deal": "much, or a figure",
    r"puts? (\w+ ){0,3}to (the|your|a) model|(is|are) put to the (model|target)": "query",
    r"calm|nervous": "no false alarm, false alarm",
    r"wrongly accus\w+|accus(es|ed) wrongly": "false positive",
    r"by heart": "memorise",
    r"betray\w*": "leak, reveal",
    r"turn(s|ed) round": "reverse",
    r"put to the test": "test",
    r"stands? (beside|above|below)": "follows, precedes, exceeds, is compared with",
}
"""A pattern for each of them, and what to say in its place."""

ANY = re.compile(rf"\b({'|'.join(AVOID)})\b", re.IGNORECASE)
GENERATED = re.compile(r"docs/results/(dap|decaf|mrad|nist|raifle)\.md")
"""Pages whose words belong to stored runs; the tables' own words are in ``papers``."""
BRIEF = "src/divulge/report/brief.py"
"""What it writes is for people who know no word of the field: they are told of outsiders."""
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)\s]*\)|<!--.*?-->|{%.*?%}|{{.*?}}", re.M | re.S)
"""What is no prose in pages, docstrings and templates: blocks, names, addresses, expressions."""


def pages() -> Iterator[tuple[str, str]]:
    """Pages of the documentation, the templates of reports, and settings that users start from."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    for source in SOURCES.values():
        paths += [*source.rglob("*.j2"), *source.rglob("*.txt")]
    for path in sorted(paths):
        name = path.relative_to(ROOT).as_posix()
        if not GENERATED.match(name):
            yield name, path.read_text(encoding="utf-8")


def literals() -> Iterator[tuple[str, int, str]]:
    """Help texts, docstrings and messages of the package, each with its file and first line."""
    for path in sorted(path for source in SOURCES.values() for path in source.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if "/divulge_papers/papers/" not in name:  # what stored runs quote
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield name, node.lineno, node.value


def find_words(text: str) -> Iterator[tuple[int, str]]:
    """Lines, from 0, on which prose has a word to avoid, with what to say in its place."""
    if not ANY.search(text):
        return
    prose = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for hit in ANY.finditer(prose):
        instead = next(say for avoid, say in AVOID.items() if re.fullmatch(avoid, hit[0], re.I))
        yield prose.count("\n", 0, hit.start()), f"{hit[0]!r}: write {instead}"


def test_no_page_uses_a_word_that_readers_stumble_over() -> None:
    found = [
        f"{name}:{line + 1}: {what}" for name, text in pages() for line, what in find_words(text)
    ]
    assert not found, "\n".join(found)


def test_no_help_text_or_message_does() -> None:
    found = [
        f"{name}:{first + line}: {what}"
        for name, first, text in literals()
        if name != BRIEF
        for line, what in find_words(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "It accuses\noutsiders.",
        "Training is dear |",
        "divulge puts all records to the model.",
        "Each record is put to the model once.",
        "Its settings stand beside the name.",
        "Non-members are wrongly accused.",
    ],
)
def test_such_a_word_is_found_in_prose(text: str) -> None:
    assert [line for line, _ in find_words(text)] == [text.count("\n")]


@pytest.mark.parametrize(
    "text", ["`calm`", "```text\noutsiders\n```", "[floor](stacking.md#what-it-stands-beside)"]
)
def test_names_and_addresses_are_none(text: str) -> None:
    assert not list(find_words(text))
