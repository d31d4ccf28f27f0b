"""Draw accuracy over leakage: each way to train is a dot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from divulge.core import Estimate
from divulge.metrics.measure import GUESSING
from divulge.report import chart_style, charts, words

_LINE = 15
"""Pixels from one name to the next above it."""

_LABEL_SHIFTS = tuple(
    shift for step in range(30) for shift in (-9 - _LINE * step, 14 + _LINE * step)
)
"""Vertical offsets of a name from its dot that are tried, in pixels, the best one first: up to
the height of the figure, so that some place is free."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One way to train."""

    name: str
    """Empty for a small dot without intervals."""
    leak: Estimate
    """What the strongest attack reaches."""
    accuracy: Estimate
    best: bool
    """Whether its dot is filled."""


def draw_front(
    points: Sequence[FrontPoint], metric: str, ceiling: float | None = None
) -> alt.LayerChart:
    """Accuracy over leakage, with intervals, and a line from one filled dot to the next.

    Args:
        points: the dots.
        metric: of the leakage.
        ceiling: the highest admissible leakage, drawn as a line.
    """
    dots = _describe_dots(points, metric)
    shown = [*_leak_values(dots), *([] if ceiling is None else [ceiling])]
    x, y = _axes(dots, metric, shown)
    _clip_intervals(dots, shown)
    named = [dot for dot in dots if dot["name"]]
    small = [dot for dot in dots if not dot["name"]]
    grey: dict[str, Any] = {"color": chart_style.MUTED, "strokeWidth": 1.2, "opacity": 0.7}
    limits = [] if ceiling is None else [{"leak": ceiling}]
    steps = sorted((dot for dot in dots if dot["fill"] != "white"), key=lambda dot: dot["leak"])
    layers = [
        alt.Chart(chart_style.inline_data([{"leak": GUESSING[metric]}]))
        .mark_rule(color=chart_style.MUTED, strokeDash=[2, 3], strokeWidth=1.5)
        .encode(x=x),
        *(
            alt.Chart(chart_style.inline_data([limit]))
            .mark_rule(color=chart_style.COLOURS[1], strokeWidth=2)
            .encode(x=x)
            for limit in limits
        ),
        alt.Chart(chart_style.inline_data(steps))
        .mark_line(interpolate="step-after", color=chart_style.ACCENT, strokeWidth=1.5, opacity=0.6)
        .encode(x=x, y=y),
        alt.Chart(chart_style.inline_data([{**dot, "leak": dot["leak_low"]} for dot in named]))
        .mark_rule(**grey)
        .encode(x=x, x2="leak_high:Q", y=y),
        alt.Chart(chart_style.inline_data([{**dot, "accuracy": dot["low"]} for dot in named]))
        .mark_rule(**grey)
        .encode(x=x, y=y, y2="high:Q"),
        *(
            alt.Chart(chart_style.inline_data(some))
            .mark_point(
                size=size, filled=False, stroke=chart_style.ACCENT, strokeWidth=width, opacity=1
            )
            .encode(x=x, y=y, fill=alt.Fill("fill:N", scale=None))
            for some, size, width in ((small, 16, 1), (named, 80, 2))
            if some
        ),
        *_label_layers(named, shown, _axis_range(_accuracies(dots)), x, y),
    ]
    return chart_style.style_layers(*layers, height=chart_style.WIDTH)


def _describe_dots(points: Sequence[FrontPoint], metric: str) -> list[dict[str, Any]]:
    """The rows of the chart: what stands where, and which dots the line joins."""
    return [
        {
            "name": point.name,
            "leak": point.leak.value, "leak_low": point.leak.low, "leak_high": point.leak.high,
            "accuracy": point.accuracy.value,
            "low": point.accuracy.low, "high": point.accuracy.high,
            "chance": GUESSING[metric],
            "fill": chart_style.ACCENT if point.best else "white",
        }
        for point in points
    ]  # fmt: skip


def _label_layers(
    dots: list[dict[str, Any]],
    shown: list[float],
    bounds: tuple[float, float],
    x: alt.X,
    y: alt.Y,
) -> list[alt.Chart]:
    """Each dot's name beside it, moved up or down where it would cover another one."""
    left, right = _axis_range(shown)
    bottom, top = bounds
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


def _axes(dots: list[dict[str, Any]], metric: str, shown: list[float]) -> tuple[alt.X, alt.Y]:
    """Both axes, around the values alone: a long interval would squeeze all dots together."""
    low, high = _axis_range(shown)
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


def _clip_intervals(dots: list[dict[str, Any]], shown: list[float]) -> None:
    """Clip intervals at the frame; Vega's own clipping gives other identifiers at each run."""
    for keys, (least, most) in (
        (("leak_low", "leak_high"), _axis_range(shown)),
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
