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
    return draw_front(
        [
            FrontPoint(name, row.strongest[metric].estimate, row.accuracy, row.name in best)
            for row, name in zip(rows, names, strict=True)
        ],
        metric,
    )


def _render_page(told: ComparisonSummary, svgs: Mapping[str, str]) -> str:
    above, *below = compare_table.lines(told)
    return (
        template_environment("divulge.studies")
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
