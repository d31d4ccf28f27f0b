"""Each piece of work once, our figure beside the paper's, nothing dropped."""

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest
from click.testing import CliRunner
from scipy import stats
from threadpoolctl import threadpool_info

from divulge.cli.main import main
from divulge.core import Estimate
from divulge_papers import cells, combine, run, source
from divulge_papers import table as tables
from divulge_papers.attempts import RowResult
from divulge_papers.cells import read_pieces
from divulge_papers.result import Outcome, read_outcome
from divulge_papers.run import reproduce
from divulge_papers.table import Row, Size
from papers.tests import trial
from papers.tests.trial import calls

TRIAL = f"{trial.__name__}:TABLE"


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    """Two tables alone, of one file; in the end all are there again, in their order."""
    calls.clear()
    listed = dict(tables.TABLES)
    tables.TABLES.clear()
    tables.TABLES.update(trial=TRIAL, second=TRIAL)
    yield
    tables.TABLES.clear()
    tables.TABLES.update(listed)


def measured(folder: Path, size: Size = "small") -> Outcome:
    return next(reproduce({"trial": folder}, size))


def test_figures_stand_beside_the_papers_with_intervals(tmp_path: Path) -> None:
    done = measured(tmp_path / "run")
    one, other, none, *broken = done.cells
    assert isinstance(one.ours, Estimate)
    assert (one.ours.value, one.paper, one.difference) == (1.0, 0.5, 0.5)  # of 0.5 and 1.5
    assert one.covers
    assert one.units == 2  # each the mean of two seeds
    assert one.ours.low == 0.0  # Student's, from -5.35, cut at what can be
    assert one.ours.high == pytest.approx(1 + stats.t.ppf(0.975, 1) / 2)
    assert (other.paper, other.difference, other.covers) == (None, None, False)
    assert none.ours is None
    assert none.reason == "0 units, of 2 needed"
    assert {cell.reason for cell in broken} == {"expected data, got none"}
    # the second column is 0 of two units: the interval that two trials support
    assert other.ours is not None
    assert other.ours.high == pytest.approx(1 - 0.025**0.5)
    text = (tmp_path / "run" / "table.md").read_text(encoding="utf-8")
    assert "| 1.000 (0.000 to 7.353); paper 0.500, +0.500 |" in text
    assert "Not measured (expected data, got none): broken" in text
    assert "What differs: everything" in text


def test_what_was_written_can_be_read_and_says_how_it_was_made(tmp_path: Path) -> None:
    done = measured(tmp_path)
    assert read_outcome(tmp_path / "table.json") == done
    assert done.made.command == "divulge reproduce trial --size small"
    assert done.made.processes == 1 <= done.made.cores
    assert done.made.date.endswith("+00:00")


def test_what_is_there_is_not_measured_again_and_what_failed_is(tmp_path: Path) -> None:
    first = measured(tmp_path / "run")
    assert len(calls) == 4
    second = measured(tmp_path / "run")
    assert len(calls) == 6  # the two of the broken row
    assert second.cells == first.cells
    measured(tmp_path / "run", "paper")
    assert len(calls) == 12  # another size is other work


def test_what_two_tables_need_is_measured_once(tmp_path: Path) -> None:
    folders = {"trial": tmp_path / "one", "second": tmp_path / "two"}
    first, second = reproduce(folders, "small")
    assert len(calls) == 4
    assert (first.table, second.table) == ("trial", "second")
    assert first.cells == second.cells == read_outcome(tmp_path / "two" / "table.json").cells
    kept = [read_pieces(folder) for folder in folders.values()]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2  # not those of the broken row, which will be tried again
    calls.clear()
    next(reproduce({"second": tmp_path / "two"}, "small"))
    assert len(calls) == 2


def test_each_table_comes_as_soon_as_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(trial.TABLE, rows=(Row("another", {"offset": 0.5}),))
    for module in (run, combine):
        monkeypatch.setattr(
            module, "find_table", {"trial": trial.TABLE, "second": other}.__getitem__
        )
    coming = reproduce({"trial": tmp_path / "one", "second": tmp_path / "two"}, "small")
    assert (next(coming).table, len(calls)) == ("trial", 4)
    assert (next(coming).table, len(calls)) == ("second", 6)


def test_pieces_that_other_code_measured_are_not_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(tmp_path)
    monkeypatch.setattr(source, "code", lambda _: "changed")
    measured(tmp_path)
    assert len(calls) == 8


def test_seconds_are_those_of_all_processes_because_work_stays_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def work(*_: object, **__: object) -> RowResult:
        counted.append(joblib.cpu_count())
        return RowResult({"one": [0.0, 1.0]})

    monkeypatch.setattr(trial, "work", work)
    before = joblib.cpu_count()
    measured(tmp_path)
    assert set(counted) == {1}
    assert joblib.cpu_count() == before


def test_the_command_prints_json_last_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "trial", "--processes", "1"]
    said = CliRunner().invoke(main, [*command, "--format", "json"])
    answer: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    assert set(answer) == {"table", "state", "cells", "differences", "controls"}
    assert answer["table"] == "trial"
    assert answer["cells"][0] == {
        "row": "low",
        "column": "one",
        "ours": 1.0,
        "single": None,
        "low": 0.0,
        "high": pytest.approx(7.353, abs=1e-3),  # Student's, of 2 units, one apart
        "deviation": None,
        "paper": 0.5,
        "units": 2,
        "kind": "mean",
    }
    assert (tmp_path / "runs" / "trial-small-001" / "table.json").is_file()
    again = CliRunner().invoke(main, [*command, "--resume"])
    assert again.exit_code == 0
    assert "0.000 to 7.353" in again.stdout
    assert "+0.500" in again.stdout
    assert not (tmp_path / "runs" / "trial-small-002").exists()
    assert len(calls) == 6


def test_without_table_the_command_lists_and_with_a_size_it_measures_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(main, ["reproduce"])
    assert "trial" in listed.stdout
    assert "all, at most" in listed.stdout
    assert calls == []
    said = CliRunner().invoke(
        main, ["reproduce", "--size", "small", "--processes", "1", "--format", "json"]
    )
    assert [json.loads(line)["table"] for line in said.stdout.splitlines()] == ["trial", "second"]
    page = (tmp_path / "runs" / "tables.html").read_text(encoding="utf-8")
    assert 'id="trial"' in page
    assert 'id="second"' in page


def test_rows_may_share_a_folder_and_show_how_far_values_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharing = dataclasses.replace(
        trial.TABLE, work=f"{trial.__name__}:sharing", keeps=True, deviations=True
    )
    monkeypatch.setattr(trial, "TABLE", sharing)
    done = measured(tmp_path)
    assert (tmp_path / "shared").read_text(encoding="utf-8") == "once"
    assert done.cells[0].deviation == pytest.approx(0.5**0.5)
    assert " ± 0.707" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert read_outcome(tmp_path / "table.json") == done


def test_a_piece_has_one_core_and_leaves_the_others_as_they_were() -> None:
    before = [pool["num_threads"] for pool in threadpool_info()], os.environ.copy()
    with cells._one_core():
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        assert joblib.cpu_count() == 1
    assert before == ([pool["num_threads"] for pool in threadpool_info()], os.environ.copy())
