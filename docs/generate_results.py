"""The pages of measured tables, from the runs stored in ``docs/results``.

A stored run is the ``table.json`` of a run folder. ``generate.py`` calls `pages`.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge.report.charts import render
from divulge.reproduce import charts
from divulge.reproduce.papers.raifle import tradeoff
from divulge.reproduce.result import Cell, Outcome, figure, interval, read_outcome
from divulge.reproduce.table import TABLES

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
STORED = HERE / "results"
CURVE = HERE / "images" / "raifle-privacy-utility.svg"
MARKS = ("<!-- headline figures -->\n", "<!-- end of headline figures -->\n")

HEAD = (
    "| claim | the paper | ours, by its method | ours, by another |",
    "| --- | --- | --- | --- |",
)
NOTE = "<!-- Written by docs/generate.py from the runs in docs/results: run `make docs`. -->"


def pages() -> dict[Path, str]:
    """The generated pages, by path."""
    stored = {path.stem: read_outcome(path) for path in sorted(STORED.glob("*.json"))}
    outcomes = {name: stored[name] for name in TABLES if name in stored}
    papers = tomllib.loads((HERE / "headlines.toml").read_text(encoding="utf-8"))["paper"]
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    return {
        STORED / "README.md": _index(outcomes),
        HERE / "headline-figures.md": _headlines(papers, outcomes),
        README: before + MARKS[0] + _few(papers, outcomes) + MARKS[1] + after,
        **{STORED / f"{name}.md": _table(outcome) for name, outcome in outcomes.items()},
        **{STORED / f"{name}.svg": _curves(one) for name, one in outcomes.items() if one.drawn},
        **_curve(outcomes),
    }


def _curve(outcomes: Mapping[str, Outcome]) -> dict[Path, str]:
    """The privacy-utility curve, where both of its tables are stored."""
    chart = tradeoff.tradeoff_chart(outcomes)
    return {} if chart is None else {CURVE: render(chart, "svg").decode()}


def _index(outcomes: Mapping[str, Outcome]) -> str:
    rows = [
        f"| [{name}]({name}.md) | {one.title} | {one.size} | {_agreement(one)} | "
        f"{_controls(one)} | {one.made.cpu_seconds / 60:.1f} | {one.made.date[:10]} | "
        f"`{one.made.commit}` |"
        for name, one in outcomes.items()
    ]
    missing = [name for name in TABLES if name not in outcomes]
    total = sum(one.made.cpu_seconds for one in outcomes.values()) / 60
    return "\n".join(
        [
            "# Results",
            "",
            NOTE,
            "",
            "Published tables, measured again by [`divulge reproduce`](../reproductions.md). "
            "Each page holds our figures with their 95 % intervals, the paper's, the difference, "
            "what differs in data and size, and the command, the commit, the cores and the date. "
            "An interval that covers the published figure proves no sameness, and one that does "
            "not is a difference to explain: data, sizes and repeats are not the papers'.",
            "",
            "| table | what | size | published figures within our interval | rows by control | "
            "minutes of one core | date | commit |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            f"Together {total:.0f} minutes of one core, with what tables share counted in each.",
            "",
            *(
                [f"Not stored yet: {', '.join(f'`{name}`' for name in missing)}.", ""]
                * bool(missing)
            ),
            "What the papers claim first, beside ours: [headline figures](../headline-figures.md).",
            "",
        ]
    )


def _agreement(outcome: Outcome) -> str:
    both = [cell for cell in outcome.cells if cell.difference is not None]
    return f"{sum(cell.covers for cell in both)} of {len(both)}"


def _controls(outcome: Outcome) -> str:
    """Numbers of rows whose attacks passed, failed or were not tested by controls."""
    told = [outcome.control(row).partition(" of ")[0].rstrip("0123456789 ") for row in outcome.rows]
    return ", ".join(f"{count} {kind}" for kind, count in Counter(told).items())


def _table(outcome: Outcome) -> str:
    body = outcome.markdown().partition("\n")[2]
    made = outcome.made
    facts = [
        ("command", f"`{made.command}`"),
        ("divulge", f"{made.divulge}, commit `{made.commit}`"),
        ("machine", f"{made.cores} cores, {made.processes} in use"),
        ("time of one core", f"{made.cpu_seconds:.0f} s"),
        ("date", made.date),
    ]
    rows = [f"| {name} | {value} |" for name, value in facts]
    head = [f"# {outcome.table}", "", NOTE, "", f"**{outcome.title}**, size {outcome.size}."]
    alt = "Some rows as curves, with their 95 % intervals"
    head += ["", f"![{alt}]({outcome.table}.svg)"] * bool(outcome.drawn)
    return "\n".join([*head, body, "| how it was made | |", "| --- | --- |", *rows, ""])


def _curves(outcome: Outcome) -> str:
    """The figure of a table that wants some rows drawn."""
    chart = charts.curve_chart(outcome)
    assert chart is not None
    return render(chart, "svg").decode()


def _headlines(papers: list[dict[str, Any]], outcomes: Mapping[str, Outcome]) -> str:
    parts = [
        "# Headline figures",
        "",
        NOTE,
        "",
        "What each of the five papers claims first, beside what we get: by the paper's own method, "
        "as far as it can be built from the paper, and by another one of divulge's in the same "
        "run. Every figure of ours has its 95 % interval, and links to the table that holds it.",
        "",
    ]
    for paper in papers:
        parts += [f"## {paper['name']}", ""]
        parts += [f"{paper['about']}. [How it works]({paper['page']}).", "", *HEAD]
        parts += [_line(claim, outcomes, "results/") for claim in paper["claim"]]
        parts += ["", "What explains the differences:", ""]
        parts += [f"* *{claim['says']}:* {claim['gap']}" for claim in paper["claim"]]
        parts += [""]
    return "\n".join(parts)


def _few(papers: list[dict[str, Any]], outcomes: Mapping[str, Outcome]) -> str:
    chosen = [
        claim | {"says": f"{paper['name']}: {claim['readme']}"}
        for paper in papers
        for claim in paper["claim"]
        if "readme" in claim
    ]
    lines = [*HEAD, *(_line(claim, outcomes, "docs/results/") for claim in chosen)]
    return "\n".join(lines) + "\n"


def _line(claim: Mapping[str, Any], outcomes: Mapping[str, Outcome], folder: str) -> str:
    """A row: the claim, the paper's figure, ours by its method and by another."""
    start = f"| {claim['says']} | {claim['paper']:.3f} |"
    name = claim.get("table", "")
    if name not in outcomes:
        return f"{start} not measured yet | |"
    found = {
        key: _cell(outcomes[name], claim[key], claim["column"])
        for key in ("same", "other")
        if key in claim
    }
    shown = {
        key: f"[{_figure(outcomes[name], cell)}]({folder}{name}.md)" for key, cell in found.items()
    }
    other = f"{shown['other']} {claim['how']}" if "other" in found else ""
    other += _paired(outcomes[name], claim)
    return f"{start} {shown.get('same', 'not tried')} | {other} |"


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
