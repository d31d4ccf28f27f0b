"""Data sets in the forms in which they are published become what tables read, or are refused."""

import dataclasses
import gzip
import hashlib
import io
import itertools
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divulge.cli.main import main
from divulge.data import interactions, ranking
from divulge.errors import DataError, SpecError
from divulge_papers import conversion, data, datasets, published_files
from divulge_papers.conversion import convert
from divulge_papers.datasets import DATA_SETS, PublishedFile
from divulge_papers.table import TABLES, find_table

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path / "data"))


def without_checksums(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let made-up files stand for a data set."""
    found = DATA_SETS[name]
    files = tuple(
        dataclasses.replace(file, names=dict.fromkeys(file.names, "")) for file in found.published
    )
    monkeypatch.setitem(DATA_SETS, name, dataclasses.replace(found, published=files, archives={}))


def put(folder: Path, contents: Mapping[str, bytes]) -> Path:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    return RNG.integers(0, 256, (count, 28, 28), np.uint8), RNG.integers(0, 10, count, np.uint8)


def mnist(packed: bool) -> tuple[dict[str, bytes], np.ndarray, np.ndarray]:
    (x, y), (other, more) = digits(3), digits(2)
    parts = {"train": (x, y), "t10k": (other, more)}
    kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
    plain = {
        f"{part}-{kind}": idx(one)
        for part, arrays in parts.items()
        for kind, one in zip(kinds, arrays, strict=True)
    }
    if packed:
        plain = {f"{name}.gz": gzip.compress(raw) for name, raw in plain.items()}
    return plain, np.concatenate([x, other]), np.concatenate([y, more])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_files(
    name: data.ImageSetName, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_checksums(monkeypatch, name)
    files, x, y = mnist(packed)
    assert not datasets.is_there(name)
    assert convert(name, put(tmp_path / "from", files)) == tmp_path / "data" / name
    assert datasets.is_there(name)
    records = data.load_images(name)
    np.testing.assert_array_equal(np.rint(records.x[:, 0] * 255).astype(np.uint8), x)
    np.testing.assert_array_equal(records.y, y)
    with pytest.raises(DataError, match="move it away"):
        convert(name, tmp_path / "from")


def archive(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_binary_versions_of_cifar(
    name: data.ImageSetName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_checksums(monkeypatch, name)
    coarse = [np.full((2, 1), 7, np.uint8)] * (name == "cifar100")
    contents, images, labels = {}, [], []
    for file in DATA_SETS[name].published:
        x, y = RNG.integers(0, 256, (2, 3, 32, 32), np.uint8), RNG.integers(0, 10, 2, np.uint8)
        images.append(x)
        labels.append(y)
        records = np.concatenate([*coarse, y[:, None], x.reshape(2, -1)], axis=1)
        contents[f"cifar-binary/{next(iter(file.names))}"] = records.tobytes()
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(archive({"cifar-binary/readme.html": b"", **contents}))
    convert(name, path)
    found = data.load_images(name)
    np.testing.assert_array_equal(np.rint(found.x * 255).astype(np.uint8), np.concatenate(images))
    np.testing.assert_array_equal(found.y, np.concatenate(labels))


def test_faces_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_checksums(monkeypatch, "fer2013")
    x, y = RNG.integers(0, 256, (3, 48, 48), np.uint8), np.array([6, 0, 3])
    pixels = [" ".join(map(str, one.ravel().tolist())) for one in x]
    old = "emotion,pixels,Usage\n" + "".join(
        f"{label},{text},Training\n" for label, text in zip(y, pixels, strict=True)
    )
    new = "emotion, Usage, pixels\n" + "".join(
        f"{label},Training,{text}\n" for label, text in zip(y, pixels, strict=True)
    )
    for number, (name, text) in enumerate({"fer2013.csv": old, "icml_face_data.csv": new}.items()):
        source = put(tmp_path / f"from-{number}", {name: text.encode()})
        convert("fer2013", source, tmp_path / f"data-{number}")
        monkeypatch.setenv("DIVULGE_DATA", str(tmp_path / f"data-{number}"))
        found = data.load_images("fer2013")
        np.testing.assert_array_equal(np.rint(found.x[:, 0] * 255).astype(np.uint8), x)
        np.testing.assert_array_equal(found.y, y)


def test_skin_lesions_have_our_classes(tmp_path: Path) -> None:
    x = RNG.integers(0, 256, (7, 28 * 28 * 3), np.uint8)
    head = ",".join([f"pixel{k:04d}" for k in range(2352)] + ["label"])
    lines = [",".join(map(str, [*row.tolist(), label])) for label, row in enumerate(x)]
    path = tmp_path / "hmnist_28_28_RGB.csv"
    path.write_text("\n".join([head, *lines, ""]), encoding="ascii")
    convert("ham10000", path)
    found = data.load_images("ham10000")
    wanted = x.reshape(7, 28, 28, 3).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.rint(found.x * 255).astype(np.uint8), wanted)
    assert found.y.tolist() == [0, 1, 2, 3, 5, 6, 4]  # nevi 4, vascular 5, melanoma 6 at Kaggle


def test_places(tmp_path: Path) -> None:
    bits, y = RNG.integers(0, 2, (4, 446)), np.array([1, 30, 2, 7])
    lines = [f'"{label}",' + ",".join(map(str, row)) for label, row in zip(y, bits, strict=True)]
    path = tmp_path / "location.tgz"
    path.write_bytes(archive({"bangkok": "\n".join([*lines, ""]).encode()}))
    convert("location30", path)
    found = data.load_location_30()
    np.testing.assert_array_equal(found.x, bits)
    assert found.y.tolist() == [0, 29, 1, 6]


def test_texts_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ml-100k", "letor-mq2008", "steam-200k"):
        without_checksums(monkeypatch, name)
    zipped = tmp_path / "ml-100k.zip"
    with zipfile.ZipFile(zipped, "w") as packed:
        packed.writestr("ml-100k/u.data", "1\t5\t3\t881250949\n2\t5\t4\t881250950\n")
    convert("ml-100k", zipped)
    assert interactions.movielens_100k(data.data_file("ml-100k/u.data.xz")).users == 2
    lines = b"1 qid:1 1:0.5 2:0.25 #docid = A\n0 qid:1 1:0.5 2:0.5 #docid = B\n"
    folds = {"MQ2008/Fold1/train.txt": lines, "MQ2008/Fold1/test.txt": lines}
    convert("letor-mq2008", put(tmp_path / "from", folds))
    read = ranking.read_queries(data.data_file("letor-mq2008/Fold1-test.txt.xz"))
    assert (read.count, read.x.tolist()) == (1, [[0.5, 0.25], [0.5, 0.5]])
    path = tmp_path / "steam-200k.csv"
    path.write_bytes(b'1,"A game",purchase,1.0,0\n')
    convert("steam-200k", path)
    with lzma.open(data.data_file("steam-200k/steam-200k.csv.xz")) as unpacked:
        assert unpacked.read() == path.read_bytes()


def test_of_a_large_set_the_first_lines(tmp_path: Path) -> None:
    features = " ".join(f"{k}:0" for k in range(1, 137))
    text = "".join(f"{k % 5} qid:{k // 100} {features}\n" for k in range(5100)).encode()
    files = {"MSLR-WEB10K/Fold1/train.txt": text, "MSLR-WEB10K/Fold1/test.txt": text}
    convert("mslr-web10k-sample", put(tmp_path / "from", files))
    path = data.data_file("mslr-web10k-sample/fold1_train_first5k.txt.xz")
    with lzma.open(path) as unpacked:
        assert unpacked.read() == b"".join(itertools.islice(io.BytesIO(text), 5000))
    with pytest.raises(DataError, match="5,000 lines with 136 features"):
        conversion.convert_mslr({f"Fold1/{part}.txt": text[:9000] for part in ("train", "test")})


def test_another_file_than_the_published_one_is_refused(tmp_path: Path) -> None:
    files, *_ = mnist(packed=True)
    with pytest.raises(DataError, match="train-images-idx3-ubyte with sha256 ba891046"):
        convert("mnist", put(tmp_path / "from", files))
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(archive({}))
    with pytest.raises(DataError, match="with md5 c32a1d4a"):
        convert("cifar10", path)
    assert not (tmp_path / "data").exists()


def test_checksums_are_those_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"1\t5\t3\t881250949\n"
    digest = f"sha256:{hashlib.sha256(line).hexdigest()}"
    found = dataclasses.replace(
        DATA_SETS["ml-100k"], published=(PublishedFile({"u.data": digest}, 100),)
    )
    monkeypatch.setitem(DATA_SETS, "ml-100k", found)
    convert("ml-100k", put(tmp_path / "from", {"u.data": line}))
    assert datasets.is_there("ml-100k")


HOSTILE = {
    "no idx": ("mnist", {"train-images-idx3-ubyte": b"\x00" * 20}),
    "short idx": ("mnist", {"train-images-idx3-ubyte": b"\x00\x00\x08\x03" + b"\xff" * 12}),
    "empty": ("mnist", {"train-images-idx3-ubyte": b""}),
    "half a record": ("cifar10", {"data_batch_1.bin": b"\x01" * 3000}),
    "a class too many": ("cifar10", {"data_batch_1.bin": b"\x0a" * 3073}),
    "no columns": ("fer2013", {"fer2013.csv": b"a,b\n1,2\n"}),
    "a word": ("fer2013", {"fer2013.csv": b"emotion,pixels\n1,a b\n"}),
    "letters": ("fer2013", {"fer2013.csv": b"emotion,pixels\n1,\xff\n"}),
    "a huge number": ("location30", {"bangkok": b",".join([b"9" * 400] * 447)}),
    "no record": ("location30", {"bangkok": b""}),
    "class 0": ("location30", {"bangkok": b",".join([b"0"] * 447)}),
    "no bit": ("location30", {"bangkok": b",".join([b"2"] * 447)}),
    "no label": ("ham10000", {"hmnist_28_28_RGB.csv": b"a,b\n1,2\n"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_damaged_is_refused_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, contents = HOSTILE[name]
    without_checksums(monkeypatch, kind)
    files = mnist(packed=False)[0] if kind == "mnist" else {}
    if kind == "cifar10":
        files = {next(iter(one.names)): b"\x00" * 3073 for one in DATA_SETS[kind].published}
    with pytest.raises(DataError, match="expected"):
        convert(kind, put(tmp_path / "from", files | contents))
    assert not (tmp_path / "data").exists()


def test_what_is_too_large_or_no_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = put(tmp_path / "large", {"u.data.gz": gzip.compress(bytes(5 * 2**20))})
    with pytest.raises(DataError, match="at most 4,194,304 bytes"):
        convert("ml-100k", large)
    without_checksums(monkeypatch, "location30")
    monkeypatch.setattr(published_files, "_UNPACKED", 1000)
    path = tmp_path / "location.tgz"
    path.write_bytes(archive({"other": bytes(5000), "bangkok": b"1"}))
    with pytest.raises(DataError, match="an archive of at most 1,000 bytes"):
        convert("location30", path)
    for name in ("location.tgz", "location.zip", "location.tar.gz"):
        (tmp_path / name).write_bytes(b"no archive")
        with pytest.raises(DataError, match="as it was published, got something else"):
            convert("location30", tmp_path / name)


def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="mnist"):
        convert("mnits", tmp_path)
    with pytest.raises(DataError, match="found none: name the folder or"):
        convert("mnist", tmp_path)
    with pytest.raises(DataError, match="a folder or an archive with 4 files"):
        convert("mnist", put(tmp_path, {"x.bin": b""}) / "x.bin")
    with pytest.raises(DataError, match="nowhere"):
        convert("ml-100k", tmp_path / "nowhere")
    with pytest.raises(DataError, match="published as a pickle"):
        convert("vision-extractor", tmp_path)
    monkeypatch.delenv("DIVULGE_DATA")
    with pytest.raises(DataError, match="set DIVULGE_DATA, or name one by --folder"):
        convert("ml-100k", tmp_path)


@pytest.mark.parametrize("name", sorted(DATA_SETS))
def test_each_set_can_be_converted_or_says_why_not(name: str) -> None:
    found = DATA_SETS[name]
    assert bool(found.published) == (name in conversion._CONVERTERS)
    assert bool(found.instead) != bool(found.published)
    assert found.source.startswith("http")
    for digest in [
        *found.archives.values(),
        *(d for f in found.published for d in f.names.values()),
    ]:
        kind, _, digits = digest.partition(":")
        assert len(digits) == {"": 0, "md5": 32, "sha256": 64}[kind]


def test_the_command_lists_them_and_converts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_checksums(monkeypatch, "ml-100k")
    path = put(tmp_path / "from", {"u.data": b"1\t5\t3\t881250949\n"}) / "u.data"
    done = CliRunner().invoke(main, ["data", "convert", "ml-100k", str(path)])
    assert done.exit_code == 0, done.output
    said = CliRunner().invoke(main, ["data"]).stdout
    assert "ml-100k: MovieLens-100K, 100,000 ratings of 943 users (there)" in said
    assert "mnist: MNIST, 70,000 digits (missing)" in said
    assert "cifar-10-binary.tar.gz (md5:c32a1d4ab5d03f1284b67883e8d87530)" in said


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_table_names_the_data_that_its_rows_read(name: str) -> None:
    table = find_table(name)
    assert table.data
    assert set(table.data) <= set(DATA_SETS)
    assert {row.settings.get("data") for row in table.rows} & set(DATA_SETS) <= set(table.data)
