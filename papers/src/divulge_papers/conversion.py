"""Convert data sets from the forms in which they are published into what tables read.

Everything here comes from outside: sizes are limited while files are read, checksums are compared
where they are known, and numbers are checked before anything is written. Nothing is unpickled.
"""

import csv
import io
import lzma
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from divulge._util import atomic
from divulge._util.extras import name_missing_extra
from divulge.errors import DataError
from divulge_papers.datasets import VARIABLE, data_folder, find_data_set
from divulge_papers.published_files import read_published

Contents = Mapping[str, bytes]
"""Contents of files by path."""
Images = UInt8[np.ndarray, "images side side *channels"]
Labels = UInt8[np.ndarray, " images"]
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
    data_set = find_data_set(name)
    if not data_set.published:
        raise DataError(
            f"expected a data set that can be converted, got {name}: {data_set.instead}"
        )
    place = folder or data_folder()
    if place is None:
        raise DataError(f"expected a folder for data sets: set {VARIABLE}, or name one by --folder")
    target = place / name
    there = [target / file for file in data_set.files if (target / file).exists()]
    if there:
        raise DataError(f"expected no file at {there[0]}, one is there: move it away first")
    written = _CONVERTERS[name](read_published(data_set, source))
    with atomic.translate_os_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for file, content in written.items():
        atomic.write(target / file, content)
    return target


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
