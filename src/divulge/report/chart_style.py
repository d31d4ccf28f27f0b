"""All figures share one style: quiet axes, Okabe and Ito's colours, and system fonts.

Colour-blind readers can tell the colours apart; lines differ in their dashes and areas in their
lightness as well, so that a print in grey loses nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

ACCENT, MUTED, INK, RULE = "#0072B2", "#8A9097", "#30343A", "#DDE0E4"
COLOURS = (ACCENT, "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
MEMBERS = "#8C564B"
"""Colour of members, and of nothing else: blue is the deciding attack, or what was measured."""
DASHES = ((1, 0), (7, 2), (2, 2), (8, 2, 2, 2), (4, 4), (1, 3))
PERCENT = "format(100 * datum.value, '~g') + ' %'"
"""A Vega expression that writes an axis's rates as the text does."""

WIDTH = 440
"""Width of a chart without its axes, in pixels."""
_MARGIN = {"left": 8, "top": 8, "right": 24, "bottom": 8}
"""Pixels around a chart. The right margin holds the part of a row's figures that outgrows its room
in a reader's wider font."""
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
"""Font families of equal widths: a text is measured on one machine and drawn on another."""


def inline_data(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows for a chart; given inline, they are not subject to Altair's limit on tables."""
    with debug_mode(arg=False):  # to check each row takes longer than to draw them all
        return alt.InlineData(values=tuple(dict(row) for row in rows))  # tuples are not copied


def style_layers(*layers: alt.Chart, height: int | alt.Step) -> alt.LayerChart:
    """The layers as one chart in the common style."""
    chart: alt.LayerChart = apply_style(
        alt.layer(*layers).properties(width=WIDTH, height=height, padding=_MARGIN)
    )
    return chart


def apply_style(chart: Any) -> Any:
    """A chart of any kind in the common style."""
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK}
    return (
        chart.properties(background="white")
        .configure(font=FONT, aria=False)
        .configure_view(stroke=None)
        .configure_title(font=FONT, fontSize=14, fontWeight="normal", color=INK)
        .configure_axis(
            **text,
            labelFontSize=13,
            titleFontSize=14,
            titleFontWeight="normal",
            titlePadding=10,
            domainColor=MUTED,
            tickColor=MUTED,
            tickSize=4,
            gridColor=RULE,
            labelLimit=400,
            labelFlush=False,
        )
        .configure_legend(**text, labelFontSize=12, symbolSize=220, labelLimit=400, rowPadding=4)
        .configure_text(font=FONT, fontSize=13, color=INK)
    )


def log_axis(field: str, title: str, decade: int) -> dict[str, Any]:
    """Arguments of a logarithmic position channel from this power of ten to one."""
    return {
        "shorthand": f"{field}:Q",
        "title": title,
        "scale": alt.Scale(type="log", domain=[10.0**decade, 1], nice=False),
        "axis": alt.Axis(
            values=[10.0**power for power in range(decade, 1)],
            labelExpr=PERCENT,
        ),
    }
