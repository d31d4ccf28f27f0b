"""Read arrays from ``.npz`` and ``.npy`` files that may be damaged or hostile.

NumPy believes a header: one of 80 bytes can ask for petabytes. Here the size that a header claims
must be that of the data behind it, before anything is allocated.
"""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from divulge._util.untrusted import MAX_DATA_BYTES, check_size, open_file
from divulge.errors import DivulgeError

MOST_ARRAYS: Final = 10_000
"""The largest number of arrays in a file."""

_PACKED = 1100  # deflate packs 1,032 bytes into one at best
_TYPES = "fiubcU"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class DamagedArrays(Exception):
    """A file that does not hold arrays; whoever reads it knows what it should have been."""


def read_npz(
    path: Path,
    names: Sequence[str] | None = None,
    *,
    error: type[DivulgeError],
    links: bool = True,
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz`` file by name.

    Args:
        path: the file.
        names: of the arrays; None reads all.
        error: the class of the error where the file cannot be opened or is too large.
        links: see `divulge._util.untrusted.check_file`.

    Raises:
        DamagedArrays: an array is missing, or the file is no such archive of numbers and texts.
        DivulgeError: of the class asked for.
    """
    with open_file(path, MAX_DATA_BYTES, error, links=links) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, names, path, error)
        except (DivulgeError, DamagedArrays):
            raise
        except Exception as problem:  # whatever zipfile and NumPy's parser raise about odd bytes
            raise DamagedArrays(_one_line(problem)) from problem


def map_npy(path: Path, *, error: type[DivulgeError]) -> np.ndarray:
    """The array of an ``.npy`` file in a run folder, read-only and mapped into memory.

    Args:
        path: the file.
        error: the class of the error where it cannot be opened or is too large.

    Raises:
        DamagedArrays: it holds something else.
        DivulgeError: of the class asked for.
    """
    with open_file(path, MAX_DATA_BYTES, error, links=False) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            _check_header(file, size)
            mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except DamagedArrays:
            raise
        except Exception as problem:  # as above
            raise DamagedArrays(_one_line(problem)) from problem
    return mapped


def _read_archive(
    archive: zipfile.ZipFile, names: Sequence[str] | None, path: Path, error: type[DivulgeError]
) -> dict[str, np.ndarray]:
    entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(entries) > MOST_ARRAYS:
        raise DamagedArrays(f"{len(entries)} arrays")
    if len(entries) < len(archive.infolist()):
        raise DamagedArrays("two arrays of one name")
    size = sum(info.file_size for info in entries.values())
    check_size(size, MAX_DATA_BYTES, f"arrays that {path} unpacks to", error)
    wanted = list(entries) if names is None else names
    if missing := [name for name in wanted if name not in entries]:
        raise DamagedArrays(f"no array {missing[0]!r}")
    return {name: _read_entry(archive, entries[name]) for name in wanted}


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedArrays("a packing that NumPy does not write")
    if info.file_size > _PACKED * info.compress_size:
        raise DamagedArrays(f"{info.compress_size} bytes that claim to be {info.file_size}")
    with archive.open(info) as entry:
        _check_header(entry, info.file_size)
    with archive.open(info) as entry:
        array: np.ndarray = np.lib.format.read_array(entry, allow_pickle=False)
    return array


def _check_header(file: Any, size: int) -> None:
    """Refuse a header that does not describe the bytes behind it, or whose array is no numbers."""
    _, dtype = read_header(file, size)
    if dtype.kind not in _TYPES:
        raise DamagedArrays(f"an array of type {dtype}")


def read_header(file: Any, size: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the type that the header of an ``.npy`` file promises.

    Args:
        file: open for reading, at its beginning.
        size: bytes in it.

    Raises:
        DamagedArrays: the header does not describe the bytes behind it.
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise DamagedArrays(f"an array of format {version}")
    shape, _, dtype = _HEADERS[version](file)
    if not dtype.itemsize:
        raise DamagedArrays(f"an array of type {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise DamagedArrays(f"an array of shape {shape} in {size} bytes")
    return shape, dtype


def _one_line(problem: Exception) -> str:
    lines = str(problem).splitlines()
    return lines[0][:200] if lines else type(problem).__name__
