"""Open text files whatever packed and encoded them, within limits counted as they unpack.

gzip, bzip2, xz and zstd; UTF-8, with a byte order mark or without, and UTF-16 with one. What comes
out is UTF-8.
"""

import bz2
import codecs
import gzip
import io
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from divulge._util import untrusted
from divulge._util.extras import name_missing_extra
from divulge.data.file_kinds import HEAD, Kind, Packing, find_packing, tell_kind
from divulge.errors import DataError, DivulgeError

_BLOCK = 2**20
"""Bytes that are read at once, fewer than the longest line: within them no line is too long."""

_TIMES = 1000
"""A larger text unpacks to at most so many times its size; tables of constants to a tenth of it."""


def file_kind(path: Path) -> tuple[Kind, Packing | None]:
    """What a table is, and how it is packed.

    Raises:
        DataError: the file cannot be read, or is no table; says what it is.
        MissingExtra: it is packed with zstd, and nothing here unpacks that.
    """
    with untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError) as file:
        head = _read_head(file)
        packing = find_packing(head)
        if packing is None:
            return tell_kind(head, str(path)), None
        file.seek(0)
        with _name_damage(path, packing):
            head = _read_head(_unpacker(packing)(file))
    inside = find_packing(head) or tell_kind(head, f"{path}, packed with {packing}")
    if inside != "text":
        raise DataError(f"expected text packed with {packing} in {path}, got {inside}: unpack it")
    return "text", packing


def open_bytes(path: Path) -> io.BufferedReader:
    """A text file unpacked, as UTF-8 without a mark; limits are checked as it is read.

    Raises:
        DataError: see `file_kind`; when read, also if it unpacks to more than the limit, or a line
            is too long.
        MissingExtra: see `file_kind`.
    """
    kind, packing = file_kind(path)
    if kind != "text":
        raise DataError(f"expected text in {path}, got {kind}: save it as text")
    file = untrusted.open_file(path, untrusted.MAX_DATA_BYTES, DataError)
    source: Any = file if packing is None else _unpacker(packing)(file)
    return io.BufferedReader(_CheckedText(path, file, source, packing), _BLOCK)


def open_text(path: Path) -> io.TextIOWrapper:
    """A text file whose lines keep their ends; errors as of `open_bytes`."""
    return io.TextIOWrapper(open_bytes(path), newline="", encoding="utf-8")


def find_wrong_byte(path: Path) -> DataError:
    """The complaint about the first line that is no UTF-8."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return DataError(
                    f"expected a table in UTF-8 in {path}, got the byte 0x{line[error.start]:02x} "
                    f"in line {number}, as Latin-1 and Windows-1252 have it: save it as UTF-8"
                )
    return DataError(f"expected a table in UTF-8 in {path}, got other bytes: save it as UTF-8")


@contextmanager
def _name_damage(path: Path, packing: Packing | None) -> Iterator[None]:
    """Turn whatever an unpacker raises into one line."""
    try:
        yield
    except (DivulgeError, MemoryError):
        raise
    except Exception as error:
        raise DataError(
            f"expected a table in {path}, got damaged {packing or 'text'} ({error}): save it again"
        ) from error


def _read_head(file: Any) -> bytes:
    head: bytes = b""
    while len(head) < HEAD and (more := file.read(HEAD - len(head))):
        head += more
    return head


def _unpacker(packing: Packing) -> Callable[[Any], Any]:
    known: dict[Packing, Callable[[Any], Any]] = {
        "gzip": lambda file: gzip.GzipFile(fileobj=file),
        "bzip2": bz2.BZ2File,
        "xz": lzma.LZMAFile,
        "zstd": _unpack_zstd,
    }
    return known[packing]


def _unpack_zstd(file: Any) -> Any:
    with suppress(ModuleNotFoundError):  # part of Python from 3.14 on
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd.ZstdFile(file)
    with name_missing_extra():
        import pyarrow as pa
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _limit(file: Any, packing: Packing | None) -> int:
    """Bytes that a text may unpack to."""
    most = untrusted.MAX_DATA_BYTES
    if packing is None:
        return most
    packed = os.fstat(file.fileno()).st_size
    return min(most, max(untrusted.MAX_TEXT_BYTES, _TIMES * packed))


class _CheckedText(io.RawIOBase):
    """UTF-8 text out of a stream of bytes, whose size and lines are counted."""

    def __init__(self, path: Path, file: Any, source: Any, packing: Packing | None) -> None:
        self._path, self._file, self._source, self._packing = path, file, source, packing
        self._size = self._line = 0
        self._ended = False
        with _name_damage(path, packing):
            self._most = _limit(file, packing)
            head = source.read(4)
            wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            self._decoder = codecs.getincrementaldecoder("utf-16")() if wide else None
            self._left = memoryview(self._convert(head.removeprefix(codecs.BOM_UTF8)))
        self._check(self._left.tobytes())

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def readinto(self, into: Any) -> int:
        while not self._left and not self._ended:
            block = self._read()
            self._check(block)
            self._left = memoryview(block)  # parts of which are no copies
        size = min(len(into), len(self._left))
        into[:size], self._left = self._left[:size], self._left[size:]
        return size

    def _read(self) -> bytes:
        with _name_damage(self._path, self._packing):
            block: bytes = self._source.read(_BLOCK)
            self._ended = not block
            return self._convert(block)

    def _convert(self, block: bytes) -> bytes:
        if self._decoder is None:
            return block
        return self._decoder.decode(block, final=self._ended).encode("utf-8")

    def _check(self, block: bytes) -> None:
        """Refuse more than the limits: a line fills the memory with its cells."""
        self._size += len(block)
        untrusted.check_size(
            self._size, self._most, f"text that {self._path} unpacks to", DataError
        )
        first = min((at for end in b"\n\r" if (at := block.find(end)) >= 0), default=len(block))
        untrusted.check_size(
            self._line + first, untrusted.MAX_TEXT_BYTES, f"a line of {self._path}", DataError
        )
        last = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._line = self._line + len(block) if last < 0 else len(block) - last - 1
