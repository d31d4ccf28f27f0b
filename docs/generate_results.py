"""The pages of measured tables, from the runs stored in ``docs/results``.

``NAME.json`` there is the ``table.json`` of a run of size small, and ``paper/NAME`` is a run folder
of size paper, which grows. ``generate.py`` calls `pages`.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from divulge.report.charts import render
from divulge_papers import charts
from divulge_papers.papers.raifle import tradeoff
from divulge_papers.result import (
    DIFFERENCES_NOTE,
    NOT_YET,
    RESULT_FILE,
    Cell,
    MeasuredPiece,
    Outcome,
    cell_text,
    figure,
    format_hours,
    interval,
    read_outcome,
)
from divulge_papers.table import TABLES, Size, find_table

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
STORED = HERE / "results"
CURVE = HERE / "images" / "raifle-privacy-utility.svg"
MARKS = ("<!-- headline figures -->\n", "<!-- end of headline figures -->\n")

HEAD = (
    "| claim | the paper | size of ours | ours, by its method | ours, by another |",
    "| --- | --- | --- | --- | --- |",
)
ITEM_STATES = {
    "missing": "missing",
    "impossible": "impossible here",
    "nothing": "nothing to measure",
}
"""What the pages call an item of a paper that no table measures, by its key in the file."""
NOTE = "<!-- Written by docs/generate.py from the runs in docs/results: run `make docs`. -->"


class Stored(NamedTuple):
    """What is stored of a table."""

    name: str
    small: Outcome | None
    paper: Outcome | None
    """None where nothing is measured."""

    @property
    def sizes(self) -> dict[Size, Outcome]:
        """The outcomes that are there, by size."""
        pairs: tuple[tuple[Size, Outcome | None], ...] = (
            ("small", self.small),
            ("paper", self.paper),
        )
        return {size: one for size, one in pairs if one is not None}

    @property
    def drawn(self) -> Outcome:
        """The largest outcome that is complete, or else the only one."""
        whole = [one for one in self.sizes.values() if one.complete]
        return (whole or [*self.sizes.values()])[-1]

    @property
    def state(self) -> str:
        """How much is measured at size paper."""
        if self.paper is None:
            hours = find_table(self.name).minutes["paper"] / 60
            start = "small only" if self.small else "not stored yet"
            return f"{start}: about {format_hours(hours)} core-hours missing"
        state = self.paper.state
        if state is None or self.paper.complete:
            return "reproduced at paper size"
        there = f"{state.pieces} of {state.of} pieces"
        hours = format_hours(state.core_hours_missing)
        return f"partly: {there}, about {hours} core-hours missing"


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    tables = {name: Stored(name, *_read(name)) for name in TABLES}
    stored = {name: table for name, table in tables.items() if table.sizes}
    drawn = {name: table.drawn for name, table in stored.items()}
    papers = _read_toml("headlines.toml")
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return {
        STORED / "README.md": _index(tables, _read_toml("paper-items.toml")),
        STORED / "headline-figures.md": _headlines(papers, stored),
        README: before + MARKS[0] + _few(papers, stored) + MARKS[1] + after,
        **{STORED / f"{name}.md": _table(table) for name, table in stored.items()},
        **{STORED / f"{name}.svg": _curves(one) for name, one in drawn.items() if one.drawn},
        **_curve(drawn),
    }


def _read(name: str) -> tuple[Outcome | None, Outcome | None]:
    """The stored outcomes of a table at size small and paper."""
    paths = STORED / f"{name}.json", STORED / "paper" / name / RESULT_FILE
    small, paper = (read_outcome(path) if path.is_file() else None for path in paths)
    return small, None if paper is None or not paper.pieces else paper


def _read_toml(name: str) -> list[dict[str, Any]]:
    papers: list[dict[str, Any]] = tomllib.loads((HERE / name).read_text("utf-8"))["paper"]
    return papers


def _curve(outcomes: Mapping[str, Outcome]) -> dict[Path, str]:
    """The privacy-utility curve, where both of its tables are stored."""
    chart = tradeoff.tradeoff_chart(outcomes)
    return {} if chart is None else {CURVE: render(chart, "svg").decode()}


def _index(tables: Mapping[str, Stored], papers: list[dict[str, Any]]) -> str:
    stored = [table for table in tables.values() if table.sizes]
    missing = [f"`{name}`" for name, table in tables.items() if not table.sizes]
    outcomes = [one for table in stored for one in table.sizes.values()]
    total = sum(one.made.cpu_seconds for one in outcomes) / 3600
    return "\n".join(
        [
            "# Results",
            "",
            NOTE,
            "",
            "Published tables, measured again by [`divulge reproduce`](reproductions.md). "
            "Each page holds our figures with their 95 % intervals at both sizes, the paper's, the "
            "difference, what differs in data and size, and what measured them. "
            "An interval that covers the published figure proves no sameness, and one that does "
            "not is a difference to explain: data, sizes and repeats are not the papers'. "
            "[Another processor](reproductions.md#on-another-processor) rounds otherwise.",
            "",
            "| table | what | paper size | size shown | published figures within our interval | "
            "rows by control | minutes of one core | date | commit |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *(line for table in stored for line in _index_lines(table)),
            "",
            f"Together {total:.1f} core-hours, with what tables share counted in each.",
            "",
            *([f"Not stored yet: {', '.join(missing)}.", ""] * bool(missing)),
            "What the papers claim first, beside ours: [headline figures](headline-figures.md).",
            "",
            *_items(papers, tables),
        ]
    )


def _index_lines(table: Stored) -> Iterator[str]:
    """A line for each size: a table's name and state stand in the first."""
    for k, (size, one) in enumerate(table.sizes.items()):
        about = f"[{table.name}]({table.name}.md) | {one.title} | {table.state}"
        yield (
            f"| {' | | ' if k else about} | {size} | {_agreement(one)} | {_controls(one)} | "
            f"{one.made.cpu_seconds / 60:.1f} | {one.made.date[:10]} | `{one.made.commit}` |"
        )


def _items(papers: list[dict[str, Any]], tables: Mapping[str, Stored]) -> list[str]:
    """Every table and figure of each paper with its state."""
    lines = ["## Every table and figure of the papers", ""]
    for paper in papers:
        lines += [f"### {paper['name']}", "", "| item | table | state |", "| --- | --- | --- |"]
        lines += [_item(item, tables) for item in paper["item"]] + [""]
    return lines


def _item(item: Mapping[str, Any], tables: Mapping[str, Stored]) -> str:
    (kind,) = item.keys() - {"name", "note"}  # one state an item
    if kind != "tables":
        state = f"{ITEM_STATES[kind]}: {item[kind]}"
        return f"| {item['name']} | | {state} |"
    names = item["tables"]
    links = ", ".join(f"[{name}]({name}.md)" if tables[name].sizes else name for name in names)
    states = "; ".join(dict.fromkeys(tables[name].state for name in names))
    note = f" ({item['note']})" if "note" in item else ""
    return f"| {item['name']} | {links} | {states}{note} |"


def _agreement(outcome: Outcome) -> str:
    both = [cell for cell in outcome.cells if cell.difference is not None]
    return f"{sum(cell.covers for cell in both)} of {len(both)}"


def _controls(outcome: Outcome) -> str:
    """Numbers of rows whose attacks passed, failed or were not tested by controls."""
    told = [outcome.control(row).partition(" of ")[0].rstrip("0123456789 ") for row in outcome.rows]
    return ", ".join(f"{count} {kind}" for kind, count in Counter(told).items())


def _table(table: Stored) -> str:
    """The page of a table: both sizes beside each other, then what is to be said of each."""
    any_size = next(iter(table.sizes.values()))
    lines = [f"# {table.name}", "", NOTE, "", f"**{any_size.title}.** {any_size.source}.", ""]
    alt = "Some rows as curves, with their 95 % intervals"
    if table.drawn.drawn:
        lines += [f"![{alt}, size {table.drawn.size}]({table.name}.svg)", ""]
    lines += [f"State: {table.state}. Each cell: ours with its 95 % interval; where the "]
    lines[-1] += "paper has a figure, that, and ours less the paper's."
    lines[-1] += " After ± the standard deviation of values." if any_size.spreads else ""
    if table.paper is not None and not table.paper.complete:
        lines[-1] += " A row without a line of size paper is not measured at that size yet."
    rows = {size: {row: one.of_row(row) for row in one.rows} for size, one in table.sizes.items()}
    lines += ["", *_grid(table, rows, about_rows=True), ""]
    if any(one.pairs for one in table.sizes.values()):
        pairs = {size: one.pairs for size, one in table.sizes.items()}
        lines += [DIFFERENCES_NOTE, "", *_grid(table, pairs), ""]
    for size, one in table.sizes.items():
        lines += [f"## Size {size}", "", *_about(one)]
    return "\n".join(lines)


def _grid(
    table: Stored,
    rows: Mapping[Size, Mapping[str, tuple[Cell, ...]]],
    *,
    about_rows: bool = False,
) -> list[str]:
    """A line for each row and size, the sizes of a row under each other.

    A row has no line at a size where nothing of it is measured yet, unless it has no other.
    """
    columns = next(iter(table.sizes.values())).columns
    head = ("", "size", *columns, *(["controls"] if about_rows else []))
    lines = [_line_of(head), _line_of(["---"] * len(head))]
    for row in dict.fromkeys(name for named in rows.values() for name in named):
        sizes = [size for size, named in rows.items() if row in named]
        begun = [size for size in sizes if not all(_is_open(cell) for cell in rows[size][row])]
        for k, size in enumerate(begun or sizes[:1]):
            one = table.sizes[size]
            part = "" if one.complete or not about_rows else f", {one.seeds(row)} seeds"
            cells = map(cell_text, rows[size][row])
            last = [one.control(row)] if about_rows else []
            lines.append(_line_of(["" if k else row, f"{size}{part}", *cells, *last]))
    return lines


def _is_open(cell: Cell) -> bool:
    """Whether nothing of a cell is measured yet."""
    return cell.ours is None and cell.reason == NOT_YET


def _line_of(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _about(outcome: Outcome) -> list[str]:
    """What intervals, controls and differences are, and what measured the figures."""
    lines = [outcome.intervals, ""]
    lines += [f"{sentence}\n" for sentence in outcome.control_sentences]
    lines += [f"What differs: {outcome.differs}", ""]
    lines += [f"Not measured ({why}): {rows}\n" for why, rows in outcome.unmeasured.items()]
    made = outcome.made
    facts = [
        ("command", f"`{made.command}`"),
        ("divulge", f"{made.divulge}, commit `{made.commit}`"),
        ("machine", f"{made.cores} cores, {made.processes} in use"),
        ("time of one core", f"{made.cpu_seconds:.0f} s"),
        ("date", made.date),
    ]
    lines += ["| how it was made | |", "| --- | --- |"]
    lines += [_line_of(fact) for fact in facts] + [""]
    return lines + (_pieces(outcome) if outcome.size == "paper" else [])


def _pieces(outcome: Outcome) -> list[str]:
    """What measured each row: a line for each commit and day."""
    lines = ["| row | seeds | date | commit | CPU minutes | cores of the machine |"]
    lines += [_line_of(["---"] * 6)]
    groups: dict[tuple[str, str, str, int], list[MeasuredPiece]] = {}
    for piece in outcome.pieces:
        made = piece.made
        about = (piece.row, made.date[:10], made.commit, made.cores)
        groups.setdefault(about, []).append(piece)
    for (row, date, commit, cores), pieces in groups.items():
        minutes = sum(piece.made.cpu_seconds for piece in pieces) / 60
        seeds = ", ".join(str(piece.seed) for piece in pieces)
        lines += [_line_of([row, seeds, date, f"`{commit}`", f"{minutes:.1f}", f"{cores}"])]
    return [*lines, ""]


def _curves(outcome: Outcome) -> str:
    """The figure of a table that wants some rows drawn."""
    chart = charts.curve_chart(outcome)
    assert chart is not None
    return render(chart, "svg").decode()


def _headlines(papers: list[dict[str, Any]], tables: Mapping[str, Stored]) -> str:
    parts = [
        "# Headline figures",
        "",
        NOTE,
        "",
        "What each of the five papers claims first, beside what we get: by the paper's own method, "
        "as far as it can be built from the paper, and by another one of divulge's in the same "
        "run. Every figure of ours has its 95 % interval, and links to the table that holds it. It "
        "is of size `paper` where that is measured, and else of size `small`.",
        "",
    ]
    for paper in papers:
        parts += [f"## {paper['name']}", ""]
        parts += [f"{paper['about']}. [How it works](../{paper['page']}).", "", *HEAD]
        parts += [_line(claim, tables, "") for claim in paper["claim"]]
        parts += ["", "What explains the differences:", ""]
        parts += [f"* *{claim['says']}:* {_gap(claim, tables)}" for claim in paper["claim"]]
        parts += [""]
    return "\n".join(parts)


def _few(papers: list[dict[str, Any]], tables: Mapping[str, Stored]) -> str:
    chosen = [
        claim | {"says": f"{paper['name']}: {claim['readme']}"}
        for paper in papers
        for claim in paper["claim"]
        if "readme" in claim
    ]
    lines = [*HEAD, *(_line(claim, tables, "docs/results/") for claim in chosen)]
    return "\n".join(lines) + "\n"


def _line(claim: Mapping[str, Any], tables: Mapping[str, Stored], folder: str) -> str:
    """A row: the claim, the paper's figure, ours by its method and by another."""
    start = f"| {claim['says']} | {claim['paper']:.3f} |"
    outcome = _shown(claim, tables)
    if outcome is None:
        return f"{start} | not measured yet | |"
    shown = {
        key: f"[{_figure(outcome, cell)}]({folder}{outcome.table}.md)"
        for key, cell in _claimed(claim, outcome).items()
    }
    other = f"{shown['other']} {claim['how']}" if "other" in shown else ""
    other += _paired(outcome, claim)
    return f"{start} {outcome.size} | {shown.get('same', 'not tried')} | {other} |"


def _shown(claim: Mapping[str, Any], tables: Mapping[str, Stored]) -> Outcome | None:
    """The largest outcome that has all figures of a claim, or else the one of size small."""
    table = tables.get(claim.get("table", ""))
    if table is None:
        return None
    whole = [
        one
        for one in table.sizes.values()
        if all(cell.ours is not None for cell in _claimed(claim, one).values())
    ]
    return whole[-1] if whole else table.small


def _claimed(claim: Mapping[str, Any], outcome: Outcome) -> dict[str, Cell]:
    """Cells of the paper's method and of another one, as far as a claim names them."""
    names = {key: claim[key] for key in ("same", "other") if key in claim}
    return {key: _cell(outcome, row, claim["column"]) for key, row in names.items()}


def _gap(claim: Mapping[str, Any], tables: Mapping[str, Stored]) -> str:
    """The size shown, and the reason of the difference there."""
    outcome = _shown(claim, tables)
    if outcome is None or outcome.size == "small":
        return f"(small) {claim['gap']}"
    return f"(paper) {claim.get('gap-paper', outcome.differs)}"


def _figure(outcome: Outcome, cell: Cell) -> str:
    """Our figure, and whether the row's attacks failed a control."""
    control = outcome.control(cell.row)
    return figure(cell) + f" (controls: {control})" * control.startswith("FAILED")


def _cell(outcome: Outcome, row: str, column: str) -> Cell:
    (found,) = [cell for cell in outcome.of_row(row) if cell.column == column]
    return found


def _paired(outcome: Outcome, claim: Mapping[str, Any]) -> str:
    """How far the other method is from the paper's, where both were measured on the same units."""
    name = f"{claim.get('other')}, less {claim.get('same')}"
    found = [one for one in outcome.pairs.get(name, ()) if one.column == claim["column"]]
    return "".join(f"; difference {interval(one.ours)}" for one in found if one.ours is not None)
