"""The arrays of a guess in a run folder; large ones are read whenever they are asked for."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import numpy as np

from divulge._util import atomic

HELD = 2**26
"""Bytes of arrays that are kept in memory."""


@final
class StoredArrays(Mapping[str, np.ndarray]):
    """By name, the arrays of an ``.npz`` file.

    Args:
        path: the file, all of which is checked.

    Raises:
        StoreError: it cannot be read, or holds something else; large arrays may raise it later.
    """

    def __init__(self, path: Path) -> None:
        arrays = atomic.read_arrays(path)
        for name, array in arrays.items():
            if array.dtype.kind not in "fiub":
                raise atomic.damaged_file_error(path, ValueError(f"{name} of type {array.dtype}"))
        self._path, self._names = path, tuple(arrays)
        large = sum(array.nbytes for array in arrays.values()) > HELD
        self._arrays = None if large else arrays

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        arrays = self._arrays or atomic.read_arrays(self._path, name)
        return arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
