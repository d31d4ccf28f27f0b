"""The page of a history has one chart a metric, with the interval of every figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from divulge.core import Estimate
from divulge.report import chart_style, charts, words
from divulge.report.page import inline_figure, template_environment

_MOST = len(chart_style.COLOURS)
"""Attacks in a chart; all of them stand in the table."""

_CHANCE = {"auc": 0.5, "tpr@0.01": 0.01, "tpr@0.1": 0.1}


@dataclass(frozen=True, slots=True)
class HistoryStory:
    """All that the page says."""

    headline: str
    versions: tuple[tuple[str, str, str, str], ...]
    """Folder, name, date and verdict of each."""
    figures: Mapping[str, Mapping[str, tuple[Estimate | None, ...]]]
    """By metric and attack, one estimate a version."""
    changes: tuple[tuple[str, ...], ...]
    """Of each version but the first, a sentence an attack."""


def render(story: HistoryStory) -> str:
    """Render the page; every text is escaped."""
    lead = next(iter(story.figures.values()), {})
    order = sorted(
        lead, key=lambda label: -max(estimate.value for estimate in lead[label] if estimate)
    )
    svgs = {
        metric: charts.render(draw_history(metric, rows, order[:_MOST]), "svg").decode()
        for metric, rows in story.figures.items()
    }
    return (
        template_environment("divulge.exports")
        .get_template("history.html.j2")
        .render(
            story=story,
            figures={name: inline_figure(svg) for name, svg in svgs.items()},
            left_out={
                name: len(rows.keys() - set(order[:_MOST])) for name, rows in story.figures.items()
            },
        )
    )


def draw_history(
    metric: str, rows: Mapping[str, tuple[Estimate | None, ...]], shown: Sequence[str]
) -> alt.LayerChart:
    """A metric over versions, with the interval of every figure.

    Args:
        metric: its name.
        rows: by attack, one estimate a version.
        shown: the attacks to draw, each in the colour of its place here on every chart.
    """
    names = words.shorten_names(shown, 30)
    step = 0.5 / max(1, len(shown))
    dots: list[dict[str, Any]] = [
        {"place": k + 1 + step * (line - (len(shown) - 1) / 2), "attack": name,
         "value": estimate.value, "low": estimate.low,
         "high": estimate.value if estimate.high is None else estimate.high}
        for line, (label, name) in enumerate(zip(shown, names, strict=True))
        for k, estimate in enumerate(rows.get(label, ()))
        if estimate is not None
    ]  # fmt: skip
    count = len(next(iter(rows.values())))
    x = alt.X("place:Q", title="Version").axis(values=[*range(1, count + 1)], format="d")
    x = x.scale(domain=[0.5, count + 0.5], nice=False)
    y = alt.Y("value:Q", title=words.metric_title(metric)).scale(zero=False)
    y = y if metric == "auc" else y.axis(labelExpr=chart_style.PERCENT, tickCount=6)
    colour = alt.Color("attack:N", title=None, sort=names).scale(
        domain=names, range=list(chart_style.COLOURS[: len(names)])
    )
    colour = colour.legend(orient="bottom", columns=2)
    base = alt.Chart(chart_style.inline_data(dots))
    layers = [
        base.mark_line(strokeWidth=1.5, opacity=0.6).encode(x=x, y=y, color=colour),
        alt.Chart(chart_style.inline_data([{**dot, "value": dot["low"]} for dot in dots]))
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, y=y, y2="high:Q", color=colour),
        base.mark_point(size=50, filled=True, opacity=1).encode(x=x, y=y, color=colour),
    ]
    if metric in _CHANCE:
        chance = alt.Chart(chart_style.inline_data([{"value": _CHANCE[metric]}]))
        layers.append(chance.mark_rule(color=chart_style.MUTED, strokeDash=[2, 3]).encode(y=y))
    return chart_style.style_layers(*layers, height=260)
