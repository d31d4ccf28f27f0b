"""One page of all tables so far: the best run of each, drawn, escaped, and what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest

from divulge.core import Estimate
from divulge_papers import charts, page
from divulge_papers.figure import NOT_YET, Cell
from divulge_papers.provenance import Provenance
from divulge_papers.result import Outcome
from divulge_papers.table import Size
from tests.report import markup

HOSTILE = "</svg><script>alert(1)</script>"


def outcome(size: Size = "small", date: str = "2026-01-01", table: str = "decaf-table3") -> Outcome:
    cells = (
        Cell("plain", "L1", Estimate(0.2, 0.1, 0.3), 0.25),
        Cell("plain", "other", Estimate(0.9, 0.8, 1.0), None),
        Cell(HOSTILE, "L1", Estimate(0.4, 0.3, 0.5), None),
        Cell(HOSTILE, "other", None, 0.5, "expected data, got none"),
    )
    made = Provenance(f"divulge reproduce {table}", "abc123", 2, 1, date, 60.0, "0.1.0")
    rows, columns = ("plain", HOSTILE), ("L1", "other")
    return Outcome(table, size, "A title", "Nobody 2026", rows, columns, HOSTILE, cells, made)


def put(runs: Path, folder: str, one: Outcome) -> None:
    (runs / folder).mkdir()
    one.save(runs / folder)


def test_the_largest_run_of_each_table_counts_and_of_several_the_last(tmp_path: Path) -> None:
    put(tmp_path, "a", outcome("paper", "2026-01-02"))
    put(tmp_path, "b", outcome("paper", "2026-01-03"))
    put(tmp_path, "c", outcome("small", "2026-01-04"))
    put(tmp_path, "d", outcome(table="nist-table2"))
    begun = outcome("paper", "2026-01-05", "dap-table1")
    nothing = tuple(replace(cell, ours=None, reason=NOT_YET) for cell in begun.cells)
    put(tmp_path, "f", replace(begun, cells=nothing))
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "table.json").write_text("{}")
    found = page.gather_runs(tmp_path)
    assert [(one.table, one.made.date) for one in found.outcomes] == [
        ("decaf-table3", "2026-01-03"),
        ("nist-table2", "2026-01-01"),
    ]
    assert len(found.unread) == 1


def test_the_page_says_what_it_compares_and_shows_nothing_that_runs(tmp_path: Path) -> None:
    put(tmp_path, "a", outcome())
    text = page.write_page(tmp_path).read_text(encoding="utf-8")
    parsed = markup.parse(text)
    assert parsed.unclosed == []
    assert "script" not in parsed.tags
    assert HOSTILE in parsed.text  # as text
    assert "Of 1 published figure in them, 1 lie within" in text
    assert "paper 0.250, -0.050" in text
    assert "expected data, got none" in text
    assert "divulge reproduce decaf-table3" in text
    assert "commit abc123" in text
    assert "<code>nist-table2</code>" in text  # not measured yet
    assert text.count("<svg") == 2


def test_only_columns_with_published_figures_are_drawn() -> None:
    chart = charts.comparison_chart(outcome())
    assert chart is not None
    chart.to_dict()  # valid, as the next one is
    whole = charts.overview_chart([outcome()])
    assert whole is not None
    whole.to_dict()
    assert len(chart.hconcat) == 1
    bare = Outcome(
        "t", "small", "", "", ("a",), ("b",), "", (Cell("a", "b", None, None),), outcome().made
    )
    assert charts.comparison_chart(bare) is None
    assert charts.overview_chart([bare]) is None


def test_rows_that_a_table_wants_drawn_are_curves_over_its_numbered_columns() -> None:
    columns = ("10 % missing", "90 % missing", "accuracy")
    cells = [
        Cell(row, column, Estimate(0.7, 0.6, 0.8) if row == "one" else None, None, "lost")
        for row in ("one", "two", "three")
        for column in columns
    ]
    rows, made = ("one", "two", "three"), outcome().made
    whole = Outcome("t", "small", "", "", rows, columns, "", tuple(cells), made, ("one", "two"))
    chart = charts.curve_chart(whole)
    assert chart is not None
    drawn = chart.to_dict()
    (points,), (_, line) = drawn["datasets"].values(), drawn["layer"]
    assert [(point["name"], point["step"]) for point in points] == [("one", 10), ("one", 90)]
    assert line["encoding"]["x"]["title"] == "% missing"
    assert line["encoding"]["color"]["scale"]["domain"] == ["one"]  # "two" has no figure
    assert charts.curve_chart(outcome()) is None
    assert page.render_page(page.TableRuns((whole,), ())).count("<svg") == 1


@pytest.mark.parametrize("tables", [0, 1])
def test_there_is_a_page_of_any_number_of_tables(tables: int) -> None:
    text = page.render_page(page.TableRuns((outcome(),) * tables, ()))
    assert text.startswith("<!doctype html>")
