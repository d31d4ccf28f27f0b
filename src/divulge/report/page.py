"""The report is one HTML file that loads nothing, runs one script, and escapes every value."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup, escape

from divulge._util import showable
from divulge.report import words
from divulge.report.charts import MOST_ROWS
from divulge.report.ranking import rank
from divulge.report.remedies import MOST_SHOWN
from divulge.report.schema import Summary
from divulge.report.units import unit_of
from divulge.report.unmeasured import up_to_notes

GLANCE = ("auc", "tpr@0.01")
"""Metrics in the first table, which fits a telephone; all others stand in the second."""

LEADING = (*GLANCE, "epsilon")
"""Metrics beside the p-value."""


_POLICY = (
    "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
)
"""One script runs: the one with this digest (docs/adr/0015)."""

_WORD_END = re.compile(r"(?<=[(=_,/.])(?=\S)")
_ROLES = re.compile(r' (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*")')
_PER_CENT = re.compile(r"(?<=\d) %")


def render(summary: Summary, figures: Mapping[str, str]) -> str:
    """Render the page.

    Args:
        summary: all that the page says.
        figures: SVG by name, as `divulge.report.charts.draw_charts` draws them: their texts are
            escaped.
    """
    names = dict.fromkeys(
        name for row in summary.attacks for name in (*row.metrics, *row.unmeasured)
    )
    regression = summary.sizes.classes == 0
    return (
        template_environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            regression=regression,
            scores=summary.sizes.classes == 1,
            kind="fifth" if regression else "class",
            kinds="fifths" if regression else "classes",
            verdict=summary.verdict,
            unit=unit_of(summary),
            people=summary.sizes.people,
            figures={name: inline_figure(svg) for name, svg in figures.items()},
            speaker=next(
                (row for row in summary.attacks if row.label == summary.verdict.attack), None
            ),
            glance=GLANCE,
            leading=LEADING,
            ranked=rank(summary.attacks, summary.verdict.attack),
            others=[name for name in names if name not in GLANCE],
            up_to=up_to_notes,
            most_rows=MOST_ROWS,
            most_remedies=MOST_SHOWN,
        )
    )


@cache
def template_environment(package: str = "divulge.report") -> jinja2.Environment:
    """Templates in which every value is escaped, and a missing one is an error.

    Args:
        package: whose ``templates`` they are; these may take parts of the report's.
    """
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(name) for name in dict.fromkeys((package, "divulge.report"))]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_keep_percent_together,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "auc": words.format_auc,
        "breakable": make_breakable,
        "count": words.format_count,
        "moment": words.format_moment,
        "p_value": words.format_p_value,
        "percent": words.format_percent,
        "plain": showable.make_showable,
        "rate": words.format_rate,
        "difference": words.format_difference,
        "rounded_down": words.format_lower_bound,
        "title_of": words.metric_title,
        "pretty": _pretty_json,
    }
    made.globals["measured"] = words.format_metric
    script = resources.files("divulge.report").joinpath("templates/tables.js").read_bytes()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    made.globals["script"] = Markup(script.decode())  # noqa: S704 - a file of ours
    made.globals["policy"] = Markup(_POLICY.format(digest=digest))  # noqa: S704 - a digest
    return made


def _keep_percent_together(value: Any) -> Any:
    """Keep a number and its per cent sign on one line."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _PER_CENT.sub("\u202f%", value)
    return value


def make_breakable(name: str) -> Markup:
    """Let a name be broken where it has words, and nowhere else if that will do.

    Examples:
        >>> make_breakable("lira(signal=loss_<b>)")
        Markup('lira(<wbr>signal=<wbr>loss_<wbr>&lt;b&gt;)')
    """
    return Markup(_WORD_END.sub("<wbr>", str(escape(name))))  # noqa: S704 - escaped before


def inline_figure(svg: str) -> Markup:
    """A figure of ours within a page: one image, so that no part of it lacks a name of its own."""
    return Markup(_ROLES.sub("", svg))  # noqa: S704 - drawn by us


def _pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
