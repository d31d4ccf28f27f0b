"""Draw charts of tables: our figures with their intervals beside the published ones."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from divulge.report import chart_style, words
from divulge_papers.figure import Cell
from divulge_papers.result import Outcome

PAPER_COLOUR = chart_style.COLOURS[1]
_LABEL = 60
"""Largest length of a row's name in a figure, in characters."""
_LETTER = 7.4
"""Width of a letter of a row's name in pixels."""
_PANELS = 620
"""Width of all columns together in pixels."""


def comparison_chart(outcome: Outcome) -> alt.HConcatChart | None:
    """Draw a panel for each column with published values: our figure and the paper's, by row."""
    columns = [c for c in outcome.columns if any(_published_cells(outcome, c))]
    if not columns:
        return None
    names = dict(zip(outcome.rows, words.shorten_names(outcome.rows, _LABEL), strict=True))
    panels = [
        _panel(outcome, column, names, _PANELS // len(columns), labelled=k == 0)
        for k, column in enumerate(columns)
    ]
    chart: alt.HConcatChart = chart_style.apply_style(alt.hconcat(*panels, spacing=18))
    return chart


def overview_chart(outcomes: Sequence[Outcome]) -> alt.LayerChart | None:
    """Draw all figures that a paper has too: the paper's across, ours upwards."""
    dots = [
        {
            **_dot_values(cell),
            "group": outcome.source.split(",")[0],
            "name": f"{cell.row}, {cell.column}",
        }
        for outcome in outcomes
        for column in outcome.columns
        for cell in _published_cells(outcome, column)
    ]
    if not dots:
        return None
    groups = list(dict.fromkeys(dot["group"] for dot in dots))
    x = alt.X("paper:Q", title="The paper's").scale(domain=[0, 1])
    y = alt.Y("ours:Q", title="Ours").scale(domain=[0, 1])
    # room beside a name, whose letters may be wider than ours
    legend = alt.Legend(orient="top", title=None, columns=2, columnPadding=32)
    colour = alt.Color("group:N", legend=legend).scale(domain=groups, range=chart_style.COLOURS)
    base = alt.Chart(chart_style.inline_data(dots)).encode(x=x, color=colour)
    line = alt.Chart(chart_style.inline_data([{"paper": 0, "ours": 0}, {"paper": 1, "ours": 1}]))
    return chart_style.style_layers(
        line.mark_line(color=chart_style.MUTED, strokeDash=[2, 3]).encode(x=x, y=y),
        base.mark_rule(opacity=0.35, clip=True).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, size=36, opacity=0.8, clip=True).encode(y=y),
        height=chart_style.WIDTH,
    )


def curve_chart(outcome: Outcome) -> alt.LayerChart | None:
    """Draw the rows in ``drawn`` as curves over the columns that begin with a number."""
    steps = {c: float(c.split()[0]) for c in outcome.columns if c.split()[0].isdecimal()}
    names = dict(zip(outcome.drawn, words.shorten_names(outcome.drawn, _LABEL), strict=True))
    dots = [
        {**_dot_values(cell), "name": names[cell.row], "step": steps[cell.column]}
        for cell in outcome.cells
        if cell.row in names and cell.column in steps and cell.ours is not None
    ]
    if not dots:
        return None
    unit = next(iter(steps)).partition(" ")[2]
    x = alt.X("step:Q", title=unit).scale(domain=[min(steps.values()), max(steps.values())])
    y = alt.Y("ours:Q", title=outcome.measures).scale(zero=False)
    shown = {dot["name"] for dot in dots}
    order = [name for name in names.values() if name in shown]
    # one below another: names are long, and readers' letters may be wider than ours
    legend = alt.Legend(
        orient="top", title=None, columns=1, symbolType="stroke", symbolOpacity=1, labelLimit=400
    )
    colour = alt.Color("name:N", legend=legend).scale(domain=order, range=chart_style.COLOURS)
    dash = alt.StrokeDash("name:N", legend=legend).scale(domain=order, range=chart_style.DASHES)
    base = alt.Chart(chart_style.inline_data(dots)).encode(x=x, color=colour)
    return chart_style.style_layers(
        base.mark_area(opacity=0.08).encode(y=alt.Y("low:Q", title=outcome.measures), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        height=320,
    )


def _published_cells(outcome: Outcome, column: str) -> list[Cell]:
    """Cells of a column that hold our figure and a published one."""
    return [c for c in outcome.cells if c.column == column and c.difference is not None]


def _panel(
    outcome: Outcome, column: str, names: dict[str, str], width: int, *, labelled: bool
) -> alt.LayerChart:
    """Draw one column, with its name above."""
    dots = [
        {**_dot_values(cell), "name": names[cell.row]}
        for cell in outcome.cells
        if cell.column == column and cell.ours is not None
    ]
    ends = [dot[key] for dot in dots for key in ("low", "high", "paper") if dot[key] is not None]
    domain = [0, max(ends)]
    x = alt.X("ours:Q", title=None).scale(domain=domain, nice=True).axis(tickCount=4)
    y = alt.Y("name:N", title=None, sort=None).scale(domain=list(names.values()))
    room = math.ceil(_LETTER * max(map(len, names.values())))
    axis = alt.Axis(domain=False, ticks=False, grid=True, labelPadding=10, minExtent=room)
    bare = alt.Axis(domain=False, ticks=False, grid=True, labels=False)
    base = alt.Chart(chart_style.inline_data(dots)).encode(y=y.axis(axis if labelled else bare))
    layers = (
        base.mark_rule(color=chart_style.ACCENT, strokeWidth=2).encode(
            x=alt.X("low:Q", title=None), x2="high:Q"
        ),
        base.mark_point(filled=True, size=50, color=chart_style.ACCENT, opacity=1).encode(x=x),
        base.mark_point(
            shape="diamond", size=80, filled=False, stroke=PAPER_COLOUR, strokeWidth=2, opacity=1
        )
        .encode(x="paper:Q")
        .transform_filter("isValid(datum.paper)"),
    )
    return alt.LayerChart(layer=list(layers), width=width, height=alt.Step(20), title=column)


def _dot_values(cell: Cell) -> dict[str, Any]:
    assert cell.ours is not None
    high = cell.ours.value if cell.ours.high is None else cell.ours.high
    return {
        "ours": cell.ours.value,
        "low": cell.ours.low,
        "high": high,
        "paper": cell.paper,
    }
