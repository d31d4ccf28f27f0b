"""One table of answers in the dialects of many programs, and files that are no table.

Numbers are texts of decimals, so that every dialect writes the same ones.
"""

import bz2
import gzip
import io
import json
import lzma
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLASSES, RECORDS = 3, 60
NAMES = [f"p_{k}" for k in range(CLASSES)]


def _answers() -> list[list[str]]:
    """Probabilities as texts, of up to 17 digits; members have sharper ones."""
    rng = np.random.default_rng(3)
    sharp = np.where(np.arange(RECORDS) % 2, 6.0, 2.0)
    rows = []
    for k in range(RECORDS):
        alpha = np.ones(CLASSES)
        alpha[k % CLASSES] = sharp[k]
        rows.append([repr(p) for p in rng.dirichlet(alpha).tolist()])
    rows[4] = ["1", "0", "0"]  # whole numbers too
    return rows


ANSWERS = _answers()
LABELS = [k % CLASSES for k in range(RECORDS)]
MEMBERS = [k % 2 for k in range(RECORDS)]
HEADER = [*NAMES, "label", "member"]
ROWS = [[*a, str(y), str(m)] for a, y, m in zip(ANSWERS, LABELS, MEMBERS, strict=True)]

Write = Callable[[Path], Path]


def text(
    header: Sequence[str] = HEADER,
    rows: Sequence[Sequence[str]] = ROWS,
    sep: str = ",",
    end: str = "\n",
) -> str:
    return "".join(sep.join(row) + end for row in (header, *rows))


def answers(change: Callable[[str], str]) -> list[list[str]]:
    """The rows with every probability written in another way."""
    return [[*map(change, row[:CLASSES]), *row[CLASSES:]] for row in ROWS]


def comma(number: str) -> str:
    return number.replace(".", ",")


def percent(number: str) -> str:
    return f"{Decimal(number) * 100}%"


def quoted(cells: Sequence[str]) -> list[str]:
    return [f'"{cell}"' for cell in cells]


def named_rows(rows: Sequence[Sequence[str]], quote: str = '"') -> list[list[str]]:
    return [[f"{quote}{k}{quote}", *row] for k, row in enumerate(rows, start=1)]


def save(content: str | bytes, name: str = "t.csv", encoding: str = "utf-8") -> Write:
    def write(folder: Path) -> Path:
        raw = content.encode(encoding) if isinstance(content, str) else content
        (folder / name).write_bytes(raw)
        return folder / name

    return write


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _objects() -> list[dict[str, Any]]:
    return [
        dict(zip(HEADER, [*map(float, a), y, bool(m)], strict=True))
        for a, y, m in zip(ANSWERS, LABELS, MEMBERS, strict=True)
    ]


def pack_zstd(content: bytes) -> bytes:
    pa = pytest.importorskip("pyarrow")
    raw = pa.BufferOutputStream()
    with pa.CompressedOutputStream(raw, "zstd") as packed:
        packed.write(content)
    return bytes(raw.getvalue())


def zipped(name: str, content: bytes) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(name, content)
    return raw.getvalue()


GERMAN = answers(comma)

TEXTS: dict[str, Write] = {
    "plain": save(text()),
    "ends of Windows": save(text(end="\r\n")),
    "ends of old Macs": save(text(end="\r")),
    "byte order mark": save(text(), encoding="utf-8-sig"),
    "UTF-16, little": save(("\ufeff" + text()).encode("utf-16-le")),
    "UTF-16, big": save(("\ufeff" + text()).encode("utf-16-be")),
    "Unicode text of Excel": save(
        ("\ufeff" + text(rows=GERMAN, sep="\t", end="\r\n")).encode("utf-16-le"), "t.txt"
    ),
    "semicolons": save(text(sep=";")),
    "semicolons, decimal commas": save(text(rows=GERMAN, sep=";")),
    "decimal commas in all columns": save(
        text(rows=[[*r[:CLASSES], f"{r[-2]},0", f"{r[-1]},0"] for r in GERMAN], sep=";")
    ),
    "tabs": save(text(sep="\t"), "t.tsv"),
    "tabs, decimal commas": save(text(rows=GERMAN, sep="\t"), "t.tsv"),
    "bars": save(text(sep="|"), "t.txt"),
    "spaces": save(text(sep=" "), "t.dat"),
    "a space behind commas": save(text(sep=", ")),
    "everything in quotes": save(text(quoted(HEADER), list(map(quoted, ROWS)))),
    "decimal commas in quotes": save(text(rows=answers(lambda p: f'"{comma(p)}"'))),
    "index of pandas": save(text(["", *HEADER], named_rows(ROWS, ""))),
    "write.csv of R": save(text(quoted(["", *HEADER]), named_rows(ROWS))),
    "write.csv2 of R": save(text(quoted(["", *HEADER]), named_rows(GERMAN), sep=";")),
    "write.table of R": save(text(quoted(HEADER), named_rows(ROWS), sep=" "), "t.txt"),
    "write.table of R, commas": save(text(quoted(HEADER), named_rows(ROWS))),
    "write.table of R, tabs": save(text(quoted(HEADER), named_rows(ROWS), sep="\t")),
    "true and false of R": save(
        text(rows=[[*row[:-1], "TRUE" if row[-1] == "1" else "FALSE"] for row in ROWS])
    ),
    "CSV of a German Excel": save(text(rows=GERMAN, sep=";", end="\r\n"), encoding="utf-8-sig"),
    "told separator": save("sep=;\r\n" + text(rows=GERMAN, sep=";", end="\r\n")),
    "empty rows at the end": save(text() + ",,,,\n" * 3 + "\n"),
    "empty rows, semicolons": save(text(rows=GERMAN, sep=";", end="\r\n") + ";;;;\r\n" * 3),
    "empty line first": save("\r\n" + text(end="\r\n")),
    "empty lines between": save(text(end="\n\n")),
    "separator at each end": save(text(end=",\n")),
    "separator at ends of rows": save(text(rows=[[*row, ""] for row in ROWS])),
    "percents": save(text(rows=answers(percent))),
    "percents of a German Excel": save(
        text(rows=answers(lambda p: comma(percent(p)).replace("%", " %")), sep=";")
    ),
    "percents in quotes with commas": save(
        text(rows=answers(lambda p: f'"{comma(percent(p))}"'))
    ),
    "exponents": save(text(rows=answers(lambda p: f"{Decimal(p):E}"))),
    "line breaks in quotes": save(
        text(['"a\nnote, ""two"""', *HEADER], [['"x\r\ny; z"', *row] for row in ROWS])
    ),
    "other separators in names": save(
        text(["a|b;c", "d|e;f", *HEADER], [["1", "2", *row] for row in ROWS])
    ),
    "thousands in another column": save(
        text(["id", *HEADER], [[f'"{k + 1},234"', *row] for k, row in enumerate(ROWS)])
    ),
    "cells left out by Excel": save(text([*HEADER, "note"], ROWS)),
    "labels as floats": save(text(rows=[[*r[:-2], f"{r[-2]}.0", f"{r[-1]}.0"] for r in ROWS])),
    "suffix in upper case": save(text(), "T.CSV"),
    "no suffix": save(text(), "answers"),
    "wrong suffix": save(text(), "t.parquet"),
    "gzip": save(gzip.compress(text().encode()), "t.csv.gz"),
    "gzip without its suffix": save(gzip.compress(text(rows=GERMAN, sep=";").encode())),
    "gzip in two parts": save(
        gzip.compress(text().encode()[:700]) + gzip.compress(text().encode()[700:]), "t.csv.gz"
    ),
    "gzip of UTF-16": save(gzip.compress(("\ufeff" + text()).encode("utf-16-le")), "t.csv.gz"),
    "bzip2": save(bz2.compress(text().encode()), "t.csv.bz2"),
    "xz": save(lzma.compress(text().encode()), "t.csv.xz"),
    "JSON lines": save(_lines(_objects()), "t.jsonl"),
    "JSON lines, texts": save(
        _lines([dict(zip(HEADER, row, strict=True)) for row in ROWS]), "t.ndjson"
    ),
    "JSON lines, percents": save(
        _lines([dict(zip(HEADER, row, strict=True)) for row in answers(percent)]), "t.ndjson"
    ),
    "JSON lines in gzip": save(gzip.compress(_lines(_objects()).encode()), "t.jsonl.gz"),
}  # fmt: skip


def _columns() -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: [float(row[k]) for row in ANSWERS] for k, name in enumerate(NAMES)
    }
    return columns | {"label": LABELS, "member": MEMBERS}


def _arrow(pa: Any, **types: str) -> Any:
    table = pa.table(_columns())
    for name, kind in types.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].cast(getattr(pa, kind)()))
    return table


def _decimals(pa: Any) -> Any:
    kind = pa.decimal128(38, 22)
    made = {
        name: pa.array([Decimal(row[k]) for row in ANSWERS], kind) for k, name in enumerate(NAMES)
    }
    return pa.table(made | {"label": LABELS, "member": MEMBERS})


def _texts(pa: Any, kind: Any, change: Callable[[str], str] = str) -> Any:
    made = {
        name: pa.array([change(row[k]) for row in ANSWERS], kind) for k, name in enumerate(NAMES)
    }
    return pa.table(made | {"label": LABELS, "member": MEMBERS})


def _dictionaries(pa: Any) -> Any:
    table = _arrow(pa, label="string")
    for name in (*NAMES, "label", "member"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].dictionary_encode())
    return table


def arrow_tables(pa: Any) -> Iterator[tuple[str, Any]]:
    """The same answers in types of Arrow."""
    yield "numbers", _arrow(pa)
    yield "small types", _arrow(pa, label="int8", member="bool_")
    yield "floats as labels", _arrow(pa, label="float16", member="float32")
    yield "categories", _dictionaries(pa)
    yield "decimals", _decimals(pa)
    yield "texts", _texts(pa, pa.string())
    yield "large texts", _texts(pa, pa.large_string())
    yield "views of texts", _texts(pa, pa.string_view())
    yield "percents", _texts(pa, pa.string(), percent)
    yield "decimal commas", _texts(pa, pa.large_string(), comma)


def write_arrow(pa: Any, folder: Path, table: Any) -> Iterator[Path]:
    """A table in the files that Arrow writes."""
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    for packing in ("snappy", "zstd", "brotli", "none"):
        parquet.write_table(table, folder / f"{packing}.pq", compression=packing)
        yield folder / f"{packing}.pq"
    parquet.write_table(table, folder / "groups.parquet", row_group_size=7)
    yield folder / "groups.parquet"
    for packing in ("lz4", "zstd", "uncompressed"):
        feather.write_feather(table, folder / f"{packing}.feather", compression=packing)
        yield folder / f"{packing}.feather"
    for suffix, make in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
        with make(folder / f"t.{suffix}", table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=7)
        yield folder / f"t.{suffix}"


def changed(row: int, column: int, cell: str) -> str:
    rows = [list(one) for one in ROWS]
    rows[row][column] = cell
    return text(rows=rows)


REFUSED: dict[str, tuple[Write, str]] = {
    "thousands and decimals": (
        save(text(["p_0", "label", "member"], [['"1,234.5"', "0", "1"]] * 4)),
        "got '9,999.9' with a separator of thousands in row 1 .*: write decimals with a point",
    ),
    "groups of thousands": (
        save(text(["p_0", "label", "member"], [['"1,234,567"', "0", "1"]] * 4)),
        "separator of thousands",
    ),
    "groups by points": (
        save(text(["p_0", "label", "member"], [["1.234,5", "0", "1"]] * 4, sep=";")),
        "separator of thousands",
    ),
    "groups by spaces": (
        save(text(["p_0", "label", "member"], [["1\u00a0234,5", "0", "1"]] * 4, sep=";")),
        "separator of thousands",
    ),
    "groups of Switzerland": (
        save(text(["p_0", "label", "member"], [["1'234.5", "0", "1"]] * 4)),
        "separator of thousands",
    ),
    "thousands or decimals": (
        save(text(["p_0", "label", "member"], [['"1,234"', "0", "1"]] * 4)),
        "got '9,999' whose comma may group thousands or decimals in row 1",
    ),
    "a point that may group thousands": (
        save(text(["p_0", "p_1", "label", "member"], [["0,5", "1.234", "0", "1"]] * 4, sep=";")),
        "column 'p_1', got '9.999' whose point may group thousands",
    ),
    "two decimal signs": (
        save(text(["p_0", "label", "member"], [["0,5", "0", "1"], ["0.25", "0", "0"]], sep=";")),
        r"column 'p_0', got '9,9' beside '9\.99'",
    ),
    "percents and shares": (
        save(changed(7, 0, "50%")), "got '.*' beside '99%' .*: write a percent sign in each cell"
    ),
    "decimal commas without quotes": (
        save(text(["p_1", "label", "member"], [["0,5", "0", "1"]] * 4)),
        r"expected 3 cells in each row of .*, separated by ',', got 4 in row 1 .*decimal commas",
    ),
    "one cell too many": (save(text() + "1,0,0,1,0,7\n"), "got 6 in row 61 below the header"),
    "two separators": (
        save("p_0,a;label,b;member,c\n" + "1,2;3,4;5,6\n" * 4),
        r"one separator in the header of .*, got ',' \(4 names\) and ';' \(3 names\)",
    ),
    "columns by many spaces": (save("p_0   label   member\n1   0   1\n"), "several spaces"),
    "an empty row within": (
        save(text() + ",,,,\n" + ",".join(ROWS[0]) + "\n"), "column '.*', row 61 .* got ''"
    ),
    "no number": (save(changed(3, 1, "none")), "a number in .*, column 'p_1', row 4 .* 'none'"),
    "underscores": (save(changed(3, 1, "0.1_0")), "a number in .*, column 'p_1', row 4"),
    "Latin-1": (
        save(text([*HEADER, "caf\u00e9"], [[*r, "\u00e9"] for r in ROWS]).encode("latin-1")),
        "in UTF-8 in .*, got the byte 0xe9 in line 1, .*: save it as UTF-8",
    ),
    "Latin-1 further down": (
        save((text([*HEADER, "x"], [[*r, "\u00e9"] for r in ROWS])).encode("cp1252")),
        "got the byte 0xe9 in line 2",
    ),
    "UTF-16 without a mark": (save(text().encode("utf-16-le")), "UTF-16 without a byte order mark"),
    "UTF-16 without a mark, big": (save(text().encode("utf-16-be")), "UTF-16 without a byte order"),
    "UTF-16 cut": (save(("\ufeff" + text()).encode("utf-16-le")[:-1]), "damaged text"),
    "UTF-32": (save(text().encode("utf-32")), "UTF-32: save it as UTF-8"),
    "Excel": (save(zipped("xl/workbook.xml", b"<x/>"), "t.xlsx"), "an Excel workbook: in Excel"),
    "Excel named CSV": (save(zipped("[Content_Types].xml", b"<x/>")), "an Excel workbook"),
    "Excel of 1997": (save(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "t.xls"), "Excel"),
    "OpenDocument": (
        save(zipped("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"), "t.ods"),
        "an OpenDocument spreadsheet",
    ),
    "ZIP": (save(zipped("t.csv", text().encode()), "t.zip"), "a ZIP archive: unpack it"),
    "arrays": (save(zipped("x.npy", b"\x93NUMPY")), "arrays of NumPy"),
    "pickle": (save(pickle.dumps(ROWS), "t.pkl"), "a pickle: a pickle can run any code"),
    "web page": (save("<!DOCTYPE html><p>log in</p>"), "a page of HTML"),
    "bytes": (save(bytes(range(1, 255)) + b"\0\0,\n"), "no text|UTF-8"),
    "rds of R": (save(gzip.compress(b"X\n\0\0\0\3\0\4"), "t.rds"), "an .rds file of R"),
    "JSON array": (
        save(json.dumps(_objects()), "t.json"), r"one JSON object a line .*line 1 \(list\).*to_json"
    ),
    "JSON of columns": (
        save(json.dumps(_columns()), "t.json"), "column 'p_0' holds a list|'label' holds a list"
    ),
    "indented JSON": (save(json.dumps(_objects(), indent=1), "t.json"), "one JSON object a line"),
    "JSON with another key": (
        save(_lines([*_objects(), {"p_3": 1}]), "t.jsonl"), "got 'p_3' in line 61"
    ),
    "JSON cut": (save(_lines(_objects())[:-30], "t.jsonl"), "something else in line 60"),
    "JSON without a label": (
        save(_lines([*_objects(), {**_objects()[0], "label": None}]), "t.jsonl"),
        "a class in .*, column 'label', row 61 .* got ''",
    ),
    "JSON without a number": (
        save(_lines([*_objects(), {**_objects()[0], "p_1": None}]), "t.jsonl"),
        "a number in .*, column 'p_1', row 61 .* got nan",
    ),
    "gzip cut": (save(gzip.compress(text().encode())[:-20], "t.csv.gz"), "damaged gzip"),
    "xz damaged": (save(lzma.compress(text().encode())[:-20], "t.csv.xz"), "damaged xz"),
    "gzip of gzip": (
        save(gzip.compress(gzip.compress(text().encode()))), "packed with gzip .*, got gzip: unpack"
    ),
    "nothing": (save(b""), "expected a column"),
}  # fmt: skip
