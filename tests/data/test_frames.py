"""Tables with texts, dates and empty cells: one type a column in all files, and hostile files."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge._util import untrusted
from divulge.data import frames, text_tables
from divulge.data.records import load_record_sets
from divulge.errors import DataError
from tests.golden import golden

pd = pytest.importorskip("pandas")

MODEL = """
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

train = pd.read_csv(__file__.replace("subject.py", "in.csv"))
columns = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["work"]), (SimpleImputer(), ["age", "id"])
)
model = make_pipeline(columns, DecisionTreeClassifier(random_state=0))
model.fit(train.drop(columns="income"), train["income"])
"""


def write(folder: Path, **files: str) -> list[Path]:
    paths = [folder / f"{name}.csv" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths


def read(*paths: Path) -> list[Any]:
    types = frames.column_types(paths)
    return [frames.read_frame(path, types) for path in paths]


def test_types_are_those_of_all_files(tmp_path: Path) -> None:
    one, other = read(
        *write(
            tmp_path,
            one="post,n,x,ok,odd,none\n12345,1,1,True,1,\n54321,2,2.5,false,True,NA\n",
            other='post,n,x,ok,odd,none\n01234,3,,TRUE,,\n"a, b",4,1e3,true,x,\n',
        )
    )
    assert one["post"].tolist() == ["12345", "54321"]
    assert other["post"].tolist() == ["01234", "a, b"]
    assert one["n"].dtype == other["n"].dtype == np.int64
    assert one["x"].dtype == other["x"].dtype == np.float64
    np.testing.assert_array_equal(other["x"], [np.nan, 1000])
    assert one["ok"].tolist() == [True, False]
    assert one["ok"].dtype == bool
    assert one["odd"].tolist() == ["1", "True"]
    assert other["odd"].isna().tolist() == [True, False]
    assert one["none"].dtype == np.float64
    assert one["none"].isna().all()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0", "-7", "+3"], [0, -7, 3]),
        (["1", ".5", "2.", "1e-3"], [1, 0.5, 2, 0.001]),
        (["01", "2"], ["01", "2"]),
        (["-01", "2"], ["-01", "2"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["1" * 19, "2"], ["1" * 19, "2"]),
        (["0x1f", "2"], ["0x1f", "2"]),
        (["inf", "2"], ["inf", "2"]),
        (["\u0661", "2"], ["\u0661", "2"]),
        (["2020-01-31", "2020-02-01"], ["2020-01-31", "2020-02-01"]),
        (["=1+1", "<script>", "a\x00b", "\x1b[31m"], ["=1+1", "<script>", "a\x00b", "\x1b[31m"]),
    ],
)
def test_a_column_is_numbers_only_if_each_cell_is_one_as_written(
    cells: list[str], values: list[Any], tmp_path: Path
) -> None:
    (path,) = write(tmp_path, one="a,b\n" + "".join(f"{cell},x\n" for cell in cells))
    (frame,) = read(path)
    assert frame["a"].tolist() == values


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,x,2\n1,y,3\n", r"2 cells in each row of .*, got 3 in row 1 below"),
        (b"a,b\n1,x\n2\n", r"2 cells in each row of .*, got 1 in row 2 below"),
        (b"a,b\n1,\xff\n", "UTF-8 in .*, got the byte 0xff in line 2, .*: save it as UTF-8"),
        (b'a,b\n1,"' + b"x" * 200_000 + b'"\n', "expected a table in .* field larger"),
    ],
)
def test_damaged_tables_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "t.csv")


def test_many_rows_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "ROWS", 3)
    (path,) = write(tmp_path, one="a,b\n" + "".join(f"{n},x{n % 2}\n\n" for n in range(10)))
    (frame,) = read(path)
    assert frame["a"].tolist() == list(range(10))
    assert frame["b"].tolist() == ["x0", "x1"] * 5
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 150)
    with pytest.raises(DataError, match="DIVULGE_MAX_BYTES"):
        frames.column_types([path])


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    given = pd.DataFrame({
        "when": pd.to_datetime(["2020-01-31", None, "2021-05-01"]),
        "text": ["a", None, "01"],
        "n": pd.array([1, None, 3], dtype="Int64"),
        "kind": pd.Categorical(["u", "v", "u"]),
        "ok": [True, False, True],
    })  # fmt: skip
    path = tmp_path / "t.parquet"
    given.to_parquet(path)
    (frame,) = read(path)
    assert frame["when"].dtype.kind == "M"
    assert frame["when"].isna().tolist() == [False, True, False]
    assert frame["text"].tolist()[::2] == ["a", "01"]
    np.testing.assert_array_equal(frame["n"], [1, np.nan, 3])
    assert frame["kind"].tolist() == ["u", "v", "u"]
    assert frame["ok"].dtype == bool
    (other,) = write(tmp_path, other="when,text,n,kind,ok\nsoon,a,1,u,true\n")
    with pytest.raises(DataError, match="dates in column 'when' of all files"):
        frames.column_types([path, other])


def test_numbers_alone_stay_an_array_without_pandas(tmp_path: Path) -> None:
    write(tmp_path, one="a,label\n01,0\n2,1\n", other="a,label\n3,0\n4,1\n")
    one, other = load_record_sets(["one.csv", "other.csv"], "label", tmp_path)
    assert one.encoding is None
    np.testing.assert_array_equal(one.x, [[1], [2]])
    write(tmp_path, other="a,label\nx,0\n4,1\n")
    one, other = load_record_sets(["one.csv", "other.csv"], "label", tmp_path)
    assert one.encoding is not None
    assert one.rows()["a"].tolist() == ["01", "2"]
    assert other.rows()["a"].tolist() == ["x", "4"]
    assert one.classes == other.classes == ()


def test_without_pandas_the_cell_is_named_that_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, one="a,label\n1,0\nx,1\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match=r"column 'a', row 2 .* got 'x'.*'.\[files\]'"):
        load_record_sets(["one.csv"], "label", tmp_path)


def test_a_label_that_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, one="a,label\nx,yes\ny,\n")
    with pytest.raises(DataError, match=r"label for each record .* index 1"):
        load_record_sets(["one.csv"], "label", tmp_path)


@pytest.mark.slow
def test_tables_with_texts_are_audited_from_settings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("in", "out"):
        frame = pd.DataFrame({
            "work": np.array(["office", "field", None])[rng.integers(0, 3, 60)],
            "age": rng.integers(20, 60, 60).astype(float),
            "id": rng.normal(size=60),
            "income": rng.choice(["low", "high"], 60),
        })  # fmt: skip
        frame.loc[3, "age"] = np.nan
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "subject.py").write_text(MODEL)
    (tmp_path / "audit.toml").write_text(
        '[target]\nmodel = "subject.py:model"\n[data]\nmembers = "in.csv"\n'
        'nonmembers = "out.csv"\nlabel = "income"\n[[attacks]]\nname = "gap"\n'
    )
    found = divulge.audit_file(tmp_path / "audit.toml")
    (finding,) = found.findings
    assert finding.status.value == "done", finding.reason
    assert finding.metrics["auc"].value == golden(0.75)
    assert found.facts.class_names == ("high", "low")  # type: ignore[union-attr]
    assert "members" in str(divulge.plan_file(tmp_path / "audit.toml"))
