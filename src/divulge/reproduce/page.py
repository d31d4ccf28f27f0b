"""Write one HTML page of all measured tables, without scripts or external files."""

from pathlib import Path
from typing import NamedTuple, get_args

import altair as alt
from markupsafe import Markup

from divulge._util import atomic
from divulge.errors import StoreError
from divulge.report.charts import render
from divulge.report.page import environment
from divulge.reproduce import charts
from divulge.reproduce.papers.raifle import tradeoff as raifle_tradeoff
from divulge.reproduce.result import NAME, PAIRED, Outcome, figure, read
from divulge.reproduce.table import TABLES, Size

PAGE = "tables.html"


class Found(NamedTuple):
    """Results of tables found in a folder of run folders."""

    outcomes: tuple[Outcome, ...]
    """One result a table, in the order in which `divulge reproduce` lists them."""
    unread: tuple[str, ...]
    """Reasons why runs were left out, one a run."""


def gather(runs: Path) -> Found:
    """Find the largest run of each table, and among equally large ones the last."""
    best: dict[str, Outcome] = {}
    unread = []
    for path in sorted(runs.glob(f"*/{NAME}")):
        try:
            found = read(path)
        except StoreError as error:
            unread.append(str(error))
            continue
        if found.table not in best or _rank(found) > _rank(best[found.table]):
            best[found.table] = found
    order = [*TABLES, *sorted(best)]
    return Found(tuple(best[name] for name in dict.fromkeys(order) if name in best), tuple(unread))


def _rank(outcome: Outcome) -> tuple[int, str]:
    return get_args(Size).index(outcome.size), outcome.made.date


def write(runs: Path) -> Path:
    """Write the page of all tables beside their run folders, and return its path.

    Raises:
        StoreError: it cannot be written.
    """
    path = runs / PAGE
    atomic.write(path, page(gather(runs)).encode())
    return path


def page(found: Found) -> str:
    """Render the page as HTML."""
    whole = charts.overview(found.outcomes)
    drawn = {outcome.table: _drawn(charts.beside(outcome)) for outcome in found.outcomes}
    curves = {outcome.table: _drawn(charts.curves(outcome)) for outcome in found.outcomes}
    tradeoff = raifle_tradeoff.curve({outcome.table: outcome for outcome in found.outcomes})
    return (
        environment()
        .get_template("tables.html.j2")
        .render(
            outcomes=found.outcomes,
            unread=found.unread,
            missing=[name for name in TABLES if name not in drawn],
            overview=_drawn(whole),
            figures=drawn,
            curves=curves,
            tradeoff=_drawn(tradeoff),
            figure=figure,
            paired=PAIRED,
            both=[
                c for outcome in found.outcomes for c in outcome.cells if c.difference is not None
            ],
        )
    )


def _drawn(chart: alt.LayerChart | alt.HConcatChart | None) -> Markup | None:
    return None if chart is None else Markup(render(chart, "svg").decode())  # noqa: S704 (drawn by us)
