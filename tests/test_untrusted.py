"""Files from outside are checked before they are opened."""

import base64
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from divulge._util import arrays, atomic, imports, toml, untrusted
from divulge.data import arrow_tables, files, tables, typed_columns
from divulge.data.records import load_records
from divulge.errors import DataError, SpecError, StoreError

HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': %s}"


def write_npz(path: Path, header: str) -> Path:
    text = header.encode() + b"\n"
    entry = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", entry)
        archive.writestr("y.npy", entry)
    return path


@pytest.mark.parametrize(
    "header",
    [
        HEADER % "(1000000000000000,)",
        HEADER % "(-1, -8)",
        HEADER % f"({'9' * 4000},)",
        HEADER % f"{'(' * 3000}{')' * 3000}",
        HEADER % f"{'-' * 9000}1",
        HEADER.replace("<f8", "|V0") % "(10,)",
        HEADER.replace("<f8", "|O") % "(1,)",
    ],
)
def test_a_header_is_not_believed(tmp_path: Path, header: str) -> None:
    path = write_npz(tmp_path / "data.npz", header)
    with pytest.raises(DataError, match="savez"):
        files.read_record_file(path)
    with pytest.raises(StoreError, match="as divulge wrote it"):
        atomic.read_arrays(path)


def test_an_entry_that_claims_more_than_it_can_unpack_to_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "data.npz", HEADER % "(1,)")
    raw = bytearray(path.read_bytes())
    size = raw.index(b"PK\x01\x02") + 24  # where the central directory holds the unpacked size
    raw[size : size + 4] = (4_000_000_000).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(arrays.DamagedArrays, match="claim to be 4000000000"):
        arrays.read_npz(path, error=DataError)


def test_whole_arrays_are_read(tmp_path: Path) -> None:
    given = {
        "f": np.arange(6.0).reshape(2, 3),
        "t": np.array(["a", "bc"]),
        "none": np.zeros((0, 4)),
        "one": np.array(3),
        "turned": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "data.npz", allow_pickle=False, **given)
        found = arrays.read_npz(tmp_path / "data.npz", error=DataError)
        for name, array in given.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("name", ["data.npz", "data.csv", "data.parquet", "data.toml"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    read = toml.read_toml if name.endswith("toml") else files.read_record_file
    with pytest.raises((DataError, SpecError), match="got a pipe"):
        read(tmp_path / name)


def test_a_large_file_is_refused_unless_the_user_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,label\n" + "1,0\n" * 100)
    with pytest.raises(DataError, match=r"expected at most 100 bytes of .*DIVULGE_MAX_BYTES=408"):
        untrusted.read_file(path, 100, DataError)
    monkeypatch.setenv("DIVULGE_MAX_BYTES", "408")
    assert len(untrusted.read_file(path, 100, DataError)) == 408
    monkeypatch.setenv("DIVULGE_MAX_BYTES", "many")
    with pytest.raises(SpecError, match="a number of bytes in DIVULGE_MAX_BYTES, got 'many'"):
        untrusted.read_file(path, 100, DataError)


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "data.parquet"
    zeros = np.zeros(1_000_000)
    parquet.write_table(pa.table({"a": zeros, "label": zeros.astype(int)}), path)
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 10_000_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="unpacks to, got 16,000,000"):
        files.read_record_file(path)


class Counted:
    """Counts how often texts become numbers."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, cell: str) -> float:
        self.calls += 1
        return float(cell)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "binary_view"])
def test_a_text_that_stands_in_every_row_of_a_parquet_file_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path, rows, long = tmp_path / "data.parquet", 3000, b"0." + b"1" * 10_000
    text = pa.array([long]).cast("string" if "string" in kind else "binary")
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), text)
    table = pa.table({"a": repeated, "label": np.zeros(rows, np.int64)})
    schema = pa.schema([("a", getattr(pa, kind)()), ("label", pa.int64())])
    with parquet.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        stored = base64.b64encode(schema.serialize().to_pybytes())
        writer.add_key_value_metadata({"ARROW:schema": stored})
    assert path.stat().st_size < 30_000
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 1_000_000)  # in all rows it has 30 million
    counted = Counted()
    monkeypatch.setattr(typed_columns, "parse_number", counted)
    if "string" in kind:
        np.testing.assert_array_equal(tables.read_columns(path, ["a"]), np.full((rows, 1), 1 / 9))
        assert counted.calls == 1
    else:
        with pytest.raises(DataError, match="expected a number"):
            tables.read_columns(path, ["a"])
    (cells,) = tables.read_texts(path, "a")
    assert len({id(cell) for cell in cells}) == 1
    ((_, framed), _) = tables.read_batches(path)
    assert framed == [long.decode()] * rows
    assert len({id(cell) for cell in framed}) == 1


def test_a_parquet_file_with_wide_cells_is_read_in_small_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"a": pa.array([b"1" * 100_000] * 300, pa.binary(100_000))}), path)
    table = arrow_tables.ArrowTable(path, "parquet")
    sizes = [batch.nbytes for (batch,) in table.batches(["a"])]
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 2**23
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 20_000_000)
    with pytest.raises(DataError, match="unpacks to, got 30,000,000"):
        next(table.batches(["a"]))


def test_a_table_that_finds_no_memory_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    path = tmp_path / "data.csv"
    path.write_text("a,label\n1,0\n")
    monkeypatch.setattr(np, "loadtxt", fail)
    with pytest.raises(DataError, match=r"data\.csv holds, got too little"):
        tables.read_columns(path, ["a"])


def test_cells_of_parquet_keep_their_meaning(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "data.parquet"
    columns = {
        "whole": pa.array([1, None, 2**60]),
        "text": pa.array(["true", None, "x"]),
        "number": pa.array(["1", "2.5", "true"]),
        "list": pa.array([[1], [2], [3]]),
    }
    parquet.write_table(pa.table(columns), path)
    assert tables.read_texts(path, "whole") == [["1", "", str(2**60)]]
    assert tables.read_texts(path, "text") == [["true", "", "x"]]
    np.testing.assert_array_equal(tables.read_columns(path, ["number"])[:, 0], [1, 2.5, 1])
    with pytest.raises(DataError, match="column 'list' holds list"):
        tables.read_columns(path, ["list"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "at most 20 levels"),
        ("a" + ".a" * 3000 + " = 1", "at most 20 levels"),
        ("a = " + "9" * 5000, "expected TOML"),
        ("a = nan", "expected a finite number for 'a'"),
    ],
)
def test_odd_settings_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "audit.toml").write_text(content)
    with pytest.raises(SpecError, match=message):
        toml.read_toml(tmp_path / "audit.toml")


@pytest.mark.parametrize("stem", ["a" * 5000, "a\0b"])
def test_a_path_that_cannot_be_is_refused(tmp_path: Path, stem: str) -> None:
    for read in (toml.read_toml, files.read_record_file):
        with pytest.raises((SpecError, DataError), match="check the path") as caught:
            read(tmp_path / f"{stem}.csv")
        assert len(str(caught.value)) < 600
    with pytest.raises(SpecError, match="check the path"):
        imports.load_object(f"{stem}.py:x", tmp_path)
    with pytest.raises(DataError, match="check the path"):
        load_records(f"{stem}.npz", "label", tmp_path)


def test_nothing_is_written_by_way_of_a_link(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (run / "figures").symlink_to(outside)
    (run / "report.html").symlink_to(outside / "file")
    with pytest.raises(StoreError, match="got a link"):
        atomic.write_within(run, "figures/roc.svg", b"ours")
    with pytest.raises(StoreError, match="within"):
        atomic.write_within(run, "../outside/file", b"ours")
    atomic.write_within(run, "report.html", b"ours")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "theirs"
    assert (run / "report.html").read_bytes() == b"ours"
    (tmp_path / "latest").symlink_to(run)  # the user's own name of the folder is followed
    atomic.write_within(tmp_path / "latest", "new/deep/file", b"ours")
    assert (run / "new" / "deep" / "file").read_bytes() == b"ours"
