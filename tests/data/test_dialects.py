"""The same answers in the dialects of many programs give the same figures, or a clear refusal."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divulge
from divulge._util import untrusted
from divulge.data import arrow_sizes, frames, ids, layouts, tables
from divulge.data.records import load_record_sets
from divulge.data.text_tables import TextTable
from divulge.errors import DataError, MissingExtra
from divulge.targets.predictions import read_predictions
from tests.data.dialects import (
    ANSWERS,
    HEADER,
    LABELS,
    MEMBERS,
    NAMES,
    REFUSED,
    ROWS,
    TEXTS,
    arrow_tables,
    comma,
    pack_zstd,
    percent,
    save,
    text,
    write_arrow,
)

EXPECTED = np.array([[float(cell) for cell in row] for row in ANSWERS])


def figures(path: Path) -> list[Any]:
    """Every metric of every attack, to the last digit."""
    found = divulge.audit_predictions(
        path, attacks=[divulge.attack("threshold"), divulge.attack("gap")]
    )
    metrics = [(finding.attack, dict(finding.metrics)) for finding in found.findings]
    assert all(metric for _, metric in metrics)
    return [*metrics, found.verdict.level]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return figures(TEXTS["plain"](tmp_path_factory.mktemp("plain")))


def check(path: Path) -> None:
    """The same numbers, labels and members as those of plain CSV."""
    np.testing.assert_array_equal(tables.read_columns(path, NAMES), EXPECTED)
    read = read_predictions(path)
    np.testing.assert_array_equal(read.label, LABELS)
    np.testing.assert_array_equal(read.member, np.array(MEMBERS, bool))


@pytest.mark.parametrize("name", TEXTS)
def test_a_dialect_of_text_gives_the_same_figures(
    name: str, tmp_path: Path, plain: list[Any]
) -> None:
    path = TEXTS[name](tmp_path)
    check(path)
    assert figures(path) == plain


@pytest.mark.parametrize("number", range(10))
def test_types_of_arrow_give_the_same_figures(
    number: int, tmp_path: Path, plain: list[Any]
) -> None:
    pa = pytest.importorskip("pyarrow")
    _, table = list(arrow_tables(pa))[number]
    for path in write_arrow(pa, tmp_path, table):
        check(path)
    assert figures(path) == plain


@pytest.mark.slow
def test_tables_of_pandas_and_polars_give_the_same_figures(
    tmp_path: Path, plain: list[Any]
) -> None:
    pytest.importorskip("pyarrow")
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {name: EXPECTED[:, k] for k, name in enumerate(NAMES)}
    frame = pd.DataFrame({
        **columns,
        "label": pd.Categorical(LABELS),
        "member": pd.array([m == 1 for m in MEMBERS], dtype="boolean"),
    })  # fmt: skip
    frame.index = frame.index[::-1]
    frame.to_parquet(tmp_path / "pandas.parquet")
    frame.reset_index(drop=True).to_feather(tmp_path / "pandas.feather")
    for name in ("t.csv", "t.csv.gz", "t.csv.xz", "t.csv.bz2", "t.tsv"):
        frame.to_csv(tmp_path / name, sep="\t" if name == "t.tsv" else ",")
    frame.to_csv(tmp_path / "german.csv", sep=";", decimal=",", encoding="utf-8-sig")
    wide = frame.astype({"member": "int8"})
    wide.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    texts = pl.DataFrame({**columns, "label": list(map(str, LABELS)), "member": MEMBERS})
    texts = texts.with_columns(pl.col("label").cast(pl.Categorical), pl.col("member").cast(pl.Int8))
    texts.write_parquet(tmp_path / "polars.parquet")
    for packing in ("uncompressed", "lz4", "zstd"):
        texts.write_ipc(tmp_path / f"polars-{packing}.arrow", compression=packing)
    texts.write_ndjson(tmp_path / "polars.ndjson")
    texts.write_csv(tmp_path / "polars.csv", separator="|")
    for path in sorted(tmp_path.iterdir()):
        if path.name != "t.jsonl":  # pandas writes 15 digits
            check(path)
            assert figures(path) == plain
    rounded = tables.read_columns(tmp_path / "t.jsonl", NAMES)
    np.testing.assert_allclose(rounded, EXPECTED, rtol=0, atol=1e-15)


@pytest.mark.parametrize("packing", ["one frame", "two frames"])
def test_zstd_gives_the_same_figures(packing: str, tmp_path: Path, plain: list[Any]) -> None:
    content = text().encode()
    parts = [content] if packing == "one frame" else [content[:500], content[500:]]
    path = tmp_path / "t.csv.zst"
    path.write_bytes(b"".join(map(pack_zstd, parts)))
    check(path)
    assert figures(path) == plain


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_clear_is_refused_with_the_cause(name: str, tmp_path: Path) -> None:
    write, cause = REFUSED[name]
    path = write(tmp_path)
    for _ in range(2):  # the second time from what is kept of the first
        with pytest.raises(DataError, match=rf"(?s){cause}"):
            read_predictions(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plain", ""),
        ("everything in quotes", ""),
        ("gzip", ""),
        ("index of pandas", ""),
        ("tabs", "The table is separated by tabs."),
        ("CSV of a German Excel", "separated by ';'. Numbers have decimal commas."),
        ("decimal commas in quotes", "Numbers have decimal commas."),
        ("percents", "12.3% is 0.123."),
        ("JSON lines, percents", "12.3% is 0.123."),
        ("write.table of R, commas", "names for which the header has none"),
    ],
)
def test_what_was_understood_is_said(name: str, said: str, tmp_path: Path) -> None:
    found = read_predictions(TEXTS[name](tmp_path)).notation
    assert found.endswith(said) or said in found
    assert bool(found) == bool(said)


def test_the_page_says_what_was_understood(tmp_path: Path) -> None:
    found = divulge.audit_predictions(
        TEXTS["CSV of a German Excel"](tmp_path), attacks=[divulge.attack("gap")]
    )
    said = {check.name: check.text for check in found.facts.checks}
    assert said["format of the table"].startswith("The table is separated by ';'.")


def test_every_decimal_text_is_rounded_correctly(tmp_path: Path) -> None:
    """Halfway cases, subnormal numbers and 17 digits, in four notations."""
    draw = np.random.default_rng(0)
    cells = [repr(number) for number in draw.random(200).tolist()]
    cells += [".".join(map(str, pair)) for pair in draw.integers(0, 2**62, (50, 2)).tolist()]
    cells += ["0.1", "4.9e-324", "2.2250738585072011e-308", "1.7976931348623157e308"]
    cells += [str(Decimal(2**53 + 1) / 2 + Decimal(k) / 10**9) for k in range(3)]
    wanted = np.array([[float(cell)] for cell in cells])
    notations = ((",", str), (";", comma), (",", percent), (";", lambda c: comma(percent(c))))
    for sep, change in notations:
        rows = [[change(cell), "0"] for cell in cells]
        path = save(text(["x", "y"], rows, sep))(tmp_path)
        np.testing.assert_array_equal(tables.read_columns(path, ["x"]), wanted)


FEATURES = ["0.5", "1.25", "-3.125e-2"]


@pytest.mark.parametrize("name", ["t.csv", "T.TSV", "german.csv", "r.txt", "t.csv.gz", "t.jsonl"])
def test_records_are_read_from_any_table(name: str, tmp_path: Path) -> None:
    rows = [[a, str(k), str(k % 2)] for k, a in enumerate(FEATURES)]
    header = ["a", "b", "label"]
    content = {
        "t.csv": text(header, rows).encode(),
        "T.TSV": text(header, rows, "\t").encode("utf-16"),
        "german.csv": text(header, [list(map(comma, row)) for row in rows], ";").encode(),
        "r.txt": text(header, [[f'"{k}"', *row] for k, row in enumerate(rows)], " ").encode(),
        "t.csv.gz": gzip.compress(text(header, rows).encode()),
        "t.jsonl": b"".join(f'{{"a": {a}, "b": {b}, "label": {y}}}\n'.encode() for a, b, y in rows),
    }[name]
    (tmp_path / name).write_bytes(content)
    (records,) = load_record_sets([name], "label", tmp_path)
    np.testing.assert_array_equal(records.x, [[0.5, 0], [1.25, 1], [-0.03125, 2]])
    np.testing.assert_array_equal(records.y, [0, 1, 0])
    assert ids.read_ids(tmp_path / name, "b", 3).tolist() == ["0", "1", "2"]


def test_texts_beside_decimal_commas_keep_columns_of_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    header = ["work", "share", "rate", "label"]
    rows = [["a, b", "0,5", "12,5%", "yes"], ["c", "1,234", "", "no"], ["", "NA", "3%", "yes"]]
    (tmp_path / "t.csv").write_text(text(header, rows, ";"))
    (records,) = load_record_sets(["t.csv"], "label", tmp_path)
    frame = records.rows()
    assert frame["work"].tolist()[:2] == ["a, b", "c"]
    np.testing.assert_array_equal(frame["share"], [0.5, 1.234, np.nan])
    np.testing.assert_array_equal(frame["rate"], [0.125, np.nan, 0.03])


def test_thousands_among_features_are_refused_not_read_as_texts(tmp_path: Path) -> None:
    rows = [["a", '"1,234.50"', "0"], ["b", '"7,000.00"', "1"]]
    (tmp_path / "t.csv").write_text(text(["work", "pay", "label"], rows))
    with pytest.raises(DataError, match=r"column 'pay', got '9,999\.99' with a separator of thous"):
        load_record_sets(["t.csv"], "label", tmp_path)


def test_cells_with_commas_are_left_alone_where_they_are_names(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rows = [['"1,234"', "0"], ['"x, y"', "1"], ['"0,5"', "1"]]
    path = save(text(["id", "label"], rows))(tmp_path)
    assert tables.read_texts(path, "id") == [["1,234", "x, y", "0,5"]]
    frame = frames.read_frame(path, frames.column_types([path]))
    assert frame["id"].tolist() == ["1,234", "x, y", "0,5"]


def test_a_file_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    path = save(text())(tmp_path)
    assert tables.read_header(path) == HEADER
    save(text(sep=";"))(tmp_path)
    assert tables.read_header(path) == HEADER
    save("x,y\n1,2\n")(tmp_path)
    assert tables.read_header(path) == ["x", "y"]


@pytest.mark.parametrize("block", [1, 7, 64])
def test_long_rows_are_found_wherever_blocks_end(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("divulge.data.text_files._BLOCK", block)
    path = save("a,b\n" + "1,2\n" * 9)(tmp_path)
    assert not layouts.has_long_rows(path, layouts.read_layout(path))
    np.testing.assert_array_equal(tables.read_columns(path, ["a"]), np.ones((9, 1)))
    for content in ("a,b\n1,2\n1,2,3\n1,2\n", "a,b\n1,2\n1,2,3", "a,b\n1,2\n\n1,2,3\r\n"):
        path = save(content)(tmp_path)
        assert layouts.has_long_rows(path, layouts.read_layout(path))
        with pytest.raises(DataError, match=r"expected 2 cells .* got 3 in row 2 below the header"):
            tables.read_columns(path, ["a"])


BOMB = b"p_0,label,member\n" + b"0,0,0\n" * 200_000
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress, "zstd": pack_zstd,
}  # fmt: skip


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("limit", ["MAX_DATA_BYTES", "MAX_TEXT_BYTES"])
def test_packed_text_is_counted_as_it_unpacks(
    packing: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(PACKERS[packing](BOMB))
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 600_000)
    if limit == "MAX_TEXT_BYTES":  # what unpacks to 1000 times its size
        monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 2**34)
        monkeypatch.setattr(untrusted, "MAX_TEXT_BYTES", 10_000)
        monkeypatch.setattr("divulge.data.text_files._TIMES", 20)
    for read in (read_predictions, lambda one: tables.read_columns(one, ["p_0"])):
        with pytest.raises(DataError, match=r"bytes of .* unpacks to, .*DIVULGE_MAX_BYTES"):
            read(path)


@pytest.mark.parametrize("packing", PACKERS)
def test_a_packed_line_without_end_is_refused(
    packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(PACKERS[packing](b"p_0,label,member\n" + b"0" * 3_000_000))
    monkeypatch.setattr(untrusted, "MAX_TEXT_BYTES", 2_000_000)
    monkeypatch.setattr("divulge.data.text_files._TIMES", 10**6)
    with pytest.raises(DataError, match="bytes of a line of"):
        tables.read_columns(path, ["p_0"])


def test_damaged_zstd_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(pack_zstd(text().encode())[:-40])
    with pytest.raises(DataError, match="damaged zstd"):
        read_predictions(path)


def test_zstd_names_the_extra_that_unpacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv.zst"
    path.write_bytes(pack_zstd(text().encode()))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "compression", None)
    with pytest.raises(MissingExtra, match="files"):
        tables.read_header(path)


@pytest.mark.parametrize("kind", ["arrow", "arrows"])
@pytest.mark.parametrize("packing", ["zstd", "lz4"])
def test_packed_batches_of_arrow_are_refused_before_they_are_unpacked(
    kind: str, packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    zeros = np.zeros(500_000)
    table = pa.table({"p_0": zeros, "label": zeros, "other": zeros})
    make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with make(tmp_path / "t", table.schema, options=options) as writer:
        writer.write_table(table)
    assert (tmp_path / "t").stat().st_size < 60_000
    assert tables.read_columns(tmp_path / "t", ["p_0"]).shape == (500_000, 1)
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 11_000_000)

    def read(*_: object) -> None:
        raise AssertionError("batches were unpacked")

    monkeypatch.setattr("divulge.data.arrow_batches._ipc_batches", read)
    with pytest.raises(DataError, match="unpacks to, got 12,000,"):
        tables.read_columns(tmp_path / "t", ["p_0"])


def test_a_batch_of_nothing_that_claims_many_rows_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = 2**31 - 1
    nothing = pa.Array.from_buffers(pa.null(), rows, [None])
    batch = pa.RecordBatch.from_arrays([nothing, nothing], names=["p_0", "p_1"])
    with pa.ipc.new_stream(tmp_path / "t", batch.schema) as writer:
        writer.write_batch(batch)
    assert (tmp_path / "t").stat().st_size < 1000
    with pytest.raises(DataError, match=f"unpacks to, got {16 * rows:,}"):
        tables.read_columns(tmp_path / "t", ["p_0", "p_1"])


def test_views_of_one_long_text_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    rows, long = 2000, b"0." + b"1" * 10_000
    views = np.array([[len(long), int.from_bytes(long[:4], "little"), 0, 0]] * rows, np.int32)
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(long)]
    column = pa.Array.from_buffers(pa.string_view(), rows, buffers)
    table = pa.table({"p_0": column})
    with pa.ipc.new_file(tmp_path / "t", table.schema) as writer:
        writer.write_table(table)
    assert (tmp_path / "t").stat().st_size < 60_000
    monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", 10_000_000)
    with pytest.raises(DataError, match="unpacks to, got 20,004,000"):
        tables.read_columns(tmp_path / "t", ["p_0"])


def test_damaged_arrow_is_refused_and_never_followed(tmp_path: Path) -> None:
    """Bytes of an Arrow file are changed one by one; each file is read or refused."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"p_0": ["0.5", "0.25", None], "label": pa.array(["a", "b", "a"])})
    table = table.set_column(1, "label", table["label"].dictionary_encode())
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        with make(tmp_path / "t", table.schema) as writer:
            writer.write_table(table)
        whole = (tmp_path / "t").read_bytes()
        draw = np.random.default_rng(0)
        for _ in range(150):
            raw = bytearray(whole)
            raw[draw.integers(8, len(raw))] = draw.choice([0, 1, 127, 128, 255])
            path = tmp_path / "damaged"
            path.write_bytes(raw)
            try:
                tables.read_texts(path, "p_0", "label")
                tables.read_columns(path, ["p_0"])
            except DataError:
                pass


def test_the_size_of_a_batch_is_what_its_buffers_claim() -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": np.arange(1000.0), "b": ["text"] * 1000})
    sizes = {}
    for packing in (None, "zstd", "lz4"):
        options = pa.ipc.IpcWriteOptions(compression=packing)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        messages = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
        assert arrow_sizes.unpacked_size(messages[0]) == 0  # the schema
        sizes[packing] = arrow_sizes.unpacked_size(messages[1])
    assert sizes["zstd"] == sizes["lz4"] == 8000 + 4004 + 4000
    assert 0 <= sizes[None] - sizes["zstd"] < 3 * 64  # padding


def test_small_floats_are_their_own_numbers(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    for kind in (np.float16, np.float32):
        table = pa.table({"p_0": EXPECTED[:, 0].astype(kind), "label": LABELS})
        parquet.write_table(table, tmp_path / "t.parquet")
        found = tables.read_columns(tmp_path / "t.parquet", ["p_0"])
        np.testing.assert_array_equal(found[:, 0], EXPECTED[:, 0].astype(kind).astype(float))
    assert len(ROWS) == len(LABELS)


def test_the_characters_of_long_texts_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 texts of 1,000 characters are about 100,000 bytes, twice beside 50 and 8 for each."""
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "".join(f"{n:01000d}\n" for n in range(100)))
    for limit, fits in ((106_000, True), (105_000, False)):
        monkeypatch.setattr(untrusted, "MAX_DATA_BYTES", limit)
        if fits:
            assert len(TextTable(path).texts(["a"])[0]) == 100
            continue
        with pytest.raises(DataError, match="unpacks to"):
            TextTable(path).texts(["a"])
