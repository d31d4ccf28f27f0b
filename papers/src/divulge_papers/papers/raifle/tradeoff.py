"""Draw the trade-off of noise on updates between attack and ranking: RAIFLE's tables IX and X."""

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from divulge.report import chart_style
from divulge_papers.figure import Cell
from divulge_papers.papers.raifle import tables
from divulge_papers.papers.raifle.study import AUTO
from divulge_papers.result import Outcome
from divulge_papers.table import Row

ATTACK_TABLE, RANKING_TABLE = "raifle-table9", "raifle-table10"
"""Names of the tables that the curve combines."""


def tradeoff_chart(outcomes: Mapping[str, Outcome]) -> alt.LayerChart | None:
    """Draw the AUC of clicks against NDCG@10, a line for each data set and kind of items.

    Both are of a linear ranker and informational clicks, so that only ε differs along a line.

    Args:
        outcomes: results by name of the table.
    """
    if not {ATTACK_TABLE, RANKING_TABLE} <= outcomes.keys():
        return None
    points = list(_points(outcomes[ATTACK_TABLE], outcomes[RANKING_TABLE]))
    if not points:
        return None
    lines = list(dict.fromkeys(point["line"] for point in points))
    many = len(lines)
    x = alt.X("ndcg:Q", title="NDCG@10 of the ranker").scale(zero=False)
    y = alt.Y("auc:Q", title="AUC of the attack").scale(domain=[0.4, 1.0])
    legend = alt.Legend(orient="top", title=None, columns=2)
    colour = alt.Color("line:N", legend=legend).scale(
        domain=lines, range=chart_style.COLOURS[:many]
    )
    base = alt.Chart(chart_style.inline_data(points)).encode(color=colour)
    return chart_style.style_layers(
        base.mark_line(opacity=0.6).encode(x=x, y=y, order="order:Q"),
        base.mark_rule(opacity=0.35).encode(x=x, y=alt.Y("auc_low:Q"), y2="auc_high:Q"),
        base.mark_rule(opacity=0.35).encode(y=y, x=alt.X("ndcg_low:Q"), x2="ndcg_high:Q"),
        base.mark_point(filled=True, size=50, opacity=1).encode(x=x, y=y),
        base.mark_text(dx=8, align="left", fontSize=11)
        .encode(x=x, y=y, text="noise:N")
        .transform_filter("datum.manipulated"),
        height=320,
    )


def _points(attacked: Outcome, ranked: Outcome) -> Iterator[dict[str, Any]]:
    """Points of the curve: cells of table IX about a search engine, with their cells of table X."""
    utility = {_setting(row): _cell(ranked, row.name, "NDCG@10") for row in tables.TABLE_10.rows}
    for order, row in enumerate(tables.TABLE_9.rows):
        settings = row.settings
        if settings["attack"] != AUTO:
            continue
        auc = _cell(attacked, row.name, "AUC")
        ndcg = utility.get(_setting(row)) if settings["setting"] == "searched" else None
        if auc is None or ndcg is None or auc.ours is None or ndcg.ours is None:
            continue
        name = {"mq2008": "MQ2008", "mslr": "MSLR"}[str(settings["data"])]
        items = "noise handed out" if settings["manipulated"] else "items as they are"
        yield {
            "line": f"{name}, {items}",
            "noise": "no noise" if settings["epsilon"] is None else f"ε = {settings['epsilon']:g}",
            "order": order,
            "manipulated": settings["manipulated"],
            "auc": auc.ours.value,
            "auc_low": auc.ours.low,
            "auc_high": auc.ours.high,
            "ndcg": ndcg.ours.value,
            "ndcg_low": ndcg.ours.low,
            "ndcg_high": ndcg.ours.high,
        }


def _setting(row: Row) -> tuple[Any, ...]:
    """Settings that must be equal for two figures to belong to one ranker."""
    return tuple(row.settings.get(key) for key in ("data", "hidden", "habit", "epsilon"))


def _cell(outcome: Outcome, row: str, column: str) -> Cell | None:
    cells = [cell for cell in outcome.of_row(row) if cell.column == column]
    return cells[0] if cells else None
