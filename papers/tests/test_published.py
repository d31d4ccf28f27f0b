"""Published results: packed pieces read back to the byte, bombs refused, CSV with every figure."""

import dataclasses
import json
import lzma
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from divulge._util import untrusted
from divulge.errors import StoreError
from divulge_papers import table as tables
from divulge_papers.cells import PIECES_FILE
from divulge_papers.figure import figure
from divulge_papers.published import pack, published_file, read_published, unpack
from divulge_papers.result import Outcome
from divulge_papers.run import reproduce
from divulge_papers.table import Row, find_table
from divulge_papers.table_csv import from_csv, to_csv
from papers.tests import trial

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "papers" / "results"
QUICK = ("decaf-table11", "dap-table3", "mrad-questions", "nist-figure6", "raifle-table12")
NAMES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in tables.TABLES
]

ROWS = (Row("low", {"offset": 0.0}, {"one": 0.5}), Row("high", {"offset": 2.0}))
TABLE = dataclasses.replace(trial.TABLE, rows=ROWS, pairs=(("high", "low"),))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run folder of size paper of a table that nobody published."""
    listed = dict(tables.TABLES)
    tables.TABLES["grown"] = f"{__name__}:TABLE"
    list(reproduce({"grown": tmp_path / "run"}, "paper"))
    yield tmp_path / "run"
    tables.TABLES.clear()
    tables.TABLES.update(listed)


def test_a_packed_table_is_that_of_its_run(run: Path, tmp_path: Path) -> None:
    packed = pack(run, tmp_path / "results")
    assert packed == tmp_path / "results" / "grown.jsonl.xz"
    assert unpack(packed) == (run / PIECES_FILE).read_bytes()
    (measured,) = reproduce({"grown": run}, "paper")
    found = read_published(tmp_path / "results", "grown", "paper")
    assert found is not None
    assert found.made.commit == measured.made.commit
    assert dataclasses.replace(found, made=measured.made) == measured
    assert read_published(tmp_path / "results", "grown", "small") is None


def test_of_size_small_the_table_itself_is_packed(run: Path, tmp_path: Path) -> None:
    (measured,) = reproduce({"grown": tmp_path / "small"}, "small")
    packed = pack(tmp_path / "small", tmp_path / "results")
    assert packed == published_file(tmp_path / "results", "grown", "small")
    assert read_published(tmp_path / "results", "grown", "small") == measured


def test_pieces_that_were_cut_are_not_packed(run: Path, tmp_path: Path) -> None:
    path = run / PIECES_FILE
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match="last line is not finished"):
        pack(run, tmp_path / "results")


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-5],
        lambda raw: raw + b"more",
        lambda raw: raw + raw,
        lambda raw: b"PK" + raw,
        lambda raw: lzma.compress(lzma.decompress(raw), lzma.FORMAT_ALONE),
        lambda _: b"",
    ],
)
def test_a_damaged_file_is_named(run: Path, tmp_path: Path, damage: object) -> None:
    packed = pack(run, tmp_path / "results")
    assert callable(damage)
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(StoreError, match=r"grown\.jsonl\.xz as divulge wrote it"):
        read_published(tmp_path / "results", "grown", "paper")


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    limit = untrusted.MAX_TEXT_BYTES
    packed = tmp_path / "bomb.jsonl.xz"
    packed.write_bytes(lzma.compress(bytes(limit + 1), preset=0))
    assert packed.stat().st_size < limit / 1000
    with pytest.raises(StoreError, match=rf"bomb\.jsonl\.xz to unpack to at most {limit:,} bytes"):
        unpack(packed)


def test_csv_holds_every_figure(run: Path) -> None:
    (measured,) = reproduce({"grown": run}, "paper")
    text = to_csv([measured])
    assert text.startswith("size,row,less,one,one low,one high,one paper,other,")
    back = from_csv("grown", text)["paper"]
    assert shown(back) == shown(measured)
    assert back.state == measured.state
    assert back.made.cpu_seconds == pytest.approx(measured.made.cpu_seconds, abs=0.1)


def test_a_run_is_published_and_goes_on_elsewhere(run: Path, tmp_path: Path) -> None:
    main = runpy.run_path(str(ROOT / "docs" / "publish_results.py"))["main"]
    main.commands["pack"].callback.__globals__.update(PACKED=tmp_path / "results", PAGES=tmp_path)
    said = CliRunner().invoke(main, ["pack", str(run)])
    assert said.exit_code == 0, said.output
    (measured,) = reproduce({"grown": run}, "paper")
    assert (tmp_path / "grown.csv").read_text(encoding="utf-8") == to_csv([measured])
    said = CliRunner().invoke(main, ["unpack", str(tmp_path / "runs"), "grown"])
    assert said.exit_code == 0, said.output
    trial.calls.clear()
    (again,) = reproduce({"grown": tmp_path / "runs" / "grown"}, "paper")
    assert trial.calls == []  # every piece is there
    assert again.cells == measured.cells


def shown(outcome: Outcome) -> list[tuple[object, ...]]:
    """What pages show of each figure."""
    return [
        (cell.row, cell.column, figure(cell), cell.paper, cell.covers, cell.kind)
        for cell in (*outcome.cells, *outcome.differences)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_published_csv_is_that_of_the_pieces(name: str) -> None:
    both = (read_published(PUBLISHED, name, size) for size in ("paper", "small"))
    outcomes = [outcome for outcome in both if outcome is not None]
    for outcome in outcomes:
        over = any(cell.ours is not None and cell.kind != "by definition" for cell in outcome.cells)
        assert outcome.intervals.startswith("95 % intervals are over ") == over
    path = ROOT / "docs" / "results" / f"{name}.csv"
    assert path.read_text(encoding="utf-8") == to_csv(outcomes)


@pytest.mark.parametrize("name", sorted(tables.TABLES))
def test_published_figures_compare_as_the_pieces_do(name: str) -> None:
    """Six digits turn no comparison with a published figure, nor what is by definition."""
    text = (ROOT / "docs" / "results" / f"{name}.csv").read_text(encoding="utf-8")
    small = read_published(PUBLISHED, name, "small")
    assert small is not None
    back = from_csv(name, text)["small"]
    about = [(cell.covers, cell.kind, cell.paper, cell.single is None) for cell in small.cells]
    assert about == [(c.covers, c.kind, c.paper, c.single is None) for c in back.cells]
    assert [back.control(row) for row in back.rows] == [small.control(row) for row in small.rows]
    assert find_table(name).columns == back.columns


@pytest.mark.parametrize(
    "names", [("nist-table2", "nist-figure5"), ("raifle-table5", "raifle-table9", "raifle-table13")]
)
def test_tables_that_measure_a_row_alike_publish_one_figure_of_it(names: tuple[str, ...]) -> None:
    """Pieces are named by what they measure: two tables may not have two of one name."""
    published: dict[str, object] = {}
    common = 0
    for name in names:
        lines = unpack(published_file(PUBLISHED, name, "paper")).splitlines()
        pieces = {piece["key"]: piece["values"] for piece in map(json.loads, lines)}
        common += len(pieces.keys() & published.keys())
        assert all(published.get(key, values) == values for key, values in pieces.items())
        published |= pieces
    assert common
