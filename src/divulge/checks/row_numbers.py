"""Number rows by their content: equal rows, and these alone, have the same number.

Rows are told apart by a hash of 64 bits, computed for many at a time; those whose hashes agree are
compared byte for byte.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int, Shaped, UInt64

_BLOCK = 2**17
"""Words of 8 bytes that are hashed at a time: they stay in the processor's cache."""

_MIX = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""Multipliers of SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom numbers)."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Parts = Sequence[Shaped[np.ndarray, "..."]]
Words = UInt64[np.ndarray, "rows words"]


def number_contents(parts: Parts) -> list[Int[np.ndarray, " records"]]:
    """A number for each record of each part; records of the same content have the same.

    Args:
        parts: arrays with one row a record, of like shapes and of types that can be joined.

    Examples:
        >>> one, two = number_contents([np.array([3.0, 0.0, 3.0]), np.array([-0.0])])
        >>> one.tolist(), two.tolist()
        ([1, 0, 1], [0])
    """
    dtype = np.result_type(*parts)
    hashes = np.concatenate([_hash(part, dtype) for part in parts])
    _, first, codes = np.unique(hashes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[codes] != np.arange(len(codes)))
    if not all(_are_same(parts, dtype, rows, first[codes[rows]]) for rows in _blocks(again, parts)):
        codes = _number_by_digests(parts, dtype)  # two rows share a hash
    return np.split(codes, np.cumsum([len(part) for part in parts])[:-1])


def hash_rows(rows: Shaped[np.ndarray, "..."]) -> UInt64[np.ndarray, " rows"]:
    """A number of 64 bits for each row, the same for rows of one content.

    Examples:
        >>> one, two, three = hash_rows(np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0]]))
        >>> bool(one == three), bool(one == two)
        (True, False)
    """
    return _hash(rows, rows.dtype)


def _hash(part: Shaped[np.ndarray, "..."], dtype: np.dtype) -> UInt64[np.ndarray, " rows"]:
    rows = np.arange(len(part))
    hashes = [_mix(_words(part[each], dtype)) for each in _blocks(rows, [part])]
    return np.concatenate([np.zeros(0, np.uint64), *hashes])


def _mix(words: Words) -> UInt64[np.ndarray, " rows"]:
    """A word for each row; different ones for different rows of one word."""
    if words.shape[1] == 1:
        return words[:, 0]
    # where a word stands decides what is added to it, so the order of words matters
    mixed = words + np.arange(1, words.shape[1] + 1, dtype=np.uint64) * _GOLDEN
    for shift, multiplier in zip((30, 27), _MIX, strict=True):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= multiplier
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed.sum(axis=1, dtype=np.uint64))


def _words(x: Shaped[np.ndarray, "..."], dtype: np.dtype) -> Words:
    """The bytes of each row in words of 8, with zeros behind the last."""
    same = np.ascontiguousarray(x, dtype=dtype).reshape(len(x), int(np.prod(x.shape[1:])))
    if dtype.kind == "f":
        same = same + 0.0  # minus zero is zero
    content = same.view(np.uint8)
    if left := -content.shape[1] % 8:
        content = np.pad(content, ((0, 0), (0, left)))
    return content.view(np.uint64)


def _blocks(
    rows: Int[np.ndarray, " rows"], parts: Parts
) -> Iterator[Int[np.ndarray, " some_rows"]]:
    """Rows, a few at a time."""
    bytes_a_row = max(part.itemsize * int(np.prod(part.shape[1:])) for part in parts)
    count = max(1, 8 * _BLOCK // max(1, bytes_a_row))
    return (rows[start : start + count] for start in range(0, len(rows), count))


def _are_same(
    parts: Parts,
    dtype: np.dtype,
    rows: Int[np.ndarray, " some_rows"],
    others: Int[np.ndarray, " some_rows"],
) -> bool:
    """Whether rows, counted through all parts, have the content of these others."""
    return bool((_pick(parts, dtype, rows) == _pick(parts, dtype, others)).all())


def _pick(parts: Parts, dtype: np.dtype, rows: Int[np.ndarray, " some_rows"]) -> Words:
    picked, start = [], 0
    order = np.argsort(rows, kind="stable")
    for part in parts:
        own = rows[order][(rows[order] >= start) & (rows[order] < start + len(part))]
        picked.append(_words(part[own - start], dtype))
        start += len(part)
    words = np.empty_like(picked[0], shape=(len(rows), picked[0].shape[1]))
    words[order] = np.concatenate(picked)
    return words


def _number_by_digests(parts: Parts, dtype: np.dtype) -> Int[np.ndarray, " records"]:
    """The same by a hash in which nobody has seen two rows agree; far slower."""
    content = [
        hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        for part in parts
        for row in _words(part, dtype)
    ]
    return np.unique(np.array(content, dtype="V16"), return_inverse=True)[1]
