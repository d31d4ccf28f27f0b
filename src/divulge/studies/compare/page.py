"""The page of a comparison shows its table, and figures of accuracy over leakage."""

import json
from collections.abc import Mapping

import altair as alt

from divulge._util import showable
from divulge.report import charts, words
from divulge.report.page import inline_figure, template_environment
from divulge.studies.compare import table as compare_table
from divulge.studies.compare.front_chart import FrontPoint, draw_front
from divulge.studies.compare.table import ComparisonSummary

_LABEL = 30
"""Most characters of a name in a figure."""


def render_files(summary: ComparisonSummary) -> dict[str, bytes]:
    """The files of the report: page, tables, and a figure for each metric."""
    drawn = {
        f"front-{metric}": charts.render(front_chart(summary, metric), "svg")
        for metric in summary.metrics
    }
    return {
        "report.html": _render_page(
            summary, {name: svg.decode() for name, svg in drawn.items()}
        ).encode(),
        **compare_table.summary_files(summary),
        **{f"figures/{name}.svg": svg for name, svg in drawn.items()},
    }


def front_chart(summary: ComparisonSummary, metric: str) -> alt.LayerChart:
    """Accuracy over what the strongest attack reaches; filled dots are dominated by none."""
    rows = [row for row in summary.rows if metric in row.strongest]
    best = compare_table.pareto_front(rows, metric)
    names = words.shorten_names([row.name for row in rows], _LABEL)
    return draw_front(
        [
            FrontPoint(name, row.strongest[metric].estimate, row.accuracy, row.name in best)
            for row, name in zip(rows, names, strict=True)
        ],
        metric,
    )


def _render_page(summary: ComparisonSummary, svgs: Mapping[str, str]) -> str:
    above, *below = compare_table.lines(summary)
    return (
        template_environment("divulge.studies")
        .get_template("compare.html.j2")
        .render(
            summary=summary,
            verdict=compare_table.judge_comparison(summary),
            above=above,
            below=below,
            headings=compare_table.headings(summary),
            table=[
                [showable.make_showable(cell) for cell in compare_table.cells(summary, row)]
                for row in summary.rows
            ],
            paired=[
                [showable.make_showable(cell) for cell in row]
                for row in compare_table.differences(summary)
            ],
            about_paired=compare_table.PAIRED_NOTE,
            best=compare_table.pareto_front(summary.rows),
            notes=[
                (row.name, note) for row in summary.rows for note in compare_table.notes_on(row)
            ],
            figures={name: inline_figure(svg) for name, svg in svgs.items()},
            reproduction=json.dumps(
                showable.make_all_showable(summary.reproduction),
                indent=2,
                ensure_ascii=False,
                default=str,
            ),
        )
    )
