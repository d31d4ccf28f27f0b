"""Published tables: each piece of work once, our figure beside the paper's, nothing dropped."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leakscope.cli import main
from leakscope.core import Estimate
from leakscope.errors import DataError, SpecError
from leakscope.experiments import table as tables
from leakscope.experiments.table import Row, Table, find, reproduce

calls: list[tuple[int, str]] = []


def work(seed: int, size: str, *, offset: float) -> dict[str, list[float]]:
    calls.append((seed, size))
    if offset < 0:
        raise DataError("expected data, got none")
    return {"one": [offset + seed, offset + seed + 1], "other": [offset]}


TABLE = Table(
    title="A trial",
    source="Nobody 2026, table 0",
    columns=("one", "other", "none"),
    rows=(Row("low", {"offset": 0.0}, {"one": 0.5}), Row("broken", {"offset": -1.0})),
    work=f"{__name__}:work",
    seeds={"small": 2, "medium": 2, "full": 3},
    minutes={"small": 0, "medium": 0, "full": 0},
    differs=dict.fromkeys(("small", "medium", "full"), "everything"),
    largest={"one": 9.0},
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    monkeypatch.setitem(tables.TABLES, "trial", __name__)


def test_figures_stand_beside_the_papers_with_intervals(tmp_path: Path) -> None:
    done = reproduce("trial", "small", tmp_path / "run")
    one, other, none, *broken = done.cells
    assert isinstance(one.ours, Estimate)
    assert (one.ours.value, one.paper) == (1.0, 0.5)  # of 0, 1, 1 and 2
    assert one.ours.low == 0.0  # Student's, from -0.299, cut at what can be
    assert one.ours.high == pytest.approx(2.2992, abs=1e-3)
    assert other.paper is None
    assert none.ours is None
    assert none.reason == "0 values, of 2 needed"
    assert {cell.reason for cell in broken} == {"expected data, got none"}
    # the second column is 0 twice: a rate with the interval that two trials support
    assert other.ours is not None
    assert other.ours.high == pytest.approx(1 - 0.025**0.5)
    text = (tmp_path / "run" / "table.md").read_text(encoding="utf-8")
    assert "/ 0.500" in text
    assert "Not measured: broken: expected data, got none" in text
    assert "What differs: everything" in text


def test_what_is_there_is_not_measured_again_and_what_failed_is(tmp_path: Path) -> None:
    first = reproduce("trial", "small", tmp_path / "run")
    assert len(calls) == 4
    second = reproduce("trial", "small", tmp_path / "run")
    assert len(calls) == 6  # the two of the broken row
    assert second.cells == first.cells
    reproduce("trial", "full", tmp_path / "run")
    assert len(calls) == 12  # another size is other work


def test_the_command_lists_tables_and_prints_json_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(main, ["reproduce"])
    assert "decaf-table3" in listed.output
    assert "trial" in listed.output
    said = CliRunner().invoke(main, ["reproduce", "trial", "--format", "json"])
    answer: dict[str, Any] = json.loads(said.output.splitlines()[-1])
    assert answer["table"] == "trial"
    assert answer["cells"][0] == {
        "row": "low",
        "column": "one",
        "ours": 1.0,
        "low": 0.0,
        "high": pytest.approx(1 + 1.2992, abs=1e-3),  # Student's, of 4 values of variance 2/3
        "paper": 0.5,
    }
    assert (tmp_path / "runs" / "trial-small-001" / "table.json").is_file()
    again = CliRunner().invoke(main, ["reproduce", "trial", "--resume"])
    assert again.exit_code == 0
    assert not (tmp_path / "runs" / "trial-small-002").exists()
    assert len(calls) == 6


def test_an_unknown_table_is_named_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="decaf-table3"):
        find("decaf-tabel3")


@pytest.mark.parametrize("name", sorted(tables.TABLES))
def test_each_table_is_settings_and_published_values(name: str) -> None:
    table = find(name)
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert any(row.paper for row in table.rows)
    for row in table.rows:
        assert json.loads(json.dumps(row.settings))
        assert set(row.paper) <= set(table.columns)
    assert Path(str(tables.__file__)).with_name(f"{name.replace('-', '_')}.py").is_file()
    assert table.source.split(",")[0].rsplit(" ", 1)[-1].isdigit()
    assert set(table.seeds) == set(table.minutes) == set(table.differs)
