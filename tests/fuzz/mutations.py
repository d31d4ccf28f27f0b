"""Ways to damage a file: of its bytes, of the values in it, of a folder."""

import io
import json
import os
import random
import re
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Edit = Callable[[bytes, random.Random], bytes]

DIGITS = "@many digits@"
"""In the place of a number with more digits than Python reads."""

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**30, 0.5, -0.5, 1e308, 5e-324, -0.0,
    float("nan"), float("inf"), "", "x", "0", "nan", "../../outside", "/etc/passwd", "a\0b",
    "\x1b[2J", "\ud800", "<b>", "[red]x", ":x:", "x" * 5000, [], [[]], [None], {}, {"x": None},
    [1, "a"], [0] * 40, DIGITS, "membership", "done", "2020-01-01T00:00:00Z",
)  # fmt: skip
ODD_TOML = (
    "true", "-1", "0", "1", "9" * 20, "9" * 5000, "1e308", "nan", "-inf", '""', '"x"', '"\\u0000"',
    '"\\u001b[2J"', "[]", "[[]]", "{}", "{name = 3}", '{name = "gap", x = 1}', "1979-05-27",
    '"../../outside"', '"subject.py:missing"', '"subject.py:x"', '"subject.py:model"', '"/"',
    f'"{"x" * 5000}"', "[" * 300 + "]" * 300, "[" * 3000 + "]" * 3000, '[1, "a"]', "0xff", "''",
    '"[red]"', '"a\\nb"', '"answers.csv"', '".."', '"a\\u0000.py:x"', "0.5", "2", '"*"', '"["',
)  # fmt: skip
ODD_CELLS = (
    "", " ", "nan", "inf", "-1", "0.5", "1e400", "9" * 400, "x", '"', '""', "'", "\0", "\x1b[2J",
    "1,1", "1;1", "\n", "\r", "True", "true", "None", "\uff11", "0x1", "1_0", "é", "\ufeff", "#",
    "%", "x" * 70000, "label", "p_0", "p_*", "nobody", "qid:", "1:", "1:nan", ":", "\u2028",
)  # fmt: skip
ODD_HEADERS = (
    "(1000000000000,)", "(-1,)", "(0,)", "()", "(12, 3, 1)", "(2, 2**70)", "((((", "[1]", "(1.5,)",
    "(True,)", "(99999999999999999999999,)", "'|O'", "'<U1000000000'", "'<U3'", "'|V8'", "'<M8[s]'",
    "'<c16'", "[('a', '<f8')]", "'<f2'", "'>i8'", "'|b1'", "'<f16'", "'|S5'", "[('a', '|O')]", "3",
)  # fmt: skip


# Of bytes.


def flip(data: bytes, rng: random.Random) -> bytes:
    """Other bits in a few places."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """Zeros, ones or noise over a stretch."""
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8, 64))
    fill = rng.choice((b"\0" * size, b"\xff" * size, rng.randbytes(size), b"\x7f" * size))
    return data[:at] + fill + data[at + size :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    """The beginning alone."""
    return data[: rng.randrange(len(data) + 1)]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A stretch of the file once more in another place."""
    a, b, at = (rng.randrange(len(data) + 1) for _ in range(3))
    return data[:at] + data[min(a, b) : max(a, b)] + data[at + rng.choice((0, abs(a - b))) :]


def cut(data: bytes, rng: random.Random) -> bytes:
    """A stretch is gone."""
    a = rng.randrange(len(data) + 1)
    return data[:a] + data[a + rng.choice((1, 3, 20, 200)) :]


def renumber(data: bytes, rng: random.Random) -> bytes:
    """Another number where one is written out."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", data))
    if not numbers:
        return flip(data, rng)
    spot = rng.choice(numbers)
    new = rng.choice(("-1", "0", "1", "99999999999999999999", "1e400", "nan", "0.5", "9" * 5000))
    return data[: spot.start()] + new.encode() + data[spot.end() :]


BYTES: tuple[Edit, ...] = (flip, overwrite, truncate, splice, cut, renumber)


# Of values.


def _spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values inside a value are."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _spots(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:50]):
            found += _spots(item, (*path, number))
    return found


def edit_json(data: bytes, rng: random.Random) -> bytes:
    """One value is another, gone, moved, or under another name."""
    try:
        value = json.loads(data)
    except ValueError:
        return flip(data, rng)
    spots = _spots(value)
    if not spots or rng.random() < 0.03:
        return _dump(rng.choice(ODD))
    *path, last = rng.choice(spots)
    holder = value
    for key in path:
        holder = holder[key]
    how = rng.random()
    if how < 0.6:
        holder[last] = rng.choice(ODD)
    elif how < 0.75:
        del holder[last]
    elif how < 0.85:
        *other, at = rng.choice(spots)
        inner = value
        for key in other:
            inner = inner[key]
        holder[last] = json.loads(json.dumps(inner[at]))
    elif isinstance(holder, dict):
        holder[rng.choice(("x", "", "kind", "\x1b[2J", "../x", f"{last}s"))] = (
            holder.pop(last) if rng.random() < 0.5 else rng.choice(ODD)
        )
    else:
        holder.extend(holder[:1] * rng.choice((1, 50)))
    return _dump(value)


def _dump(value: Any) -> bytes:
    return json.dumps(value).replace(json.dumps(DIGITS), "9" * 5000).encode()


def edit_toml(data: bytes, rng: random.Random) -> bytes:
    """One key has another value or name, is gone, or stands twice."""
    rows = data.decode("utf-8", "replace").splitlines()
    at = rng.randrange(len(rows)) if rows else 0
    if not rows:
        return b"="
    key, equals, value = rows[at].partition(" = ")
    how = rng.random()
    if equals and how < 0.6:
        rows[at] = f"{key} = {rng.choice(ODD_TOML)}"
    elif equals and how < 0.7:
        name = rng.choice(("x", key + "s", "name", '""', '"\\u001b"'))
        rows[at] = f"{name} = {value}"
    elif how < 0.8:
        del rows[at]
    elif how < 0.9:
        rows.insert(rng.randrange(len(rows) + 1), rows[at])
    else:
        rows[at] = rng.choice(("[x]", "[[attacks]]", "[data]", "[attacks]", "[a" * 9, "]", "= 3"))
    return "\n".join([*rows, ""]).encode()


def edit_cells(data: bytes, rng: random.Random) -> bytes:
    """One cell, row or column of a table is another."""
    rows = [line.split(",") for line in data.decode("utf-8", "replace").split("\n")]
    row = rows[0] if rng.random() < 0.3 else rng.choice(rows)
    how = rng.random()
    if how < 0.6:
        row[rng.randrange(len(row))] = rng.choice(ODD_CELLS)
    elif how < 0.7:
        row.insert(rng.randrange(len(row) + 1), rng.choice(ODD_CELLS))
    elif how < 0.8:
        del row[rng.randrange(len(row))]
    elif how < 0.9:
        at = rng.randrange(len(rows[0]))
        word = rng.choice(ODD_CELLS)
        for other in rows[1:]:
            if at < len(other):
                other[at] = word
    else:
        del rows[rng.randrange(len(rows))]
    separator = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    text = separator.join(",".join(row) for row in rows)
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "replace")


def edit_npy(data: bytes, rng: random.Random) -> bytes:
    """Another header, or another array altogether."""
    if rng.random() < 0.5 and data[:6] == b"\x93NUMPY":
        start = 10 if data[6] == 1 else 12
        size = int.from_bytes(data[8:start], "little")
        header = data[start : start + size].decode("latin-1")
        part = rng.choice((r"\([^)]*\)", r"'[<>|=][^']*'", r"False|True"))
        header = re.sub(part, lambda _: rng.choice(ODD_HEADERS), header, count=1)
        packed = header.encode("latin-1")
        length = len(packed).to_bytes(start - 8, "little")
        return data[:8] + length + packed + data[start + size :]
    try:
        before = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # damaged before
        return flip(data, rng)
    after: Any = rng.choice(
        (
            lambda: before.astype(complex),
            lambda: before.astype(str),
            lambda: before.astype(object),
            lambda: before.astype("S"),
            lambda: before[:0],
            lambda: before[:-1],
            lambda: before[None],
            lambda: before[..., None],
            lambda: before.reshape(-1)[0],
            lambda: before.astype(float) * np.nan,
            lambda: before.astype(float) + 1e308,
            lambda: -before.astype(float),
            lambda: np.zeros(before.shape, [("a", "f8")]),
            lambda: np.zeros(before.shape, "M8[s]"),
            lambda: before.astype(np.uint64) - np.uint64(2),
            lambda: np.repeat(before, 2, axis=0),
            lambda: before.astype(bool),
            lambda: np.asfortranarray(before)[::-1],
        )
    )
    file = io.BytesIO()
    try:
        np.save(file, after())
    except Exception:  # this array cannot become that
        return flip(data, rng)
    return file.getvalue()


def edit_zip(data: bytes, rng: random.Random) -> bytes:
    """A member of an archive is another, has another name, is gone, or stands twice."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            members = [(info.filename, packed.read(info)) for info in packed.infolist()]
    except Exception:  # damaged before
        return flip(data, rng)
    if not members:
        return flip(data, rng)
    at, how = rng.randrange(len(members)), rng.random()
    name, content = members[at]
    if how < 0.65:
        members[at] = name, damage(name, content, rng)
    elif how < 0.75:
        del members[at]
    elif how < 0.85:
        members[at] = rng.choice(("../x", "/x", "x", "", name + "x", name.upper())), content
    elif how < 0.92:
        members.append((rng.choice(("x.npy", "../x.npy", name)), content))
    else:
        members[at] = name, rng.choice(members)[1]
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as packed:
        warnings.simplefilter("ignore")  # a name may stand twice
        for name, content in members:
            packed.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


def edit_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Another header, or a header of another length."""
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.2 or not 0 < size < len(data):
        return (
            struct.pack("<Q", rng.choice((0, 1, size - 1, size + 1, 2**40, 2**64 - 1)) % 2**64)
            + data[8:]
        )
    header = edit_json(data[8 : 8 + size], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def edit_parquet(data: bytes, rng: random.Random) -> bytes:
    """A column of another type or name, gone, or twice; or no rows."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(data))
    except Exception:  # damaged before
        return flip(data, rng)
    at, rows = rng.randrange(table.num_columns), table.num_rows
    name = table.column_names[at]
    column: Any = rng.choice(
        (
            lambda: pa.array(["x"] * rows),
            lambda: pa.array([None] * rows),
            lambda: pa.array([None] * rows, pa.float64()),
            lambda: pa.array([[1.0]] * rows),
            lambda: pa.array([{"a": 1}] * rows),
            lambda: pa.array([b"\xff"] * rows),
            lambda: pa.array(["1"] * rows).dictionary_encode(),
            lambda: pa.array([0] * rows, pa.timestamp("us")),
            lambda: pa.array([0] * rows, pa.date32()),
            lambda: pa.array([2**63] * rows, pa.uint64()),
            lambda: pa.array([float("nan")] * rows),
            lambda: pa.array([float("inf")] * rows),
            lambda: pa.array([True] * rows),
            lambda: pa.array(["x" * 100000] * rows),
            lambda: pa.array([1] * rows).cast(pa.decimal128(30, 2)),
            lambda: pa.array([0] * rows, pa.duration("s")),
            lambda: pa.array([-1] * rows),
            lambda: pa.array([0.5] * rows).cast(pa.float16()),
        )
    )
    how = rng.random()
    if how < 0.6:
        table = table.set_column(at, name, column())
    elif how < 0.7:
        table = table.remove_column(at)
    elif how < 0.8:
        table = table.append_column(name, table.column(at))
    elif how < 0.9:
        odd = rng.choice(("", "\x1b[2J", "p_*", "label", "x" * 5000))
        table = table.rename_columns([*table.column_names[:at], odd, *table.column_names[at + 1 :]])
    else:
        table = table.slice(0, rng.choice((0, 1)))
    file = io.BytesIO()
    pq.write_table(table, file, compression=rng.choice(("snappy", "none", "gzip", "zstd")))
    return file.getvalue()


def edit_onnx(data: bytes, rng: random.Random) -> bytes:
    """A node, constant, input or output of the graph is another."""
    try:
        import onnx

        model = onnx.load_from_string(data)
    except Exception:  # damaged before
        return flip(data, rng)
    graph = model.graph
    if not (graph.node and graph.initializer and graph.input and graph.output):
        return flip(data, rng)
    node, constant = rng.choice(graph.node), rng.choice(graph.initializer)
    shown = rng.choice([*graph.input, *graph.output])

    def outside() -> None:
        constant.ClearField("raw_data")
        constant.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (
            ("location", rng.choice(("../../outside", "/etc/passwd", "model.onnx", "", "\0"))),
            ("offset", rng.choice(("0", "-1", "9" * 30))),
            ("length", rng.choice(("48", "0", str(2**60)))),
        ):
            entry = constant.external_data.add()
            entry.key, entry.value = key, value

    def shape() -> None:
        dims = shown.type.tensor_type.shape.dim
        if dims:
            rng.choice(dims).dim_value = rng.choice((-1, 0, 1, 2, 2**40))

    edits: tuple[Callable[[], Any], ...] = (
        outside,
        shape,
        lambda: setattr(node, "op_type", rng.choice(("", "Loop", "If", "Relu", "Identity", "X"))),
        lambda: setattr(node, "domain", rng.choice(("x", "com.microsoft", "ai.onnx.ml"))),
        lambda: graph.node.remove(node),
        lambda: graph.node.append(node),
        lambda: graph.initializer.remove(constant),
        lambda: constant.dims.append(rng.choice((0, -1, 2**40))),
        lambda: constant.dims.__setitem__(0, rng.choice((0, -1, 2**40, 2**62))),
        lambda: setattr(constant, "data_type", rng.choice((0, 1, 2, 7, 8, 10, 14, 99))),
        lambda: setattr(constant, "name", rng.choice(("", "x", "logits"))),
        lambda: setattr(shown, "name", rng.choice(("", "x", "logits", "\x1b[2J"))),
        lambda: setattr(shown.type.tensor_type, "elem_type", rng.choice((0, 2, 7, 8, 10, 99))),
        lambda: node.input.append(rng.choice(("x", "", "missing"))),
        lambda: node.output.append("more"),
        lambda: setattr(model, "ir_version", rng.choice((0, 1, 99, 2**40))),
        lambda: setattr(model.opset_import[0], "version", rng.choice((0, 1, 5, 99, -1))),
        lambda: graph.input.append(graph.input[0]),
        lambda: graph.output.remove(rng.choice(graph.output)),
        lambda: graph.ClearField("output"),
    )
    rng.choice(edits)()
    return bytes(model.SerializeToString())


BY_SUFFIX: dict[str, Edit] = {
    ".json": edit_json,
    ".toml": edit_toml,
    ".csv": edit_cells,
    ".txt": edit_cells,
    ".data": edit_cells,
    ".npy": edit_npy,
    ".npz": edit_zip,
    ".pt2": edit_zip,
    ".skops": edit_zip,
    ".safetensors": edit_safetensors,
    ".parquet": edit_parquet,
    ".onnx": edit_onnx,
}


def damage(name: str, data: bytes, rng: random.Random) -> bytes:
    """One edit of a file: three in four of what it holds, where its kind is known."""
    known = BY_SUFFIX.get(Path(name).suffix)
    if known is not None and rng.random() < 0.75:
        return known(data, rng)
    return rng.choice(BYTES)(data, rng)


# Of folders.


def _swap(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    shutil.copy(rng.choice(others), path)


def _link(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice(("../../outside/secret.txt", "/dev/zero", path.name, "missing")))


def _folder(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path) if hasattr(os, "mkfifo") else path.mkdir()


def _huge(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    os.truncate(path, 2**36)  # a hole: it takes no room on the disk


def _remove(path: Path, others: Sequence[Path], rng: random.Random) -> None:
    path.unlink()


OF_FOLDERS = (_swap, _swap, _remove, _remove, _link, _folder, _pipe, _huge)


def edit_folder(files: Sequence[Path], rng: random.Random) -> None:
    """Damage one file, or put something else in its place.

    Args:
        files: the files that may be damaged.
        rng: what decides.
    """
    path = rng.choice(files)
    others = [other for other in files if other != path and _is_whole(other)]
    if not _is_whole(path):
        return  # an edit before has done its work here
    if others and rng.random() < 0.12:
        rng.choice(OF_FOLDERS)(path, others, rng)
        return
    path.write_bytes(damage(path.name, path.read_bytes(), rng))


def _is_whole(path: Path) -> bool:
    """Whether a file is still one, of the size of a specimen."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= 2**24
