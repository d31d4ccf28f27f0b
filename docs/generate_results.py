"""The pages of published tables measured again, from ``results/*.csv`` and ``papers.toml``.

``publish_results.py`` writes the CSV files, and ``generate.py`` calls `pages`.
"""

import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from divulge.report.charts import render
from divulge_papers import charts
from divulge_papers.figure import Cell, figure, interval
from divulge_papers.papers.raifle import tradeoff
from divulge_papers.result import Outcome
from divulge_papers.table import TABLES, Size, find_table
from divulge_papers.table_csv import from_csv

HERE = Path(__file__).parent
STORED = HERE / "results"
CURVE = HERE / "images" / "raifle-privacy-utility.svg"
NOTE = "<!-- Written by docs/generate.py from results/*.csv and papers.toml: run `make docs`. -->"
REASONS = {"missing": "not measured: ", "impossible": "impossible here: ", "nothing": ""}
"""What the pages say before the reason why no table measures an item, by its key in the file."""

Paper = Mapping[str, Any]
"""A paper of ``papers.toml``."""


class Stored(NamedTuple):
    """What is stored of a table, by size."""

    name: str
    sizes: Mapping[Size, Outcome]

    @property
    def whole(self) -> bool:
        """Whether size paper is complete."""
        return "paper" in self.sizes and self.sizes["paper"].complete

    @property
    def drawn(self) -> Outcome:
        """The outcome of size paper where it is complete, else that of size small."""
        return self.sizes["paper" if self.whole else "small"]

    @property
    def shown(self) -> Outcome:
        """The outcome of size paper once it has a figure beside a published one, else as drawn."""
        paper = self.sizes.get("paper", self.drawn)
        return paper if any(cell.difference is not None for cell in paper.cells) else self.drawn

    @property
    def state(self) -> str:
        """How much is measured at size paper."""
        if self.whole:
            return "complete"
        there = self.sizes["paper"].state if "paper" in self.sizes else None
        hours = find_table(self.name).minutes["paper"] / 60
        begun = f"{there.pieces} of {there.of} pieces" if there else "not begun"
        return f"{begun}; all take {hours:.0f} core-hours"

    @property
    def link(self) -> str:
        """The table's CSV file."""
        return f"[{self.name}]({self.name}.csv)"


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    tables = {name: Stored(name, from_csv(name, _read(f"results/{name}.csv"))) for name in TABLES}
    papers: list[Paper] = tomllib.loads(_read("papers.toml"))["paper"]
    drawn = {name: table.drawn for name, table in tables.items()}
    return {
        STORED / "README.md": _overview(papers, tables),
        STORED / "headline-figures.md": _headlines(papers, tables),
        **{STORED / f"{paper['stem']}.md": _paper(paper, tables) for paper in papers},
        **{STORED / f"{name}.svg": _curves(one) for name, one in drawn.items() if one.drawn},
        CURVE: _svg(tradeoff.tradeoff_chart(drawn)),
    }


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _svg(chart: Any) -> str:
    return render(chart, "svg").decode()


def _curves(outcome: Outcome) -> str:
    return _svg(charts.curve_chart(outcome))


def _overview(papers: Sequence[Paper], tables: Mapping[str, Stored]) -> str:
    head = ("paper", "tables", "complete at paper size", "published figures within our interval")
    rows = []
    for paper in papers:
        own = _of(paper, tables)
        name = f"[{paper['name']}]({paper['stem']}.md)"
        whole = sum(table.whole for table in own)
        rows += [(name, f"{len(own)}", f"{whole}", _agreement(table.shown for table in own))]
    outcomes = [one for table in tables.values() for one in table.sizes.values()]
    hours = sum(one.made.cpu_seconds for one in outcomes) / 3600
    return _page(
        "Results",
        "What divulge measured: the tables of five papers, and its own strength and speed.",
        "## Tables of papers",
        "[`divulge reproduce`](reproductions.md) measures published tables again. The page of a "
        "paper says what comes out, and what differs. An interval that covers the published figure "
        "proves no sameness, and one that does not is a difference to explain: data, sizes and "
        "repeats are not the papers'. Rows of our own methods are compared with the figure of the "
        "paper's, and counted too.",
        _grid(head, rows),
        "All claims in one table: [headline figures](headline-figures.md).",
        "Every table is a CSV file beside its page, with all rows at both "
        "[sizes](reproductions.md): our figures, the ends of their 95 % intervals, the published "
        "figures, numbers of units and seeds, numbers of attacks that ran, failed a "
        "[control](../checks-and-controls.md#controls) or were not tested by one, CPU seconds, "
        "date and commit. A line with `less` is the difference of two rows that were measured on "
        f"the same units. Together they took {hours:.0f} core-hours. The pieces behind them are in "
        "`papers/results` of the repository.",
        "## Other measurements",
        "* [divulge and other tools](peers.md): strength, time and memory on the same models;\n"
        "* [how often audits of people err](people.md), where nothing leaks;\n"
        "* [what shadow attacks find](shadow-quality.md) with 2 to 64 shadow models,\n"
        "  and [those of other tools](shadow-peers.md) on the same ones;\n"
        "* [what private clients cost](federated-utility.md) in accuracy;\n"
        "* [benchmarks](benchmarks.md) of time and memory, and [what became faster](speed.md).",
    )


def _headlines(papers: Sequence[Paper], tables: Mapping[str, Stored]) -> str:
    claims = [
        claim | {"says": f"[{paper['name']}]({paper['stem']}.md): {claim['says']}"}
        for paper in papers
        for claim in paper["claim"]
    ]
    return _page(
        "Headline figures",
        "What each of five papers claims first, beside what we get: by the paper's own method, as "
        "far as it can be built from the paper, and by another one of divulge's on the same units. "
        "Figures have their 95 % intervals. The page of a paper says what explains a difference.",
        _claims(claims, tables),
    )


def _paper(paper: Paper, tables: Mapping[str, Stored]) -> str:
    own = _of(paper, tables)
    figures = [
        f"![{table.drawn.title}: some rows as curves, size {table.drawn.size}]({table.name}.svg)"
        for table in own
        if table.drawn.drawn
    ]
    gaps = [f"* *{claim['says']}:* {_gap(claim, tables)}" for claim in paper["claim"]]
    listed = [row for name in paper["shows"] for row in _published(tables[name])]
    return _page(
        f"{paper['name']}, measured again",
        f"{paper['about']}. [How it works](../{paper['page']}).",
        f"**{_agreement(table.shown for table in own)} published figures lie within our 95 % "
        "interval.** Figures are of size paper where that is measured, and else of size small. "
        "What differs from the paper is [below](#what-differs-from-the-paper).",
        "## What it claims first",
        _claims(paper["claim"], tables),
        "What explains the differences:",
        "\n".join(gaps),
        "## Its tables",
        "Each links to a CSV file with [all rows](README.md#tables-of-papers). The difference is "
        "the median of ours less the published figure, without its sign.",
        _grid(
            ("table", "in the paper", "size paper", "within", "difference", "over", "controls"),
            [_about(table, paper) for table in own],
        ),
        "\n".join(_unmeasured(paper)),
        *figures,
        *(["## Published figures", _grid(_PUBLISHED, listed)] if listed else []),
        "## What differs from the paper",
        "\n".join(_differences(own)),
    )


def _of(paper: Paper, tables: Mapping[str, Stored]) -> list[Stored]:
    """Tables of a paper."""
    return [table for table in tables.values() if table.name.startswith(f"{paper['stem']}-")]


def _agreement(outcomes: Iterable[Outcome]) -> str:
    both = [c for one in outcomes for c in one.cells if c.difference is not None]
    return f"{sum(cell.covers for cell in both)} of {len(both)}" if both else "none published"


def _about(table: Stored, paper: Paper) -> tuple[str, ...]:
    """The line of a table in the page of its paper."""
    one = table.shown
    items = [item for item in paper["item"] if table.name in item.get("tables", ())]
    names = (item["name"] + (f" ({item['note']})" if "note" in item else "") for item in items)
    apart = [abs(cell.difference) for cell in one.cells if cell.difference is not None]
    median = f"{statistics.median(apart):.3f}" if apart else ""
    told = (one.control(row).partition(" of ")[0].rstrip("0123456789 ") for row in one.rows)
    controls = ", ".join(f"{count} {kind}" for kind, count in Counter(told).items())
    begin = table.link, "; ".join(names), table.state, _agreement([one]), median
    return *begin, find_table(table.name).units, controls


def _unmeasured(paper: Paper) -> Iterator[str]:
    for key, state in REASONS.items():
        yield from (f"* {i['name']}: {state}{i[key]}." for i in paper["item"] if key in i)


_PUBLISHED = ("table", "row", "the paper", "ours", "the paper's is")
"""Columns of published figures, the last of which compares them with our interval."""


def _published(table: Stored) -> Iterator[tuple[str, ...]]:
    """Lines of figures that the paper has too, of the first column that has any."""
    one = table.shown
    both = [cell for cell in one.cells if cell.difference is not None]
    for k, cell in enumerate(cell for cell in both if cell.column == both[0].column):
        name = f"{table.link}, {cell.column}" if k == 0 else ""
        yield name, cell.row, f"{cell.paper:.3f}", _figure(one, cell), _verdict(cell)


def _differences(tables: Sequence[Stored]) -> Iterator[str]:
    """What the tables of a paper say of their differences: each sentence once, with its tables."""
    told: dict[str, list[str]] = {}
    for table in tables:
        for sentence in re.split(r"[.;] ", table.shown.differs.rstrip(".")):
            names = told.setdefault(sentence[0].upper() + sentence[1:], [])
            names.append(table.name.partition("-")[2])
    shared: dict[tuple[str, ...], list[str]] = {}
    for sentence, names in told.items():
        shared.setdefault(tuple(names), []).append(sentence)
    for names, sentences in shared.items():
        where = "All tables" if len(names) == len(tables) else ", ".join(names)
        yield f"* **{where}**: {'. '.join(sentences)}."


def _claims(claims: Sequence[Mapping[str, Any]], tables: Mapping[str, Stored]) -> str:
    return _grid(_CLAIM, [_claim(claim, tables) for claim in claims])


_CLAIM = (
    "claim",
    "the paper",
    "ours is of",
    "ours, by its method",
    "the paper's is",
    "what decides",
    "ours, by another",
)


def _claim(claim: Mapping[str, Any], tables: Mapping[str, Stored]) -> tuple[str, ...]:
    """A line: the claim, the paper's figure, ours by its method and by another."""
    outcome = _shown(claim, tables)
    cells = _claimed(claim, outcome)
    other = f"{_figure(outcome, cells['other'])} {claim['how']}" if "other" in cells else ""
    pairs = outcome.pairs.get(f"{claim.get('other')}, less {claim['same']}", ())
    apart = [c.ours for c in pairs if c.column == claim["column"] and c.ours is not None]
    other += "".join(f"; difference {interval(one)}" for one in apart)
    ours, paper = _figure(outcome, cells["same"]), f"{claim['paper']:.3f}"
    extent = claim.get(f"of-{outcome.size}", outcome.size)
    verdict, decides = _verdict(cells["same"]), claim.get("decides", "")
    return claim["says"], paper, extent, ours, verdict, decides, other


def _shown(claim: Mapping[str, Any], tables: Mapping[str, Stored]) -> Outcome:
    """The largest outcome that has all figures of a claim, or that of the size it names."""
    return [
        one
        for one in tables[claim["table"]].sizes.values()
        if claim.get("at", one.size) == one.size
        and all(cell.ours is not None for cell in _claimed(claim, one).values())
    ][-1]


def _claimed(claim: Mapping[str, Any], outcome: Outcome) -> dict[str, Cell]:
    """Cells of the paper's method and of another one, as far as a claim names them."""
    return {
        key: next(c for c in outcome.of_row(claim[key]) if c.column == claim["column"])
        for key in ("same", "other")
        if key in claim
    }


def _gap(claim: Mapping[str, Any], tables: Mapping[str, Stored]) -> str:
    """The reason of the difference at the size that is shown."""
    gap: str = claim["gap" if _shown(claim, tables).size == "small" else "gap-paper"]
    return gap


def _figure(outcome: Outcome, cell: Cell) -> str:
    """Our figure, and whether the row's attacks failed a control."""
    control = outcome.control(cell.row)
    return figure(cell) + f" (controls: {control})" * control.startswith("FAILED")


def _verdict(cell: Cell) -> str:
    if cell.covers:
        return "within"
    return "" if cell.difference is None else "below" if cell.difference > 0 else "above"


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", NOTE, *filter(None, parts))) + "\n"
