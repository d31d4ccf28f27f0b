"""Convert data sets from the forms in which they are published into what tables read.

Everything here comes from outside: sizes are limited while files are read, checksums are compared
where they are known, and numbers are checked before anything is written. Nothing is unpickled.
"""

import csv
import gzip
import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from divulge._util import atomic, untrusted
from divulge._util.extras import name_missing_extra
from divulge.errors import DataError
from divulge_papers.datasets import VARIABLE, DataSet, PublishedFile, data_folder, find_data_set

Contents = Mapping[str, bytes]
"""Contents of files by path."""
Images = UInt8[np.ndarray, "images side side *channels"]
Labels = UInt8[np.ndarray, " images"]


@runtime_checkable
class Stream(Protocol):
    """What is read from: a file, or a member of an archive."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many."""
        ...


_UNPACKED = 4 * 2**30
"""Largest number of bytes that an archive may unpack to."""
_MAX_MEMBERS = 10_000
_HAM_CLASSES = np.array([0, 1, 2, 3, 5, 6, 4], np.uint8)
"""Our class of each of Kaggle's, which stand in another order: nevi, vascular, melanoma last."""
_MSLR_LINES, _MSLR_FEATURES = 5000, 136


def convert(name: str, source: Path, folder: Path | None = None) -> Path:
    """Convert a published data set, and return the folder with the files that tables read.

    Args:
        name: name of the data set; see `divulge_papers.datasets.DATA_SETS`.
        source: folder with the published files, their archive (``.tar.gz``, ``.tgz``, ``.zip``),
            or the file itself where there is but one. Single files may be packed by gzip.
        folder: folder of all data sets; by default the one that ``DIVULGE_DATA`` names.

    Raises:
        SpecError: there is no such data set.
        DataError: the files are not there, are something else, or there is no conversion.
        StoreError: the files cannot be written.
    """
    found = find_data_set(name)
    if not found.published:
        raise DataError(f"expected a data set that can be converted, got {name}: {found.instead}")
    place = folder or data_folder()
    if place is None:
        raise DataError(f"expected a folder for data sets: set {VARIABLE}, or name one by --folder")
    target = place / name
    there = [target / file for file in found.files if (target / file).exists()]
    if there:
        raise DataError(f"expected no file at {there[0]}, one is there: move it away first")
    written = _CONVERTERS[name](_read_published(found, source))
    with atomic.translate_os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for file, content in written.items():
        atomic.write(target / file, content)
    return target


def _read_published(found: DataSet, source: Path) -> dict[str, bytes]:
    """Contents of the published files, each by its first name."""
    if not source.exists():
        raise DataError(
            f"expected a folder or a file at {source}, there is nothing: name what you got from "
            f"{found.source}"
        )
    if source.is_dir():
        contents = _read_folder(found.published, source)
    else:
        digest = found.archives.get(source.name, "")
        _compare(str(source), digest, lambda kind: _hash_file(kind, source))
        contents = _read_file(found.published, source)
    for file in found.published:
        if not set(file.names) & set(contents):
            raise DataError(
                f"expected {' or '.join(file.names)} in {source}, found none: name the folder or "
                f"the archive that you got from {found.source}"
            )
    for name, content in contents.items():
        (digest,) = [file.names[name] for file in found.published if name in file.names]
        _compare(name, digest, lambda kind, content=content: _hash(kind, content))  # type: ignore[misc]
    return {
        next(iter(file.names)): next(contents[name] for name in file.names if name in contents)
        for file in found.published
    }


def _read_folder(files: Sequence[PublishedFile], source: Path) -> dict[str, bytes]:
    """Read files from a folder, or from one folder below it."""
    contents = {}
    for file in files:
        for name in file.names:
            near = [source / f"{name}{end}" for end in ("", ".gz")]
            below = [path for end in ("", ".gz") for path in sorted(source.glob(f"*/{name}{end}"))]
            path = next((path for path in (*near, *below) if path.is_file()), None)
            if path is not None:
                with _open(path) as opened:
                    contents[name] = _read(opened, file, path)
                break  # another name is the same file in another form
    return contents


def _read_file(files: Sequence[PublishedFile], source: Path) -> dict[str, bytes]:
    """Read an archive, or the one file."""
    if source.name.endswith((".tar.gz", ".tgz")):
        return dict(_read_tar(files, source))
    if source.suffix == ".zip":
        return dict(_read_zip(files, source))
    if len(files) > 1:
        raise DataError(
            f"expected a folder or an archive with {len(files)} files, got {source}: name the "
            "folder that holds them"
        )
    plain = source.name.removesuffix(".gz")
    name = plain if plain in files[0].names else next(iter(files[0].names))
    with _open(source) as opened:
        return {name: _read(opened, files[0], source)}


def _read_tar(files: Sequence[PublishedFile], source: Path) -> Iterator[tuple[str, bytes]]:
    with (
        _open(source) as unpacked,
        _reading(source),
        tarfile.open(fileobj=_SizeLimit(unpacked), mode="r|") as archive,
    ):
        for number, member in enumerate(archive):
            if number >= _MAX_MEMBERS:
                raise DataError(f"expected at most {_MAX_MEMBERS:,} files in {source}, got more")
            file, name = _wanted(files, member.name)
            content = archive.extractfile(member) if file and member.isfile() else None
            if file and content is not None:
                yield name, _read(content, file, source)


def _read_zip(files: Sequence[PublishedFile], source: Path) -> Iterator[tuple[str, bytes]]:
    with (
        untrusted.open_file(source, untrusted.MAX_DATA_BYTES, DataError) as packed,
        _reading(source),
        zipfile.ZipFile(packed) as archive,
    ):
        for member in archive.infolist()[:_MAX_MEMBERS]:
            file, name = _wanted(files, member.filename)
            if file:
                with archive.open(member) as content:
                    yield name, _read(content, file, source)


def _wanted(files: Sequence[PublishedFile], path: str) -> tuple[PublishedFile | None, str]:
    """The published file that a member of an archive is, and its name."""
    for file in files:
        for name in file.names:
            if path == name or path.endswith(f"/{name}"):
                return file, name
    return None, ""


class _SizeLimit(io.RawIOBase):
    """Hands a stream on, and refuses one that is longer than any data set."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream, self._left = stream, _UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise DataError(f"expected an archive of at most {_UNPACKED:,} bytes, got a larger one")
        return content


@contextmanager
def _open(path: Path) -> Iterator[Stream]:
    """Open a file, unpacked where its name says that gzip packed it."""
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        packed = path.name.endswith((".gz", ".tgz"))
        yield gzip.GzipFile(fileobj=file) if packed else file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in our words that a file is damaged."""
    try:
        yield
    except (
        OSError,
        EOFError,
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(
            f"expected {path} as it was published, got something else ({said}): get it again"
        ) from error


def _read(opened: Stream, file: PublishedFile, path: Path) -> bytes:
    with _reading(path):
        content = opened.read(file.limit + (not file.start))
    if len(content) > file.limit:
        raise DataError(f"expected at most {file.limit:,} bytes in {path}, got more: get it again")
    return content


def _compare(what: str, digest: str, compute: Callable[[str], str]) -> None:
    """Compare a checksum, where one is known."""
    kind, _, wanted = digest.partition(":")
    if wanted and (found := compute(kind)) != wanted:
        raise DataError(
            f"expected {what} with {kind} {wanted}, got {found}: get it again from its source"
        )


def _hash(kind: str, content: bytes) -> str:
    return hashlib.new(kind, content, usedforsecurity=False).hexdigest()


def _hash_file(kind: str, path: Path) -> str:
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        return hashlib.file_digest(
            file, lambda: hashlib.new(kind, usedforsecurity=False)
        ).hexdigest()


def convert_idx(contents: Contents) -> dict[str, bytes]:
    """MNIST and Fashion-MNIST: training and test set from four idx files."""
    parts = ("train", "t10k")
    x = np.concatenate([_read_idx(contents, f"{part}-images-idx3-ubyte", 3) for part in parts])
    y = np.concatenate([_read_idx(contents, f"{part}-labels-idx1-ubyte", 1) for part in parts])
    if x.shape[1:] != (28, 28):
        raise DataError(f"expected images of 28 x 28 pixels, got {x.shape[1]} x {x.shape[2]}")
    _check_labels(y, len(x), 10)
    return {"x.npy.xz": lzma.compress(_to_npy(x)), "y.npy": _to_npy(y)}


def _read_idx(contents: Contents, name: str, axes: int) -> UInt8[np.ndarray, "..."]:
    """Read an idx file of bytes: a magic number, the length of each axis, and the values."""
    raw = contents[name]
    head = 4 * (1 + axes)
    magic, *shape = struct.unpack(f">{1 + axes}I", raw[:head]) if len(raw) >= head else (0,)
    if magic != 0x0800 + axes or len(raw) - head != int(np.prod(shape, dtype=object)):
        raise DataError(f"expected {name} as an idx file of bytes with {axes} axes: get it again")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape)


def convert_cifar10(contents: Contents) -> dict[str, bytes]:
    """CIFAR-10: records of one byte for the class and 3,072 for the pixels."""
    return _convert_cifar(contents, 1, 10)


def convert_cifar100(contents: Contents) -> dict[str, bytes]:
    """CIFAR-100: records of a coarse class, the fine class, and 3,072 pixels."""
    return _convert_cifar(contents, 2, 100)


def _convert_cifar(contents: Contents, labels: int, classes: int) -> dict[str, bytes]:
    width = labels + 3072
    for name, raw in contents.items():
        if not raw or len(raw) % width:
            raise DataError(f"expected {name} in records of {width:,} bytes, got {len(raw):,}")
    records = np.frombuffer(b"".join(contents.values()), np.uint8).reshape(-1, width)
    y = records[:, labels - 1]
    _check_labels(y, len(y), classes)
    x = records[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return {"x_strip.png": _to_strip(x), "meta.npz": atomic.pack_arrays({"y": y})}


def convert_fer2013(contents: Contents) -> dict[str, bytes]:
    """FER-2013: a class and 2,304 pixels a line, whose columns are named in the first."""
    lines = _read_csv(contents["fer2013.csv"])
    names = [name.strip().lower() for name in next(lines, [])]
    if not {"emotion", "pixels"} <= set(names):
        raise DataError("expected columns emotion and pixels in the first line of FER-2013")
    label, pixels = names.index("emotion"), names.index("pixels")
    whole = (line if len(line) == len(names) else [""] * len(names) for line in lines if line)
    y, x = _to_images(([line[label], *line[pixels].split()] for line in whole), (48, 48), 7)
    return {"x_strip.png": _to_strip(x), "meta.npz": atomic.pack_arrays({"y": y})}


def convert_ham10000(contents: Contents) -> dict[str, bytes]:
    """HAM10000 as Kaggle has it at 28 x 28 pixels: 2,352 values and a class a line."""
    lines = _read_csv(contents["hmnist_28_28_RGB.csv"])
    names = next(lines, [])
    if names[-1:] != ["label"]:
        raise DataError("expected label as the last column of HAM10000")
    y, x = _to_images(([line[-1], *line[:-1]] for line in lines if line), (28, 28, 3), 7)
    return {
        "x28_strip.png": _to_strip(x),
        "meta.npz": atomic.pack_arrays({"y": _HAM_CLASSES[y]}),
    }


def convert_location_30(contents: Contents) -> dict[str, bytes]:
    """Location-30: a class from 1 to 30, then 446 bits a line."""
    values = _to_bytes((line for line in _read_csv(contents["bangkok"]) if line), 447)
    y, bits = values[:, 0] - 1, values[:, 1:]
    _check_labels(y, len(y), 30)
    if bits.max() > 1:
        raise DataError(f"expected bits in Location-30, got {bits.max()}")
    packed = {"x_bits": np.packbits(bits, axis=1), "n_features": np.array(446), "y": y}
    return {"location30.npz": atomic.pack_arrays(packed)}


def convert_mslr(contents: Contents) -> dict[str, bytes]:
    """MSLR-WEB10K: the first 5,000 lines of the training and of the test set."""
    written = {}
    for part in ("train", "test"):
        lines = contents[f"Fold1/{part}.txt"].splitlines(keepends=True)[:_MSLR_LINES]
        last = f" {_MSLR_FEATURES}:".encode()
        if len(lines) < _MSLR_LINES or not all(b" qid:" in ln and last in ln for ln in lines):
            raise DataError(
                f"expected {_MSLR_LINES:,} lines with {_MSLR_FEATURES} features in Fold1/{part}.txt"
            )
        written[f"fold1_{part}_first5k.txt.xz"] = lzma.compress(b"".join(lines))
    return written


def _pack(names: Mapping[str, str]) -> Callable[[Contents], dict[str, bytes]]:
    """A conversion that packs each file under another name."""
    return lambda contents: {new: lzma.compress(contents[old]) for old, new in names.items()}


def _read_csv(raw: bytes) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(raw.decode("ascii"), newline=""))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"expected a text with commas, got something else ({error})") from error


def _to_images(
    rows: Iterable[list[str]], shape: tuple[int, ...], classes: int
) -> tuple[Labels, Images]:
    """Labels and images from rows of a class and its pixels."""
    values = _to_bytes(rows, 1 + int(np.prod(shape)))
    _check_labels(values[:, 0], len(values), classes)
    return values[:, 0], values[:, 1:].reshape(-1, *shape)


def _to_bytes(rows: Iterable[list[str]], width: int) -> UInt8[np.ndarray, "rows columns"]:
    """Rows of as many numbers from 0 to 255."""
    values = []
    for k, row in enumerate(rows):
        try:
            numbers = np.array(row, np.int64)
        except (ValueError, OverflowError):
            numbers = np.array([-1])
        if numbers.shape != (width,) or numbers.min() < 0 or numbers.max() > 255:
            raise DataError(
                f"expected {width:,} whole numbers from 0 to 255 in record {k + 1}, got something "
                "else: get the file again"
            )
        values.append(numbers.astype(np.uint8))
    if not values:
        raise DataError("expected records, got none: get the file again")
    return np.stack(values)


def _check_labels(y: UInt8[np.ndarray, "..."], count: int, classes: int) -> None:
    if y.shape != (count,) or not count or y.max() >= classes:
        raise DataError(
            f"expected {count:,} classes from 0 to {classes - 1}, got {y.shape[0]:,} up to "
            f"{y.max(initial=0)}: get the files again"
        )


def _to_npy(array: UInt8[np.ndarray, "..."]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _to_strip(x: Images) -> bytes:
    """All images under each other as one PNG."""
    with name_missing_extra():
        from PIL import Image
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(x).reshape(-1, *x.shape[2:])).save(buffer, "PNG")
    return buffer.getvalue()


_CONVERTERS: Mapping[str, Callable[[Contents], dict[str, bytes]]] = {
    "mnist": convert_idx,
    "fashion_mnist": convert_idx,
    "cifar10": convert_cifar10,
    "cifar100": convert_cifar100,
    "fer2013": convert_fer2013,
    "ham10000": convert_ham10000,
    "location30": convert_location_30,
    "ml-100k": _pack({"u.data": "u.data.xz"}),
    "steam-200k": _pack({"steam-200k.csv": "steam-200k.csv.xz"}),
    "letor-mq2008": _pack(
        {"Fold1/train.txt": "Fold1-train.txt.xz", "Fold1/test.txt": "Fold1-test.txt.xz"}
    ),
    "mslr-web10k-sample": convert_mslr,
}
