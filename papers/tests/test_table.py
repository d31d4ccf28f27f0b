"""Each published table is a file of settings and published values."""

import importlib
import json
from pathlib import Path

import pytest

from divulge.errors import SpecError
from divulge_papers import table as tables
from divulge_papers.table import find_table


def test_an_unknown_table_is_named_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="decaf-table3"):
        find_table("decaf-tabel3")


def test_a_file_of_tables_holds_settings_and_values_alone() -> None:
    modules = [where.partition(":")[0] for where in tables.TABLES.values()]
    for module in set(modules):
        path = importlib.import_module(module).__file__
        lines = Path(str(path)).read_text(encoding="utf-8").splitlines()
        assert len(lines) < 80 * modules.count(module), module


@pytest.mark.parametrize("name", sorted(tables.TABLES))
def test_each_table_is_settings_and_published_values(name: str) -> None:
    table = find_table(name)
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert any(row.paper for row in table.rows) or "without figures" in table.source
    assert {name for pair in table.pairs for name in pair} <= {row.name for row in table.rows}
    assert set(table.kinds) <= set(table.columns)
    for row in table.rows:
        assert json.loads(json.dumps(row.settings))
        assert set(row.paper) <= set(table.columns)
        assert set(row.by_definition) <= set(table.columns)
    assert table.source.split(",")[0].rsplit(" ", 1)[-1].isdigit()
    assert set(table.seeds) == set(table.minutes) == set(table.differs)


@pytest.mark.parametrize("table", [t for t in map(find_table, sorted(tables.TABLES)) if t.common])
def test_rows_that_share_a_figure_by_definition_are_about_one_model(table: tables.Table) -> None:
    about = {
        row.name: {
            key: row.settings.get(key) for key in ("data", "model", "standardised", "epsilon")
        }
        for row in table.rows
    }
    for one, other in table.pairs:
        assert about[one] == about[other], (one, other)
