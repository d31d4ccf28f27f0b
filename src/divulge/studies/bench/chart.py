"""Draw a bench: the AUC of every attack, a panel a target."""

import altair as alt

from divulge.report import chart_style, charts
from divulge.studies.bench.result import AttackBench

_WIDTH = 220
_COLUMNS = 3


def draw_bench(bench: AttackBench) -> bytes:
    """AUCs with their intervals as SVG; the own attack has the accent colour."""
    dots = [
        {
            "target": row.target, "attack": row.attack,
            "value": row.metrics["auc"].value,
            "low": row.metrics["auc"].low, "high": row.metrics["auc"].high,
            "colour": chart_style.ACCENT if row.attack == bench.attack else chart_style.INK,
        }
        for row in bench.rows
        if not row.reason and "auc" in row.metrics
    ]  # fmt: skip
    order = [bench.attack, *bench.builtin]
    y = alt.Y("attack:N", sort=order, title=None).axis(labelLimit=0)
    colour = alt.Color("colour:N", scale=None)
    data = chart_style.inline_data(dots)
    x = alt.X("value:Q", title="AUC", scale=alt.Scale(zero=False))
    bars = alt.Chart().mark_rule().encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour)
    points = alt.Chart().mark_point(filled=True, opacity=1).encode(x=x, y=y, color=colour)
    panels = (
        alt.layer(bars, points, data=data)
        .properties(width=_WIDTH)
        .facet(facet=alt.Facet("target:N", title=None, sort=list(bench.audits)), columns=_COLUMNS)
    )
    return charts.render(chart_style.apply_style(panels), "svg")
