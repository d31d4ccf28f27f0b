"""The documentation says what the code does: commands, settings, keys, links, generated pages."""

import csv
import dataclasses
import doctest
import inspect
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import click
import pydantic
import pytest

import divulge
from divulge.attacks import catalog as attacks_catalog
from divulge.audits import config
from divulge.audits.requested_attacks import requested_attacks
from divulge.cli.main import main
from divulge.federation import config as federation_config
from divulge.finished_runs import gate
from divulge.metrics import assignment, composition, interactions
from divulge.metrics.measure import METRICS
from divulge.secrets import registry
from divulge.studies.compare import config as comparing
from divulge.studies.harden import config as hardening
from divulge_papers.figure import NOT_YET, interval
from divulge_papers.provenance import Measurement
from divulge_papers.published import read_published
from divulge_papers.result import Completeness, MeasuredPiece, Outcome
from divulge_papers.table import TABLES, find_table
from divulge_papers.table_csv import from_csv, to_csv

from .installs.names import DEVELOPERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
COMPONENTS = runpy.run_path(str(DOCS / "generate_components.py"))

SETTINGS = {
    "target": '[target]\nmodel = "subject.py:model"\n',
    "data": '[data]\nmembers = "m.npz"\nnonmembers = "n.npz"\n',
}
"""What completes a snippet of audit.toml that shows one section."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    return (found[1] for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.M | re.S))


def snippets(language: str) -> list[Any]:
    return [
        pytest.param(block, id=named(page)) for page in PAGES for block in blocks(page, language)
    ]


def test_generated_pages_are_up_to_date() -> None:
    pages = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    assert pages
    for path, content in pages.items():
        assert path.read_text(encoding="utf-8") == content, f"run `make docs`: {named(path)}"


RESULTS = DOCS / "results"


def stored(name: str) -> list[Outcome]:
    """A stored table, at both sizes."""
    text = (RESULTS / f"{name}.csv").read_text(encoding="utf-8")
    return list(from_csv(name, text).values())


@pytest.mark.parametrize("name", sorted(TABLES))
def test_stored_tables_are_todays_and_of_a_known_commit(name: str) -> None:
    table = find_table(name)
    published = {(row.name, name): value for row in table.rows for name, value in row.paper.items()}
    outcomes = stored(name)
    assert outcomes[0].size == "small"
    for outcome in outcomes:
        assert outcome.rows == tuple(row.name for row in table.rows)
        assert list(outcome.pairs) == [f"{one}, less {other}" for one, other in table.pairs]
        for cell in outcome.cells:
            assert cell.paper == published.get((cell.row, cell.column))
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["less"] == "" != line["date"]]
    for line in lines:
        assert re.fullmatch("[0-9a-f]{12}( [0-9a-f]{12})*", line["commit"]), "of a clean checkout"


def test_a_page_shows_the_larger_size_once_a_published_figure_is_there() -> None:
    """Of a row without figures at size paper a claim has those of size small."""
    small = read_published(ROOT / "papers" / "results", "raifle-table5", "small")
    assert small is not None
    measured, others = small.rows[:2], small.rows[2:]
    cells = [
        dataclasses.replace(c, ours=None, reason=NOT_YET) if c.row in others else c
        for c in small.cells
    ]
    made = Measurement("0.1.0", "0123456789ab", "", 2, "2026-12-01T10:00:00+00:00", 90.0)
    paper = dataclasses.replace(
        small,
        size="paper",
        cells=tuple(cells),
        controls=(small.controls or ())[:2],
        state=Completeness(2, len(small.rows), 2.5),
        pieces=tuple(MeasuredPiece(row, 0, made) for row in measured),
    )
    write = runpy.run_path(str(DOCS / "generate_results.py"))["pages"]
    read = write.__globals__["_read"]
    changed = {"results/raifle-table5.csv": to_csv([paper, small])}
    write.__globals__["_read"] = lambda name: changed.get(name) or read(name)
    pages = write()
    page = pages[RESULTS / "raifle.md"]
    assert f"| {measured[0]} | 0.998 |" in page
    assert f"| {others[0]} | 0.960 |" not in page
    hours = find_table("raifle-table5").minutes["paper"] / 60
    state = f"2 of {len(small.rows)} pieces; all take {hours:.0f} core-hours"
    assert f"| [raifle-table5](raifle-table5.csv) | table V: recommenders, AUC | {state} |" in page
    claims = pages[RESULTS / "headline-figures.md"].splitlines()
    sizes = [line.split(" | ")[2] for line in claims if "MovieLens" in line or "Steam" in line]
    assert sizes == [
        "300 of 943 users",
        "6 users",
        "50 of 943 users",
    ]  # Steam's rows are not measured yet


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=named)
def test_a_page_of_results_has_at_most_2000_words(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= 2_000


def test_every_table_is_an_item_of_its_paper() -> None:
    papers = tomllib.loads((DOCS / "papers.toml").read_text(encoding="utf-8"))["paper"]
    items = [item for paper in papers for item in paper["item"]]
    assert {name for item in items for name in item.get("tables", [])} == set(TABLES)


def test_claims_quote_the_published_figures() -> None:
    papers = tomllib.loads((DOCS / "papers.toml").read_text(encoding="utf-8"))["paper"]
    for claim in (claim for paper in papers for claim in paper["claim"]):
        rows = {row.name: row.paper for row in find_table(claim["table"]).rows}
        quoted = rows[claim["same"]].get(claim["column"])
        assert quoted in (None, pytest.approx(claim["paper"], abs=5e-4)), claim["says"]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_stored_interval_is_a_point_but_by_definition(name: str) -> None:
    rows = {row.name: row for row in find_table(name).rows}
    for outcome in stored(name):
        for cell in (*outcome.cells, *outcome.differences):
            if cell.kind == "mean" and cell.ours is not None:
                low, high = interval(cell.ours).partition("(")[2].strip(")").split(" to ")
                assert float(low) < float(high), f"{cell.row}, {cell.column}"
            if cell.kind == "by definition":
                row = rows.get(cell.row)
                assert cell.column in (row.by_definition if row else find_table(name).common)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_each_command_has_help_and_an_example(name: str) -> None:
    text = inspect.cleandoc(main.commands[name].help or "")
    assert text.splitlines()[0].endswith(".")
    assert re.search(rf"^Example: divulge {name}\b", text, re.M)
    options = [p for p in main.commands[name].params if isinstance(p, click.Option)]
    assert all(option.help for option in options)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_each_command_is_documented(name: str) -> None:
    assert f"## divulge {name}\n" in (DOCS / "cli.md").read_text(encoding="utf-8")
    prose = [(ROOT / "README.md"), (DOCS / "tutorial.md")]
    assert any(f"divulge {name}" in page.read_text(encoding="utf-8") for page in prose)


@pytest.mark.parametrize("block", snippets("sh"))
def test_command_lines_in_the_documentation_are_valid(block: str) -> None:
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["divulge"] and words[1:]:
            command = main.commands[words[1]]
            command.make_context(words[1], words[2:])  # raises on an unknown option


@pytest.mark.parametrize("block", snippets("python"))
def test_python_that_is_shown_and_not_run_is_python(block: str) -> None:
    if ">>>" not in block:
        compile(block, "snippet", "exec")


SECTION_PARTS = {
    "attacks": ("**Use it**", "**Weak**"),
    "defences": ("**Guarantee**", "**Cost**", "**Use it**", "**Weak**"),
}
"""What a section says by hand, below what is written from the class."""


@pytest.mark.parametrize("name", COMPONENTS["places"]())
def test_each_attack_and_defence_has_one_section_that_answers_what_readers_ask(name: str) -> None:
    room, _, short = name.partition("/")
    (path,) = COMPONENTS["places"]()[name]
    page = path.read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {short}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    _, begun, rest = section.partition(f"<!-- {short}, from its class -->\n")
    _, ended, by_hand = rest.partition("<!-- end -->\n")
    assert begun
    assert ended
    assert [part for part in SECTION_PARTS[room] if part not in by_hand] == []


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if page.parent.name in ("attacks", "defences")
        or (page.parent == DOCS and page.stem not in ("cli", "settings"))  # which are generated
    ],
    ids=named,
)
def test_a_page_has_at_most_2000_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    words = [word for word in text.split() if any(map(str.isalnum, word))]
    assert len(words) <= 2000, len(words)


@pytest.mark.parametrize("path", sorted((DOCS / "results" / "measured").glob("*.csv")), ids=named)
def test_a_measured_table_is_a_table_and_is_listed_with_its_command(path: Path) -> None:
    head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    assert rows
    assert {len(row) for row in rows} == {len(head)}
    assert f"]({path.name})" in (path.parent / "README.md").read_text(encoding="utf-8")


def test_the_default_attacks_are_those_that_the_pages_count() -> None:
    assert len(attacks_catalog.default_attacks()) == 12
    assert [a.name for a in attacks_catalog.default_attacks(shadows=True)[12:]] == list(
        attacks_catalog.SHADOW_ATTACKS
    )
    signals = {
        getattr(a, "signal", None)
        for a in attacks_catalog.default_attacks()
        if a.name == "threshold"
    }
    assert len(signals) == 6


def sections(model: type[pydantic.BaseModel]) -> Iterator[type[pydantic.BaseModel]]:
    """The settings and all sections in them."""
    yield model
    for field in model.model_fields.values():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, pydantic.BaseModel):
                yield from sections(part)


@pytest.mark.parametrize(
    "settings",
    [
        *get_args(config.AuditSpec),
        comparing.CompareSpec,
        hardening.HardenSpec,
        federation_config.FederationSpec,
    ],
)
def test_every_section_has_its_table_of_keys(settings: type[pydantic.BaseModel]) -> None:
    there = runpy.run_path(str(DOCS / "generate_settings.py"))["documented"]()
    assert set(sections(settings)) <= there


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with the attack that the documentation shows, in ``mine.py``."""
    page = (DOCS / "attacks" / "adding-an-attack.md").read_text(encoding="utf-8")
    shown = [example.source for example in doctest.DocTestParser().get_examples(page)]
    last = next(k for k, source in enumerate(shown) if "class Surest" in source)
    (tmp_path / "mine.py").write_text("".join(shown[: last + 1]))
    return tmp_path


@pytest.mark.parametrize("block", snippets("toml"))
def test_settings_in_the_documentation_are_valid(block: str, mine: Path) -> None:
    table = tomllib.loads(block)
    if {"clients", "recommender", "ranker"} & table.keys():
        assert federation_config.build_defence(
            federation_config.parse(table, "the documentation")
        ).name
        return
    if "ceiling" in table:
        assert hardening.parse(table, "the documentation").ceiling
        return
    if "defences" in table:
        assert comparing.attacks(comparing.parse(table, "the documentation"), mine)
        return
    if not {"predictions", "leave_one_out", *registry.SECTIONS} & table.keys():
        for section, text in SETTINGS.items():
            table = tomllib.loads(text) | table if section not in table else table
    parsed = config.parse_config(table, "the documentation")
    assert requested_attacks(parsed, mine)
    asked = parsed.gate
    wanted = gate.Gate(tuple(asked.fail_on), asked.fail_above, about=parsed.about)
    assert dict(wanted.ceilings) == asked.fail_above


def test_each_metric_and_each_extra_is_documented() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    federated = (*composition.METRICS, *interactions.METRICS, *assignment.METRICS)
    for name in (*METRICS, *federated):
        assert f"`{name}`" in page
    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in project["optional-dependencies"]:
        assert extra in DEVELOPERS or f"| `{extra}` |" in tutorial


def anchor(heading: str) -> str:
    """The name that a heading's link has: lower case, hyphens for spaces, no punctuation."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return plain.replace(" ", "-")


def prose(path: Path) -> str:
    """A page without its code, where brackets mean something else."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, fragment = unquote(link).partition("#")
        target = (page.parent / file).resolve() if file else page
        if target.suffix == ".html" and target.parent == DOCS / "gallery":  # made with the site
            assert f'"{target.stem}"' in (DOCS / "generate_gallery.py").read_text(encoding="utf-8")
            continue
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if fragment:
            text = target.read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.*)$", text, re.M)
            assert fragment in map(anchor, headings), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)\s#]+\.md)", prose(page))
        waiting += [(page.parent / link).resolve() for link in links if "://" not in link]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("name", dir(divulge))
def test_each_public_name_has_a_docstring(name: str) -> None:
    thing = getattr(divulge, name)
    text = inspect.getdoc(thing) or ""
    assert text.splitlines()[0].rstrip().endswith((".", ":")), text
    if dataclasses.is_dataclass(thing):
        assert not text.startswith(f"{name}("), "a docstring that dataclasses made up"


def test_the_example_in_the_readme_runs() -> None:
    flags = doctest.ELLIPSIS
    tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=flags)
    assert tried.attempted
    assert tried.failed == 0
