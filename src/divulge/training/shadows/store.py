"""Rows of numbers on disk, one a model: written as they come, never held whole."""

import io
import os
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from divulge._util import atomic, untrusted
from divulge.errors import StoreError

RowArray = Float64[np.ndarray, " numbers"]

# float64 as everywhere else: attacks sum thousands of terms, and the file is small beside the
# training that made it (50,000 records under 128 models: 51 MB)
_NUMBER_TYPE = "<f8"


@dataclass(frozen=True, slots=True)
class _RowChecksums:
    """``KEY.json``."""

    rows: dict[int, int]
    """The checksum of each row that counts."""


@dataclass(frozen=True)
class RowFile:
    """``KEY.npy``, a matrix that `numpy.load` opens, and ``KEY.json``, which of its rows count.

    A row is on disk before the list names it, and the list is replaced as a whole: a kill at any
    moment leaves every row that was listed. Rows may be added later.

    Args:
        folder: where both files are.
        key: their name.
        rows: how many there are to be; a longer file stays as it is.
        width: numbers in each.

    Attributes:
        done: the checksum of each row that counts.

    Raises:
        StoreError: the files are damaged, or cannot be read or written.
    """

    folder: Path
    key: str
    rows: int
    width: int
    done: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        with atomic.translate_os_errors(self.folder):
            # not by way of a link: rows are written in place
            untrusted.path_within(self.folder.parent, f"{self.folder.name}/{self.key}", StoreError)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._data.is_symlink() or self._data.exists():
                untrusted.check_file(self._data, sys.maxsize, StoreError, links=False)
            if self._list.exists():
                raw = atomic.read(self._list)
                self.done.update(atomic.from_json(raw, _RowChecksums, self._list).rows)
                self._verify()
            self._reserve()

    @property
    def missing(self) -> list[int]:
        """The rows that are still to come."""
        return [k for k in range(self.rows) if k not in self.done]

    def put(self, k: int, row: RowArray) -> None:
        """Write a row; it counts when this returns.

        Raises:
            StoreError: it cannot be written.
        """
        content = np.ascontiguousarray(row, _NUMBER_TYPE).tobytes()
        assert len(content) == 8 * self.width
        with atomic.translate_os_errors(self._data), self._data.open("r+b") as file:
            file.seek(self._place(k))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.done[k] = zlib.crc32(content)
        listed = _RowChecksums(dict(sorted(self.done.items())))
        atomic.write(self._list, atomic.to_json(listed, _RowChecksums).encode())

    def matrix(self) -> Float64[np.ndarray, "rows numbers"]:
        """All rows, read-only, mapped into memory: only what is looked at is read.

        Raises:
            StoreError: the file cannot be read.
        """
        assert not self.missing
        with atomic.translate_os_errors(self._data):
            mapped = np.memmap(
                self._data, _NUMBER_TYPE, "r", self._place(0), shape=(self.rows, self.width)
            )
        return np.asarray(mapped)

    @property
    def _data(self) -> Path:
        return self.folder / f"{self.key}.npy"

    @property
    def _list(self) -> Path:
        return self.folder / f"{self.key}.json"

    def _place(self, k: int) -> int:
        # NumPy pads the header for a first axis that grows: its length depends on the width alone
        return len(self._header(0)) + 8 * self.width * k

    def _header(self, rows: int) -> bytes:
        file = io.BytesIO()
        shape = {"descr": _NUMBER_TYPE, "fortran_order": False, "shape": (rows, self.width)}
        np.lib.format.write_array_header_1_0(file, shape)
        return file.getvalue()

    def _reserve(self) -> None:
        """Make room, on systems that can without writing it."""
        handle = os.open(self._data, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "r+b") as file:
            if file.seek(0, os.SEEK_END) < self._place(self.rows):
                file.truncate(self._place(self.rows))
                file.seek(0)
                file.write(self._header(self.rows))

    def _verify(self) -> None:
        """Read each listed row once, as nothing in a run folder is believed unseen."""
        with atomic.translate_os_errors(self._data), self._data.open("rb") as file:
            for k, checksum in self.done.items():
                file.seek(self._place(k))
                if zlib.crc32(file.read(8 * self.width)) != checksum:
                    raise atomic.damaged_file_error(
                        self._data, ValueError(f"row {k} is another one")
                    )
