"""The page of a comparison shows its table, and figures of accuracy over leakage."""

import json
import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from divulge._util import showable
from divulge.report import chart_style, charts, compare_table, words
from divulge.report.compare_table import ComparisonSummary
from divulge.report.page import inline_figure, template_environment

_LABEL = 30
"""Most characters of a name in a figure."""

_LINE = 15
"""Pixels from one name to the next above it."""

_LABEL_SHIFTS = tuple(
    shift for step in range(30) for shift in (-9 - _LINE * step, 14 + _LINE * step)
)
"""Vertical offsets of a name from its dot that are tried, in pixels, the best one first: up to
the height of the figure, so that some place is free."""

_CHANCE = {"auc": 0.5, "tpr@0.01": 0.01, "tpr@0.001": 0.001}


def render_files(told: ComparisonSummary) -> dict[str, bytes]:
    """The files of the report: page, tables, and a figure for each metric."""
    drawn = {
        f"front-{metric}": charts.render(front_chart(told, metric), "svg")
        for metric in told.metrics
    }
    return {
        "report.html": _render_page(
            told, {name: svg.decode() for name, svg in drawn.items()}
        ).encode(),
        **compare_table.summary_files(told),
        **{f"figures/{name}.svg": svg for name, svg in drawn.items()},
    }


def front_chart(told: ComparisonSummary, metric: str) -> alt.LayerChart:
    """Accuracy over what the strongest attack reaches; filled dots are dominated by none."""
    rows = [row for row in told.rows if metric in row.strongest]
    best = compare_table.pareto_front(rows, metric)
    names = words.shorten_names([row.name for row in rows], _LABEL)
    dots: list[dict[str, Any]] = []
    for row, name in zip(rows, names, strict=True):
        one = row.strongest[metric].estimate
        dots.append({
            "name": name,
            "leak": one.value, "leak_low": one.low, "leak_high": one.high,
            "accuracy": row.accuracy.value,
            "low": row.accuracy.low, "high": row.accuracy.high,
            "chance": _CHANCE[metric],
            "fill": chart_style.ACCENT if row.name in best else "white",
        })  # fmt: skip
    x, y = _axes(dots, metric)
    _clip_intervals(dots)
    base = alt.Chart(chart_style.inline_data(dots))
    grey: dict[str, Any] = {"color": chart_style.MUTED, "strokeWidth": 1.2, "opacity": 0.7}
    steps = sorted((dot for dot in dots if dot["fill"] != "white"), key=lambda dot: dot["leak"])
    layers = [
        alt.Chart(chart_style.inline_data([{"leak": _CHANCE[metric]}]))
        .mark_rule(color=chart_style.MUTED, strokeDash=[2, 3], strokeWidth=1.5)
        .encode(x=x),
        alt.Chart(chart_style.inline_data(steps))
        .mark_line(interpolate="step-after", color=chart_style.ACCENT, strokeWidth=1.5, opacity=0.6)
        .encode(x=x, y=y),
        alt.Chart(chart_style.inline_data([{**dot, "leak": dot["leak_low"]} for dot in dots]))
        .mark_rule(**grey)
        .encode(x=x, x2="leak_high:Q", y=y),
        alt.Chart(chart_style.inline_data([{**dot, "accuracy": dot["low"]} for dot in dots]))
        .mark_rule(**grey)
        .encode(x=x, y=y, y2="high:Q"),
        base.mark_point(
            size=80, filled=False, stroke=chart_style.ACCENT, strokeWidth=2, opacity=1
        ).encode(x=x, y=y, fill=alt.Fill("fill:N", scale=None)),
        *_label_layers(dots, x, y),
    ]
    return chart_style.style_layers(*layers, height=chart_style.WIDTH)


def _label_layers(dots: list[dict[str, Any]], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Each dot's name beside it, moved up or down where it would cover another one."""
    left, right = _axis_range(_leak_values(dots))
    bottom, top = _axis_range(_accuracies(dots))
    taken: list[tuple[float, float, float]] = []
    layers = []
    for dot in sorted(dots, key=lambda dot: (dot["leak"], dot["accuracy"])):
        across = chart_style.WIDTH * (dot["leak"] - left) / (right - left)
        down = chart_style.WIDTH * (top - dot["accuracy"]) / (top - bottom)
        width = charts.LETTER * len(dot["name"])
        outside = across + width > chart_style.WIDTH
        start = across - 9 - width if outside else across + 9
        offset = next(
            (
                shift
                for shift in _LABEL_SHIFTS
                if 0 <= down + shift <= chart_style.WIDTH
                and not any(
                    start < end and begin < start + width and abs(down + shift - level) < _LINE
                    for begin, end, level in taken
                )
            ),
            _LABEL_SHIFTS[0],
        )
        taken.append((start, start + width, down + offset))
        mark = alt.Chart(chart_style.inline_data([dot])).mark_text(
            align="right" if outside else "left", dx=-9 if outside else 9, dy=offset
        )
        layers.append(mark.encode(x=x, y=y, text="name:N"))
    return layers


def _leak_values(dots: list[dict[str, Any]]) -> list[float]:
    return [dot[key] for dot in dots for key in ("leak", "chance")]


def _accuracies(dots: list[dict[str, Any]]) -> list[float]:
    return [dot["accuracy"] for dot in dots]


def _axes(dots: list[dict[str, Any]], metric: str) -> tuple[alt.X, alt.Y]:
    """Both axes, around the values alone: a long interval would squeeze all dots together."""
    low, high = _axis_range(_leak_values(dots))
    x = alt.X(
        "leak:Q", title=f"{words.metric_title(metric)} of the strongest attack (less is better)"
    )
    x = (
        x.axis(tickCount=6)
        if metric == "auc"
        else x.axis(labelExpr=chart_style.PERCENT, tickCount=6)
    )
    bottom, top = _axis_range(_accuracies(dots))
    y = alt.Y("accuracy:Q", title="Accuracy (more is better)").axis(
        labelExpr=chart_style.PERCENT, tickCount=7
    )
    return (
        x.scale(domain=[low, high], nice=False),
        y.scale(domain=[bottom, top], nice=False, zero=False),
    )


def _clip_intervals(dots: list[dict[str, Any]]) -> None:
    """Clip intervals at the frame; Vega's own clipping gives other identifiers at each run."""
    for keys, (least, most) in (
        (("leak_low", "leak_high"), _axis_range(_leak_values(dots))),
        (("low", "high"), _axis_range(_accuracies(dots))),
    ):
        for dot in dots:
            dot.update({key: min(max(dot[key], least), most) for key in keys})


def _axis_range(values: list[float]) -> tuple[float, float]:
    least, most = min(values), max(values)
    margin = max(0.2 * (most - least), 0.01)
    return (
        max(0.0, math.floor(100 * (least - margin)) / 100),
        min(1.0, math.ceil(100 * (most + margin)) / 100),
    )


def _render_page(told: ComparisonSummary, svgs: Mapping[str, str]) -> str:
    above, *below = compare_table.lines(told)
    return (
        template_environment()
        .get_template("compare.html.j2")
        .render(
            told=told,
            verdict=compare_table.judge_comparison(told),
            above=above,
            below=below,
            headings=compare_table.headings(told),
            table=[
                [showable.make_showable(cell) for cell in compare_table.cells(told, row)]
                for row in told.rows
            ],
            paired=[
                [showable.make_showable(cell) for cell in row]
                for row in compare_table.differences(told)
            ],
            about_paired=compare_table.PAIRED_NOTE,
            best=compare_table.pareto_front(told.rows),
            notes=[(row.name, note) for row in told.rows for note in compare_table.notes_on(row)],
            figures={name: inline_figure(svg) for name, svg in svgs.items()},
            reproduction=json.dumps(
                showable.make_all_showable(told.reproduction),
                indent=2,
                ensure_ascii=False,
                default=str,
            ),
        )
    )
