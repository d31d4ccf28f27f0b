"""Vega draws the charts of a summary, without a browser or a network."""

import functools
import importlib
import importlib.util
import math
from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import altair as alt
import vl_convert

from divulge.core import Estimate
from divulge.errors import StoreError
from divulge.metrics.membership import CHANCE_AUC
from divulge.report import chart_style, words
from divulge.report.parts import ClassRow, StratumRow
from divulge.report.ranking import rank
from divulge.report.schema import AttackRow, Summary
from divulge.report.verdict_facts import deciding_fpr

Format = Literal["svg", "png", "pdf"]

HIGHLIGHTED = 6
"""Number of attacks with a colour of their own in the ROC figure; all others are grey."""

MOST_ROWS = 30
"""Most classes, or attacks, in one figure."""

_GUESSING = "guessing"

_LABEL = 46
"""Most characters of a name in a figure: as many as the longest label of a default attack."""

ADDRESS_SPACE = 80 * 2**30
"""Bytes of address space with which charts are drawn: V8 reserves 64 GiB beside what is loaded."""

LETTER = 6.8
"""Width of a letter of a row's name, in pixels, in the widest font that a reader may have instead
of ours: DejaVu Sans, 13 pixels high."""


def draw_charts(summary: Summary) -> dict[str, alt.LayerChart]:
    """The figures that this summary supports: roc, scores, attacks, classes, strata."""
    charts = {
        "roc": roc_chart(summary),
        "scores": score_chart(summary),
        "attacks": attack_chart(summary),
        "classes": class_chart(summary),
        "strata": strata_chart(summary),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def render(chart: alt.LayerChart | alt.FacetChart | alt.HConcatChart, format: Format) -> bytes:  # noqa: A002 - the user's word for it
    """The chart as a file: SVG, PNG at twice the size, or PDF."""
    _check_address_space()
    # the version that wrote the chart must compile it
    version = "_".join(alt.SCHEMA_VERSION.split(".")[:2])
    drawing = chart.to_dict(validate=False)  # which takes longer than the drawing: tests do it
    svg: str = vl_convert.vegalite_to_svg(drawing, vl_version=version)
    return svg.encode() if format == "svg" else convert(svg, format)


@functools.cache  # the engine reserves it once
def _check_address_space() -> None:
    """Refuse to draw where the engine that draws would end this whole process.

    Raises:
        StoreError: the limit of address space is too low.
    """
    if importlib.util.find_spec("resource") is None:  # Windows has no such limit
        return
    resource = importlib.import_module("resource")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise StoreError(
            f"expected {ADDRESS_SPACE // 2**30} GiB of address space, which drawing reserves but "
            f"does not use, got a limit of {limit / 2**30:.1f} GiB (ulimit -v): raise it, then run "
            "divulge report on the run folder; what was measured is kept"
        )


def convert(svg: str, format: Literal["png", "pdf"]) -> bytes:  # noqa: A002 - as above
    """A chart drawn once in another format."""
    if format == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=2))
    return bytes(vl_convert.svg_to_pdf(svg))


def strongest_first(summary: Summary) -> list[AttackRow]:
    """Done attacks by falling low limit, the deciding one first; each ranking once."""
    metric = _deciding_metric(summary)

    def weakness(row: AttackRow) -> tuple[bool, float, float]:
        speaks = row.label == summary.verdict.attack
        return (not speaks, -row.metrics[metric].low, -row.metrics["auc"].low)

    shown = rank(summary.attacks, summary.verdict.attack)
    return sorted((*shown.heads, *shown.others), key=weakness)


def _deciding_metric(summary: Summary) -> str:
    fpr = deciding_fpr(summary.sizes.nonmembers)
    return "auc" if fpr is None else f"tpr@{fpr:g}"


def roc_chart(summary: Summary) -> alt.LayerChart | None:
    """TPR over FPR on logarithmic axes: the strongest attack with its band, others beside it."""
    rows = strongest_first(summary)
    if not rows:
        return None
    decades = _decades(summary)
    names = words.shorten_names([row.label for row in rows], _LABEL)
    rest = len(rows) - HIGHLIGHTED
    groups = names[:HIGHLIGHTED] + ([words.format_count(rest, "other attack")] if rest > 0 else [])
    points = [
        {"name": name, "group": groups[min(rank, HIGHLIGHTED)], "rank": rank, **point}
        for rank, (row, name) in enumerate(zip(rows, names, strict=True))
        for point in _curve_points(row, decades)
    ]
    x = alt.X(**chart_style.log_axis("fpr", "False-positive rate", decades.fpr))
    y = alt.Y(**chart_style.log_axis("tpr", "Members recognised (TPR)", decades.tpr))
    lines = [
        layer.encode(x=x, y=y) for layer in _curve_lines(points[::-1], _guessing(decades), groups)
    ]
    band = (
        alt.Chart(chart_style.inline_data([point for point in points if point["rank"] == 0]))
        .mark_area(interpolate="step-after", color=chart_style.ACCENT, opacity=0.18)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q")
    )
    return chart_style.style_layers(band, *lines, height=chart_style.WIDTH)


def _guessing(decades: "_Decades") -> list[dict[str, Any]]:
    """The ends of the diagonal."""
    start = 10.0**decades.fpr
    return [{"group": _GUESSING, "fpr": rate, "tpr": rate} for rate in (start, 1.0)]


class _Decades(NamedTuple):
    """The powers of ten at which the axes begin."""

    fpr: int
    tpr: int


def _decades(summary: Summary) -> _Decades:
    outside, inside = max(2, summary.sizes.nonmembers), max(2, summary.sizes.members)
    fpr = math.floor(-math.log10(outside))
    return _Decades(fpr, min(fpr, math.floor(-math.log10(inside))))


def _curve_points(row: AttackRow, decades: _Decades) -> list[dict[str, float]]:
    """The points of a curve, without TPRs of zero, which a logarithmic axis cannot show."""
    if row.roc is None:
        return []
    floor = 10.0**decades.tpr
    columns = zip(row.roc.fpr, row.roc.tpr, row.roc.low, row.roc.high, strict=True)
    return [
        {"fpr": fpr, "tpr": tpr, "low": max(low, floor), "high": high}
        for fpr, tpr, low, high in columns
        if tpr > 0
    ]


def _curve_lines(
    points: Sequence[dict[str, Any]], guessing: Sequence[dict[str, Any]], groups: Sequence[str]
) -> list[alt.Chart]:
    """One stepped line an attack; attacks without a colour of their own share a grey group.

    The diagonal is a straight line below them, with a name in the same legend.
    """
    extra = max(0, len(groups) - HIGHLIGHTED)
    colours = [*chart_style.COLOURS[: len(groups)], *[chart_style.MUTED] * (extra + 1)]
    dashes = [*chart_style.DASHES[: len(groups)], *[(1, 0)] * extra, (2, 3)]
    groups = [*groups, _GUESSING]
    # below the frame, where no line runs through a name
    legend = alt.Legend(orient="bottom", direction="vertical", title=None, symbolStrokeWidth=2.5)
    width = alt.when(alt.datum.rank == 0).then(alt.value(2.8)).otherwise(alt.value(1.4))
    color = alt.Color("group:N", legend=legend).scale(domain=groups, range=colours)
    dash = alt.StrokeDash("group:N", legend=legend).scale(domain=groups, range=dashes)
    curves = alt.Chart(chart_style.inline_data(points)).mark_line(interpolate="step-after")
    diagonal = alt.Chart(chart_style.inline_data(guessing)).mark_line(strokeWidth=1.5)
    return [
        diagonal.encode(color=color, strokeDash=dash),
        curves.encode(color=color, strokeDash=dash, strokeWidth=width, detail="name:N"),
    ]


def score_chart(summary: Summary) -> alt.LayerChart | None:
    """How the strongest attack scores members and non-members."""
    if summary.exposure is None:
        return None
    bins = summary.exposure.histogram
    groups = ["members", "non-members"]
    rows = [
        {"group": group, "score": edge, "share": share}
        for group, shares in zip(groups, (bins.members, bins.nonmembers), strict=True)
        # the last bin's share stands at its right edge too, where the step ends
        for edge, share in zip(bins.edges, (*shares, shares[-1]), strict=True)
    ]
    legend = alt.Legend(orient="top", symbolType="square", title=None, offset=24)
    colour = alt.Color("group:N", legend=legend)
    x = (
        alt.X("score:Q", title="Score (higher: more likely a member)")
        .scale(domain=[bins.edges[0], bins.edges[-1]], nice=False)
        .axis(grid=False, tickCount=8)
    )
    y = (
        alt.Y("share:Q", title="Share of the group")
        .axis(labelExpr=chart_style.PERCENT, tickCount=5)
        .scale(nice=5)
        .stack(None)
    )
    areas = (
        alt.Chart(chart_style.inline_data(rows))
        .mark_area(interpolate="step-after", opacity=0.5, line={"strokeWidth": 1.6})
        .encode(
            x=x,
            y=y,
            color=colour.scale(domain=groups, range=[chart_style.MEMBERS, chart_style.MUTED]),
        )
    )
    return chart_style.style_layers(areas, *_threshold_line(summary, x), height=300)


def _threshold_line(summary: Summary, x: alt.X) -> list[alt.Chart]:
    """A line at the score from which the deciding FPR allows to accuse, where it is in view."""
    assert summary.exposure is not None
    bins = summary.exposure.histogram
    if bins.threshold is None or not bins.edges[0] < bins.threshold < bins.edges[-1]:
        return []
    assert bins.fpr is not None
    row = {"score": bins.threshold, "text": f"threshold at {words.format_percent(bins.fpr)} FPR →"}
    base = alt.Chart(chart_style.inline_data([row])).encode(x=x)
    right_half = bins.threshold > (bins.edges[0] + bins.edges[-1]) / 2
    return [
        base.mark_rule(color=chart_style.MUTED, strokeDash=[4, 3], strokeWidth=1.5),
        base.mark_text(align="right" if right_half else "left", baseline="bottom").encode(
            text="text:N", y=alt.value(-6)
        ),
    ]


def attack_chart(summary: Summary) -> alt.LayerChart | None:
    """The deciding metric of every attack with its interval, beside chance."""
    rows = strongest_first(summary)[:MOST_ROWS]
    if not rows:
        return None
    metric = _deciding_metric(summary)
    names = words.shorten_names([row.label for row in rows], _LABEL)
    dots = [
        _chart_dot(name, row.metrics[metric], metric, row.unmeasured, sound=row.sound)
        for row, name in zip(rows, names, strict=True)
    ]
    fpr = deciding_fpr(summary.sizes.nonmembers)
    if fpr is None:
        return _whiskers(dots, CHANCE_AUC, _auc_axis(dots))
    x = alt.X("value:Q", title=f"Members recognised at {words.format_percent(fpr)} FPR").scale(
        zero=True, nice=True
    )
    return _whiskers(dots, fpr, x.axis(labelExpr=chart_style.PERCENT, tickCount=6))


def class_chart(summary: Summary) -> alt.LayerChart | None:
    """The AUC of the strongest attack within each class, highest first."""
    if summary.exposure is None:
        return None
    return _auc_chart(summary.exposure.classes)


def strata_chart(summary: Summary) -> alt.LayerChart | None:
    """The AUC of the deciding attack within each stratum, highest low limit first."""
    return None if summary.strata is None else _auc_chart(summary.strata.rows)


def _auc_chart(rows: Sequence[ClassRow | StratumRow]) -> alt.LayerChart | None:
    measured = [row for row in rows if row.auc is not None][:MOST_ROWS]
    names = words.shorten_names([row.name for row in measured], _LABEL)
    dots = [
        _chart_dot(name, row.auc, "auc", (), sound=True)
        for row, name in zip(measured, names, strict=True)
        if row.auc is not None
    ]
    return _whiskers(dots, CHANCE_AUC, _auc_axis(dots)) if dots else None


def _chart_dot(
    name: str, estimate: Estimate, metric: str, unmeasured: Collection[str], *, sound: bool
) -> dict[str, Any]:
    return {
        "name": name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.value if estimate.high is None else estimate.high,
        "text": words.format_metric(metric, estimate, unmeasured),
        "fill": chart_style.ACCENT if sound else "white",
    }


def _auc_axis(dots: Sequence[dict[str, Any]]) -> alt.X:
    low = min(0.4, *(dot["low"] for dot in dots), 0.4)
    domain = [math.floor(10 * low) / 10, 1]
    return alt.X("value:Q", title="AUC").scale(domain=domain, nice=False).axis(tickCount=6)


def room_for(names: Sequence[str]) -> int:
    """Pixels beside the rows of a figure for their names, in whatever font a reader has."""
    return math.ceil(LETTER * max(map(len, names)))


def _whiskers(dots: Sequence[dict[str, Any]], chance: float, x: alt.X) -> alt.LayerChart:
    """A row each: name, interval, value; hollow dots failed a control; a dashed line is chance."""
    base = alt.Chart(chart_style.inline_data(dots))
    room = room_for([dot["name"] for dot in dots])
    y = alt.Y("name:N", title=None, sort=None).axis(
        domain=False, ticks=False, labelPadding=10, minExtent=room
    )
    intervals = (
        alt.Chart(chart_style.inline_data([{**dot, "value": dot["low"]} for dot in dots]))
        .mark_rule(color=chart_style.ACCENT, strokeWidth=2)
        .encode(x=x, x2="high:Q", y=y)
    )
    values = base.mark_point(
        size=60, filled=False, stroke=chart_style.ACCENT, strokeWidth=2, opacity=1
    ).encode(x=x, y=y, fill=alt.Fill("fill:N", scale=None))
    figures = base.mark_text(align="left", dx=12).encode(
        x=alt.value(chart_style.WIDTH), y=y, text="text:N"
    )
    line = (
        alt.Chart(chart_style.inline_data([{"value": chance}]))
        .mark_rule(color=chart_style.MUTED, strokeDash=[2, 3], strokeWidth=1.5)
        .encode(x=x)
    )
    return chart_style.style_layers(line, intervals, values, figures, height=alt.Step(26))
