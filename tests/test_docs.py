"""The documentation says what the code does: commands, settings, keys, links, generated pages."""

import dataclasses
import doctest
import inspect
import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import click
import pydantic
import pytest

import divulge
from divulge.attacks import catalog as attacks_catalog
from divulge.audits import config, gate
from divulge.cli.main import main
from divulge.defences import catalog
from divulge.federation import config as federation_config
from divulge.metrics import assignment, composition, interactions
from divulge.metrics.measure import METRICS
from divulge.studies.compare import config as comparing
from divulge.studies.harden import config as hardening
from divulge_papers.provenance import Measurement
from divulge_papers.result import NOT_YET, Completeness, MeasuredPiece, interval, read_outcome
from divulge_papers.table import TABLES, find_table

from .installs.names import DEVELOPERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))
    if not page.is_relative_to(DOCS / "results" / "paper")  # run folders
)
ATTACKS = sorted(
    attacks_catalog.ATTACKS | attacks_catalog.UPDATE_ATTACKS | attacks_catalog.INTERACTION_ATTACKS
)

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


STORED = DOCS / "results"
RUNS = [*sorted(STORED.glob("*.json")), *sorted(STORED.glob("paper/*/table.json"))]


def table_of(path: Path) -> str:
    """The table of a stored run: of size small one file, of size paper a folder."""
    return path.stem if path.parent == STORED else path.parent.name


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_stored_runs_are_of_todays_tables_and_of_a_known_commit(path: Path) -> None:
    outcome = read_outcome(path)
    table = find_table(table_of(path))
    assert outcome.table == table_of(path)
    assert outcome.size == ("small" if path.parent == STORED else "paper")
    assert outcome.rows == tuple(row.name for row in table.rows)
    assert outcome.columns == table.columns
    published = {(row.name, name): value for row in table.rows for name, value in row.paper.items()}
    for cell in outcome.cells:
        assert cell.paper == published.get((cell.row, cell.column))
    commits = {outcome.made.commit, *(piece.made.commit for piece in outcome.pieces)}
    for commit in commits:
        assert re.fullmatch("[0-9a-f]{12}", commit), "run it from a clean checkout"
    assert list(outcome.pairs) == [f"{one}, less {other}" for one, other in table.pairs]
    over = any(cell.ours is not None and cell.kind != "by definition" for cell in outcome.cells)
    assert outcome.intervals.startswith("95 % intervals are over ") == over


def test_both_sizes_of_a_table_stand_on_its_page(tmp_path: Path) -> None:
    small = read_outcome(STORED / "raifle-table5.json")
    measured, others = small.rows[:2], small.rows[2:]
    made = Measurement("0.1.0", "0123456789ab", "", 2, "2026-12-01T10:00:00+00:00", 90.0)
    cells = tuple(
        dataclasses.replace(c, ours=None, reason=NOT_YET) if c.row in others else c
        for c in small.cells
    )
    paper = dataclasses.replace(
        small,
        size="paper",
        cells=cells,
        controls=(small.controls or ())[:2],
        state=Completeness(2, len(small.rows), 2.5),
        pieces=tuple(MeasuredPiece(row, 0, made) for row in measured),
    )
    small.save(tmp_path)
    (tmp_path / "table.json").rename(tmp_path / "raifle-table5.json")
    folder = tmp_path / "paper" / "raifle-table5"
    folder.mkdir(parents=True)
    paper.save(folder)
    write = runpy.run_path(str(DOCS / "generate_results.py"))["pages"]
    write.__globals__["STORED"] = tmp_path
    pages = write()
    lines = pages[tmp_path / "raifle-table5.md"].splitlines()
    start = [line.split(" | ")[:2] for line in lines if line.startswith("| ")]
    assert [f"| {measured[0]}", "small"] in start
    assert ["| ", "paper, 1 of 1 seeds"] in start
    assert not any(size == "paper, 0 of 1 seeds" for _, size, *_ in start)
    note = "A row without a line of size paper is not measured at that size yet."
    assert note in pages[tmp_path / "raifle-table5.md"]
    assert f"| {measured[0]} | 0 | 2026-12-01 | `0123456789ab` | 1.5 | 2 |" in lines
    index = pages[tmp_path / "README.md"]
    state = f"partly: 2 of {len(small.rows)} pieces, about 2.5 core-hours missing"
    assert f"| [raifle-table5](raifle-table5.md) | {small.title} | {state} | small |" in index
    assert f"| table V: recommenders, AUC | [raifle-table5](raifle-table5.md) | {state} |" in index
    claims = pages[tmp_path / "headline-figures.md"].splitlines()
    sizes = [line.split(" | ")[2] for line in claims if "raifle-table5.md" in line]
    assert sizes == ["paper", "small"]  # Steam's rows are not measured yet


def test_every_table_is_an_item_of_its_paper() -> None:
    papers = tomllib.loads((DOCS / "paper-items.toml").read_text(encoding="utf-8"))["paper"]
    items = [item for paper in papers for item in paper["item"]]
    assert {name for item in items for name in item.get("tables", [])} == set(TABLES)


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_no_stored_interval_is_a_point_but_by_definition(path: Path) -> None:
    outcome = read_outcome(path)
    rows = {row.name: row for row in find_table(table_of(path)).rows}
    common = find_table(table_of(path)).common
    for cell in (*outcome.cells, *outcome.differences):
        if cell.ours is None:
            continue
        assert cell.ours.high is not None
        if cell.kind == "mean":
            low, high = interval(cell.ours).partition("(")[2].strip(")").split(" to ")
            assert float(low) < float(high), f"{cell.row}, {cell.column}"
        if cell.kind == "by definition":
            named_by = rows[cell.row].by_definition if cell.row in rows else common
            assert cell.column in named_by


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


@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_has_a_page_that_names_its_settings(name: str) -> None:
    page = (DOCS / "attacks" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    table = (DOCS / "attacks" / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| \[{name}\]\({name}\.md\) .*$", table, re.M)
    for field in dataclasses.fields(attacks_catalog.attack_class(name)):
        setting = field.name
        assert f"`{setting}`" in page
        assert f"`{setting}`" in row
        default = "none" if field.default is None else f"`{json.dumps(field.default)}`"
        own = re.findall(rf"^\| `{setting}` \|.*$", page, re.M)
        assert any(f"| {default} |".lower() in line.lower() for line in own), (setting, default)


ATTACK_PARTS = {
    "needs": r"^## What it needs|^\| needs",
    "formula": r"^## (The f|F)ormula|^## How it works|^## The published method",
    "paper": r"^## Papers?$|^\| papers?",
    "settings": r"^## Settings",
    "cost": r"^## Cost|^\| cost",
    "when to use it": r"^## When to use it",
    "how to read it": r"^## How to read",
    "what was measured": r"^## (A m|M)easured|^## What (was measured|it finds)",
    "weaknesses": r"^## (Known w|W)eaknesses",
}
DEFENCE_PARTS = {
    "needs": r"^\| needs",
    "paper": r"^\| paper",
    "formula": r"^## Formula",
    "guarantee": r"^## Guarantee",
    "settings": r"^## Settings",
    "cost": r"^## What it costs",
    "limits": r"^## What it does not protect",
}


@pytest.mark.parametrize("name", sorted({*ATTACKS, "stacking"}))
def test_each_attacks_page_answers_what_readers_ask(name: str) -> None:
    page = (DOCS / "attacks" / f"{name}.md").read_text(encoding="utf-8")
    assert [part for part, said in ATTACK_PARTS.items() if not re.search(said, page, re.M)] == []


@pytest.mark.parametrize(
    "path",
    [
        page
        for page in PAGES
        if page.parent.name == "defences" and page.stem not in ("README", "hardening")
    ],
    ids=named,
)
def test_each_defences_page_answers_what_readers_ask(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    parts = DEFENCE_PARTS
    if path.stem in catalog.UPDATE_DEFENCES:
        parts = parts | {"what was measured": r"^## What was measured"}
    assert [part for part, said in parts.items() if not re.search(said, page, re.M)] == []


@pytest.mark.parametrize("name", [name for name in catalog.UPDATE_DEFENCES if name != "none"])
def test_each_update_defence_has_a_page_that_names_its_settings(name: str) -> None:
    check_settings_are_named(name, catalog.update_defence_class(name))


@pytest.mark.parametrize("name", catalog.ANSWER_DEFENCES)
def test_each_answer_defence_has_a_page_that_names_its_settings(name: str) -> None:
    check_settings_are_named(name, catalog.answer_defence_class(name))


@pytest.mark.parametrize("name", catalog.TRAINED_DEFENCES)
def test_each_defence_that_is_trained_in_has_a_page_that_names_its_settings(name: str) -> None:
    everywhere = {"recipe", "way", "workers", "device"}
    check_settings_are_named(name, catalog.trained_defence_class(name), everywhere)


def check_settings_are_named(name: str, cls: Any, everywhere: Container[str] = ()) -> None:
    """A defence's page, and its row in the table of all, name each setting but the common ones."""
    page = (DOCS / "defences" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    table = (DOCS / "defences" / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| \[{name}\]\({name}\.md\) .*$", table, re.M)
    for setting in dataclasses.fields(cls):
        if setting.name not in everywhere:
            assert f"`{setting.name}`" in page
            assert f"`{setting.name}`" in row


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
    if not {"predictions", "leave_one_out", *config.FEDERATED} & table.keys():
        for section, text in SETTINGS.items():
            table = tomllib.loads(text) | table if section not in table else table
    parsed = config.parse_config(table, "the documentation")
    assert config.requested_attacks(parsed, mine)
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
