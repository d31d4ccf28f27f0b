"""Tables with very many columns: read in linear time, and refused beyond a limit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from divulge._util import untrusted
from divulge.core import Records
from divulge.data import columns, frames, tables, text_files
from divulge.data.records import load_record_sets
from divulge.errors import DataError, SpecError
from divulge.federation import prediction_tables
from divulge.targets.predictions import read_predictions
from tests.slow import slow

COLUMNS = 60_000
PARQUET_COLUMNS = 10_000

LIMIT = 40
"""CPU seconds; a reader whose time grows by the square of so many columns takes minutes."""


@contextmanager
def linear_time() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < LIMIT


def _write(path: Path, last: dict[str, list[str]], first: str = "0", columns: int = COLUMNS) -> str:
    """A table whose rows give every class the same probability, but for the first cell."""
    names = [f"p_{at}" for at in range(columns)]
    rows = ([first] + [f"{1 / (columns - 1):.12g}"] * (columns - 1) for _ in range(4))
    header, *ends = zip(*([name, *cells] for name, cells in last.items()), strict=True)
    lines = [[*names, *header], *([*row, *end] for row, end in zip(rows, ends, strict=True))]
    path.write_text("\n".join(",".join(line) for line in lines) + "\n")
    return path.name


LABELS = {"label": ["0", "1", "2", "3"], "member": ["0", "1", "0", "1"]}


def _predictions(folder: Path) -> None:
    table = read_predictions(folder / _write(folder / "a.csv", LABELS))
    assert table.answers.shape == (4, COLUMNS)
    assert table.label.tolist() == [0, 1, 2, 3]
    assert table.member.tolist() == [False, True, False, True]


def _records(folder: Path) -> None:
    name = _write(folder / "a.csv", LABELS, first="7")
    (records,) = load_record_sets([name], "label", folder)
    assert records.x.shape == (4, COLUMNS + 1)
    assert records.x[:, 0].tolist() == [7, 7, 7, 7]
    turned = records.arranged(records.columns[::-1], "the model")
    assert turned.x[:, -1].tolist() == [7, 7, 7, 7]


def _frames(folder: Path) -> None:
    pytest.importorskip("pandas")
    name = _write(folder / "a.csv", LABELS, first="cook")
    (records,) = load_record_sets([name], "label", folder)
    frame = records.rows()
    assert frame.shape == (4, COLUMNS + 1)
    assert frame["p_0"].tolist() == ["cook"] * 4
    assert frame["member"].dtype == np.int64


def _federation(folder: Path) -> None:
    last = {"label": ["0"] * 4, "relevant": list("0100"), "external": list("0010")}
    files = {
        "a": folder / _write(folder / "a.csv", {**last, "member": list("0100")}),
        "b": folder / _write(folder / "b.csv", last),
    }
    view = prediction_tables.read(files, "a")
    assert len(view.records) == 2


@pytest.mark.parametrize("read", [_predictions, *map(slow, (_records, _frames, _federation))])
def test_tables_are_read_in_linear_time(tmp_path: Path, read: Callable[[Path], None]) -> None:
    with linear_time():
        read(tmp_path)


@pytest.mark.slow
def test_parquet_is_read_in_linear_time(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    share = np.full(4, 1 / PARQUET_COLUMNS)
    answers = {f"p_{at}": share for at in range(PARQUET_COLUMNS)}
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({**answers, "label": [0, 1, 2, 3], "member": [0, 1, 0, 1]}), path)
    with linear_time():
        assert read_predictions(path).answers.shape == (4, PARQUET_COLUMNS)
        (records,) = load_record_sets([path.name], "label", tmp_path)
    assert records.x.shape == (4, PARQUET_COLUMNS + 1)


def test_a_frame_in_memory_is_read_in_linear_time() -> None:
    pd = pytest.importorskip("pandas")
    from divulge.data.records import as_records

    frame = pd.DataFrame(np.ones((3, COLUMNS)), columns=[f"c{at}" for at in range(COLUMNS)])
    with linear_time():
        records = as_records((frame, [0, 1, 0]), "members")
    assert isinstance(records, Records)
    assert records.x.shape == (3, COLUMNS)


def test_columns_of_a_frame_keep_their_types_and_their_order(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = tmp_path / "a.csv"
    path.write_text("text,whole,number,flag,gaps\na,1,0.5,true,\nb,2,1.5,false,true\n")
    frame = frames.read_frame(path, frames.column_types([path]))
    assert list(frame.columns) == ["text", "whole", "number", "flag", "gaps"]
    assert [str(kind) for kind in frame.dtypes] == ["object", "int64", "float64", "bool", "object"]
    assert frame["text"].tolist() == ["a", "b"]
    assert frame["flag"].tolist() == [True, False]
    assert frame["gaps"].tolist()[1] is True


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_more_columns_than_the_limit_are_refused_unless_the_user_trusts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(untrusted, "MAX_COLUMNS", 3)
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        path.write_text("a,b,c,label\n1,2,3,0\n")
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"a": [1], "b": [2], "c": [3], "label": [0]}), path)
    with pytest.raises(DataError, match=r"at most 3 columns in .*, got 4: .*DIVULGE_MAX_COLUMNS=4"):
        load_record_sets([path.name], "label", tmp_path)
    monkeypatch.setenv("DIVULGE_MAX_COLUMNS", "4")
    (records,) = load_record_sets([path.name], "label", tmp_path)
    assert records.columns == ("a", "b", "c")
    monkeypatch.setenv("DIVULGE_MAX_COLUMNS", "lots")
    with pytest.raises(SpecError, match="a number of columns in DIVULGE_MAX_COLUMNS, got 'lots'"):
        load_record_sets([path.name], "label", tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_that_is_too_long_is_refused_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(untrusted, "MAX_TEXT_BYTES", 50)
    monkeypatch.setattr(text_files, "_BLOCK", 16)
    path = tmp_path / "a.csv"
    path.write_bytes(("a,label" + end + ("1,0" + end) * 40).encode())
    assert len(tables.read_texts(path, "label")[0]) == 40
    for lines in (
        "{long}{end}1,0{end}",
        "a,label{end}{long}{end}1,0",
        "a,label{end}1,0{end}{long}",
    ):
        path.write_bytes(lines.format(long="1" * 60, end=end).encode())
        with pytest.raises(DataError, match=r"at most 50 bytes of a line of .*DIVULGE_MAX_BYTES"):
            tables.read_texts(path, "label")


def test_too_many_columns_are_summed_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "WIDEST", 4)
    features = np.random.default_rng(0).normal(size=(5, 10))
    summed = [[sum(row[at::4]) for at in range(4)] for row in features]
    np.testing.assert_allclose(columns.narrow(features), summed, rtol=1e-12)
    np.testing.assert_array_equal(columns.narrow(features[:, :4]), features[:, :4])
