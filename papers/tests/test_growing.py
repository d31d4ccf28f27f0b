"""A table of size paper grows over days: piece by piece, the cheapest first, nothing lost."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.errors import SpecError, StoreError
from divulge_papers import source
from divulge_papers import table as tables
from divulge_papers.budget import Costs, parse_budget
from divulge_papers.cells import PIECES_FILE, Piece, key_pieces, read_pieces
from divulge_papers.controls import RowControls
from divulge_papers.figure import NOT_YET
from divulge_papers.provenance import Measurement
from divulge_papers.result import Outcome, read_outcome
from divulge_papers.run import reproduce
from divulge_papers.table import Row
from papers.tests import trial
from papers.tests.trial import calls

ROWS = (Row("dear", {"offset": 1.0}, weight=10.0), Row("cheap", {"offset": 0.0}))
TABLE = dataclasses.replace(
    trial.TABLE, rows=ROWS, minutes={"small": 0, "paper": 330}, pairs=(("dear", "cheap"),)
)
"""At size paper 3 seeds: 10 minutes for a cheap piece, and 100 for a dear one."""
QUICK = dataclasses.replace(
    TABLE, rows=(Row("quick", {"offset": 2.0}),), minutes={"small": 0, "paper": 3}, pairs=()
)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    calls.clear()
    listed = dict(tables.TABLES)
    tables.TABLES.clear()
    tables.TABLES.update(growing=f"{__name__}:TABLE", quick=f"{__name__}:QUICK")
    yield
    tables.TABLES.clear()
    tables.TABLES.update(listed)


def grown(folder: Path, budget: str | None, *, refresh: bool = False) -> Outcome:
    return next(reproduce({"growing": folder}, "paper", budget=budget, refresh=refresh))


def test_a_budget_takes_what_fits_and_the_rest_comes_later(tmp_path: Path) -> None:
    done = grown(tmp_path, "20m")
    assert [seed for seed, _ in calls] == [0, 1, 2]  # the cheap ones
    assert done.state is not None
    assert (done.state.pieces, done.state.of, done.state.older) == (3, 6, 0)
    assert done.state.core_hours_missing == pytest.approx(5.0)
    assert read_outcome(tmp_path / "table.json") == done
    dear, cheap = done.of_row("dear"), done.of_row("cheap")
    assert {cell.reason for cell in dear} == {NOT_YET}
    assert cheap[0].ours is not None
    assert done.control("dear") == NOT_YET
    assert {cell.reason for cell in done.differences} == {NOT_YET}
    assert done.unmeasured == {"0 units, of 2 needed": "cheap"}  # its column without values
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "3 of 6 pieces of work (a row with a seed) are measured; about 5 core-hours" in text
    assert "| dear | not measured yet | not measured yet | not measured yet | 0 of 3 |" in text
    whole = grown(tmp_path, None)
    assert len(calls) == 6
    assert whole.complete
    assert [cell for cell in whole.cells if cell.row == "cheap"] == list(cheap)


def test_each_piece_says_how_it_was_measured(tmp_path: Path) -> None:
    done = grown(tmp_path, "20m")
    assert [(one.row, one.seed) for one in done.pieces] == [("cheap", seed) for seed in range(3)]
    made = done.pieces[0].made
    assert made.date.endswith("+00:00")
    assert made.cores >= 1
    assert made.commit == done.made.commit
    assert made.source == source.code(trial.__name__)
    assert [piece.made for piece in read_pieces(tmp_path).values()] == [
        one.made for one in done.pieces
    ]


def test_the_cheapest_of_all_tables_comes_first(tmp_path: Path) -> None:
    folders = {"growing": tmp_path / "one", "quick": tmp_path / "two"}
    outcomes = reproduce(folders, "paper", budget="20m")
    assert (next(outcomes).table, len(calls)) == ("quick", 3)
    assert (next(outcomes).table, len(calls)) == ("growing", 6)


def test_rows_are_measured_by_name(tmp_path: Path) -> None:
    done = next(reproduce({"growing": tmp_path}, "paper", rows=["ch*p"]))
    assert done.state is not None
    assert (len(calls), done.state.pieces, done.state.of) == (3, 3, 6)
    assert {cell.reason for cell in done.of_row("dear")} == {NOT_YET}
    whole = next(reproduce({"growing": tmp_path}, "paper", rows=["dear", "cheap"]))
    assert (len(calls), whole.complete) == (6, True)


def test_a_row_that_is_not_there_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    folders = {"growing": tmp_path / "one", "quick": tmp_path / "two"}
    with pytest.raises(SpecError, match=r"'cheep': did you mean 'cheap'\?"):
        next(reproduce(folders, "paper", rows=["quick", "cheep"]))
    assert calls == []
    assert not (tmp_path / "one").exists()


def test_nothing_is_begun_without_time_and_the_table_says_so(tmp_path: Path) -> None:
    done = grown(tmp_path, "0m")
    assert calls == []
    assert done.empty
    assert not done.unmeasured
    assert str(done.state).startswith("0 of 6 pieces")


def test_a_row_costs_what_its_other_seeds_took() -> None:
    costs = Costs([TABLE], "paper")
    (first, dear, _), (second, cheap, _), *_ = list(key_pieces(TABLE, "paper"))
    assert (dear.name, cheap.name) == ("dear", "cheap")
    assert (costs.seconds(first), costs.seconds(second)) == (6000, 600)
    made = Measurement("0", "", "", 2, cpu_seconds=30.0)
    costs.learn(Piece(first, "dear", 0, {}, "", RowControls("dear", 0), made))
    assert costs.core_hours(key for key, *_ in key_pieces(TABLE, "paper")) == pytest.approx(
        (3 * 30 + 3 * 600) / 3600
    )


def test_a_table_costs_more_where_its_other_rows_took_more_than_their_share() -> None:
    costs = Costs([TABLE], "paper")
    (dear, *_), (cheap, *_), *_ = list(key_pieces(TABLE, "paper"))
    made = Measurement("0", "", "", 2, cpu_seconds=12_000.0)
    costs.learn(Piece(cheap, "cheap", 0, {}, "", RowControls("cheap", 0), made))
    assert costs.seconds(dear) == pytest.approx(20 * 6000)  # 12,000 s of 600


def test_at_size_paper_what_older_code_measured_stays_until_it_is_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(tmp_path, None)
    monkeypatch.setattr(source, "code", lambda _: "changed")
    kept = grown(tmp_path, None)
    assert len(calls) == 6
    assert kept.state is not None
    assert kept.state.older == 6
    assert "An older source of the study measured 6 of them." in str(kept.state)
    some = grown(tmp_path, "0m", refresh=True)
    assert len(calls) == 6
    assert some.complete  # what was there is shown until there is something newer
    every = grown(tmp_path, None, refresh=True)
    assert len(calls) == 12
    assert every.state is not None
    assert every.state.older == 0


def test_a_piece_that_was_half_written_is_measured_again(tmp_path: Path) -> None:
    grown(tmp_path, None)
    path = tmp_path / PIECES_FILE
    path.write_bytes(path.read_bytes()[:-30])
    assert grown(tmp_path, None).complete
    assert len(calls) == 7
    assert len(path.read_text(encoding="utf-8").splitlines()) == 6


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    grown(tmp_path, None)
    path = tmp_path / PIECES_FILE
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0][:40], *lines[1:], ""]), encoding="utf-8")
    with pytest.raises(StoreError, match=r"pieces\.jsonl as divulge wrote it"):
        grown(tmp_path, None)


@pytest.mark.parametrize("budget", ["", "2", "h", "1.5h", "-1h", "2h30", "99999h", "1d"])
def test_what_is_no_budget_is_refused(budget: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="write 2h, 90m or 1h30m"):
        parse_budget(budget)
    with pytest.raises(SpecError, match="write 2h"):
        grown(tmp_path / "run", budget)
    assert not (tmp_path / "run").exists()


def test_the_command_goes_on_where_it_was_and_an_incomplete_table_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "--size", "paper", "--budget", "20m", "--processes", "1"]
    for _ in range(2):
        said = CliRunner().invoke(main, command)
        assert said.exit_code == 0, said.output
    assert len(calls) == 6
    told = " ".join(said.stdout.split())
    assert "growing, size paper: 3 of 6 pieces of work (a row with a seed) are measured" in told
    assert "quick, size paper: 3 of 3 pieces of work (a row with a seed) are measured." in told
    assert "1 of 2 tables are complete. About 5 core-hours are missing" in said.stderr
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        "growing-paper-001",
        "quick-paper-001",
        "tables.html",
    }
    rest = "reproduce growing --size paper --resume --processes 1 --format json"
    whole = CliRunner().invoke(main, rest.split())
    assert json.loads(whole.stdout.splitlines()[-1])["state"] == {
        "pieces": 6, "of": 6, "core_hours_missing": 0.0, "older": 0,
    }  # fmt: skip


def test_a_folder_of_ones_own_gets_a_folder_for_each_table(tmp_path: Path) -> None:
    command = ["reproduce", "--size", "paper", "--run", str(tmp_path / "here"), "--budget", "0m"]
    assert CliRunner().invoke(main, [*command, "--processes", "1"]).exit_code == 0
    assert (tmp_path / "here" / "growing" / "table.json").is_file()
    assert (tmp_path / "here" / "quick" / PIECES_FILE).is_file()
    assert calls == []
