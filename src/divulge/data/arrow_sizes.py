"""How much memory the batches of an Arrow file take, before they are unpacked.

A packed buffer begins with the number of bytes that it unpacks to, and so many are taken for it. So
the sum of these numbers bounds what the file can take, whatever else it claims.

References:
    Apache Arrow, columnar format 1.5, "IPC File Format" and "Compression"; `Message.fbs` and
    `File.fbs` for the order of fields.
"""

import struct
from collections.abc import Iterator
from typing import Any

_MAGIC = b"ARROW1"
_BLOCK = 24
"""Bytes of the place of a message: offset, length of its header, length of its body."""


def file_messages(source: Any) -> Iterator[Any]:
    """The dictionaries and batches that the end of an Arrow file lists.

    Args:
        source: the file as ``pyarrow.MemoryMappedFile``.

    Raises:
        ValueError: the file is damaged.
    """
    import pyarrow as pa

    size = source.size()
    source.seek(max(0, size - 10))
    length, magic = struct.unpack("<i6s", source.read(10))
    if magic != _MAGIC or not 0 < length <= size - 10:
        raise ValueError("its end is missing")
    source.seek(size - 10 - length)
    footer = source.read(length)
    root = _follow(footer, 0)
    for listed in (2, 3):  # dictionaries, recordBatches
        at = _field(footer, root, listed)
        for place in _places(footer, at, _BLOCK):
            source.seek(_read(footer, "<q", place))
            yield pa.ipc.read_message(source)


def unpacked_size(message: Any) -> int:
    """Bytes that a message takes in memory, at least those of its body.

    Args:
        message: a ``pyarrow.Message``.

    Raises:
        ValueError: it is damaged.
    """
    if message.body is None:
        return 0
    head, body = message.metadata.to_pybytes(), memoryview(message.body)
    root = _follow(head, 0)
    batch = _table(head, root, 2)
    if message.type == "dictionary":
        batch = _table(head, batch, 1)
    if _field(head, batch, 3) is None:  # not packed
        return len(body)
    size = 0
    for place in _places(head, _field(head, batch, 2), 16):
        offset, length = _read(head, "<q", place), _read(head, "<q", place + 8)
        if length:
            claimed = _read(body, "<q", offset)
            size += length if claimed < 0 else claimed
    return max(size, len(body))


def _read(source: Any, form: str, at: int) -> int:
    if not 0 <= at <= len(source) - struct.calcsize(form):
        raise ValueError("a place outside of it")
    number: int = struct.unpack_from(form, source, at)[0]
    return number


def _follow(source: bytes, at: int) -> int:
    return at + _read(source, "<I", at)


def _field(source: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of FlatBuffers is; None where it has its usual value."""
    fields = table - _read(source, "<i", table)
    if 4 + 2 * number >= _read(source, "<H", fields):
        return None
    offset = _read(source, "<H", fields + 4 + 2 * number)
    return table + offset if offset else None


def _table(source: bytes, table: int, number: int) -> int:
    at = _field(source, table, number)
    if at is None:
        raise ValueError("a part is missing")
    return _follow(source, at)


def _places(source: bytes, at: int | None, size: int) -> range:
    """Where the entries of a vector are."""
    if at is None:
        return range(0)
    begun = _follow(source, at)
    count = _read(source, "<I", begun)
    if count * size > len(source):
        raise ValueError("a list longer than itself")
    return range(begun + 4, begun + 4 + count * size, size)
