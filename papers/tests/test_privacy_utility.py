"""The privacy-utility curve: cells of two tables about the same ranker, and nothing else."""

from divulge.core import Estimate
from divulge_papers.figure import Cell
from divulge_papers.papers.raifle import tables, tradeoff
from divulge_papers.provenance import Provenance
from divulge_papers.result import Outcome
from divulge_papers.table import Table


def outcome(name: str, table: Table, column: str) -> Outcome:
    """Each row's figure is its place in the table."""
    cells = tuple(
        Cell(row.name, column, Estimate(place / 100, 0.0, 1.0), None)
        for place, row in enumerate(table.rows)
    )
    made = Provenance("divulge reproduce", "abc123", 2, 1, "2026-01-01", 60.0, "0.1.0")
    rows = tuple(row.name for row in table.rows)
    return Outcome(name, "small", "title", "source", rows, (column,), "", cells, made)


ATTACKED = outcome("raifle-table9", tables.TABLE_9, "AUC")
RANKED = outcome("raifle-table10", tables.TABLE_10, "NDCG@10")


def test_each_point_has_both_figures_of_one_ranker() -> None:
    chart = tradeoff.tradeoff_chart({"raifle-table9": ATTACKED, "raifle-table10": RANKED})
    assert chart is not None
    points = [row for rows in chart.to_dict()["datasets"].values() for row in rows]
    assert len(points) == 4 * 5
    assert len({point["line"] for point in points}) == 4
    (one,) = [
        point
        for point in points
        if point["line"] == "MQ2008, noise handed out" and point["noise"] == "ε = 20"
    ]
    auc, ndcg = round(100 * one["auc"]), round(100 * one["ndcg"])
    assert ATTACKED.rows[auc] == "mq2008, noise handed out, ε = 20, auto"
    assert RANKED.rows[ndcg] == "mq2008, no hidden, informational, ε = 20"


def test_with_one_of_the_tables_there_is_no_curve() -> None:
    assert tradeoff.tradeoff_chart({"raifle-table9": ATTACKED}) is None
    assert tradeoff.tradeoff_chart({}) is None
