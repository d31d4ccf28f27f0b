"""Write one HTML page of all measured tables, without scripts or external files."""

from pathlib import Path
from typing import NamedTuple, get_args

import altair as alt
from markupsafe import Markup

from divulge._util import atomic
from divulge.errors import StoreError
from divulge.report.charts import render
from divulge.report.page import template_environment
from divulge_papers import charts
from divulge_papers.figure import figure
from divulge_papers.papers.raifle import tradeoff as raifle_tradeoff
from divulge_papers.result import DIFFERENCES_NOTE, RESULT_FILE, Outcome, read_outcome
from divulge_papers.table import TABLES, Size

PAGE = "tables.html"


class TableRuns(NamedTuple):
    """Results of tables found in a folder of run folders."""

    outcomes: tuple[Outcome, ...]
    """One result a table, in the order in which `divulge reproduce` lists them."""
    unread: tuple[str, ...]
    """Reasons why runs were left out, one a run."""


def gather_runs(runs: Path) -> TableRuns:
    """Find the largest run of each table that has figures, and among equal ones the last."""
    best: dict[str, Outcome] = {}
    unread = []
    for path in sorted(runs.glob(f"*/{RESULT_FILE}")):
        try:
            outcome = read_outcome(path)
        except StoreError as error:
            unread.append(str(error))
            continue
        if outcome.empty and not outcome.unmeasured:  # nothing was begun
            continue
        if outcome.table not in best or _rank(outcome) > _rank(best[outcome.table]):
            best[outcome.table] = outcome
    order = [*TABLES, *sorted(best)]
    return TableRuns(
        tuple(best[name] for name in dict.fromkeys(order) if name in best), tuple(unread)
    )


def _rank(outcome: Outcome) -> tuple[bool, int, str]:
    return not outcome.empty, get_args(Size).index(outcome.size), outcome.made.date


def write_page(runs: Path) -> Path:
    """Write the page of all tables beside their run folders, and return its path.

    Raises:
        StoreError: it cannot be written.
    """
    path = runs / PAGE
    atomic.write(path, render_page(gather_runs(runs)).encode())
    return path


def render_page(runs: TableRuns) -> str:
    """Render the page as HTML."""
    whole = charts.overview_chart(runs.outcomes)
    drawn = {outcome.table: _to_svg(charts.comparison_chart(outcome)) for outcome in runs.outcomes}
    curves = {outcome.table: _to_svg(charts.curve_chart(outcome)) for outcome in runs.outcomes}
    tradeoff = raifle_tradeoff.tradeoff_chart({outcome.table: outcome for outcome in runs.outcomes})
    return (
        template_environment("divulge_papers")
        .get_template("tables.html.j2")
        .render(
            outcomes=runs.outcomes,
            unread=runs.unread,
            missing=[name for name in TABLES if name not in drawn],
            overview=_to_svg(whole),
            figures=drawn,
            curves=curves,
            tradeoff=_to_svg(tradeoff),
            figure=figure,
            paired=DIFFERENCES_NOTE,
            both=[
                c for outcome in runs.outcomes for c in outcome.cells if c.difference is not None
            ],
        )
    )


def _to_svg(chart: alt.LayerChart | alt.HConcatChart | None) -> Markup | None:
    return None if chart is None else Markup(render(chart, "svg").decode())  # noqa: S704 (drawn by us)
