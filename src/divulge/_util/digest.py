"""One digest of a text and arrays."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class ArrayParts(NamedTuple):
    """An array in float64 that comes in parts, whose rows are never together."""

    shape: tuple[int, ...]
    parts: Iterable[np.ndarray]

    @property
    def dtype(self) -> str:
        """Type of its numbers."""
        return "float64"


def digest(text: str, *arrays: np.ndarray | ArrayParts) -> str:
    """What tells this text and these arrays from others: 32 hexadecimal digits."""
    made = hashlib.blake2b(text.encode(), digest_size=16)
    for array in arrays:
        made.update(f"{array.dtype}{array.shape}".encode())
        for part in [array] if isinstance(array, np.ndarray) else array.parts:
            made.update(np.ascontiguousarray(part).data)
    return made.hexdigest()
