"""Arrays from pickles, which are read and never executed."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from divulge.core import Records
from divulge.errors import DataError

LARGEST = 2**31
"""Bytes that a file may have, or unpack to."""


def records(path: Path) -> Records:
    """Records from a pickled array with the label in its last column.

    The pickle is not executed: whatever it names is refused but for the few words that stand for
    an array of numbers, and these are answered by classes of ours that only write them down.
    Protocols 3 and 4 are read, which are what Python 3 has written by default.

    Raises:
        DataError: the file is missing, too large, or holds anything but one array of numbers.
    """
    raw = contents(path)
    try:
        table = _array(_Reader(io.BytesIO(raw)).load())
    except DataError:
        raise
    except Exception as error:
        # a damaged pickle can raise anything
        raise DataError(
            f"expected one pickled array in {path}, got something else ({error}): refused"
        ) from error
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"expected rows of features and a label in {path}, got {table.shape}")
    return Records(table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64))


def _array(told: object) -> np.ndarray:
    if not isinstance(told, _Told):
        raise DataError(f"expected one array, got a {type(told).__name__}: refused")
    return told.array()


class _Told:
    """What a pickle says of an array."""

    def __init__(self, *_: Any) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def array(self) -> np.ndarray:
        """The array, made of the plain bytes alone."""
        _, shape, dtype, fortran, raw = self._state
        if not isinstance(dtype, _ToldType) or not isinstance(raw, bytes):
            raise DataError("expected an array of plain numbers, got one of objects: refused")
        kind = dtype.numpy()
        if [type(n) for n in shape] != [int] * len(shape) or min(shape, default=0) < 0:
            raise DataError(f"expected the shape of an array, got {shape!r}: refused")
        flat = np.frombuffer(raw, kind)
        return flat.reshape(shape, order="F" if fortran else "C")


class _ToldType:
    """What a pickle says of a type of numbers."""

    def __init__(self, name: Any, *_: Any) -> None:
        self._name = name
        self._order = "<"

    def __setstate__(self, state: Any) -> None:
        self._order = state[1]

    def numpy(self) -> np.dtype[Any]:
        """The type, if it is one of numbers."""
        known = {f"{kind}{size}" for kind in "fiu" for size in (1, 2, 4, 8)} - {"f1"} | {"b1"}
        if self._name not in known or self._order not in ("<", ">", "|", "="):
            raise DataError(f"expected a type of numbers, got {self._name!r}: refused")
        order = "=" if self._order == "|" else self._order
        kind: np.dtype[Any] = np.dtype(self._name).newbyteorder(order)
        return kind


class _Reader(pickle.Unpickler):
    """Knows the words for an array, and no other."""

    def find_class(self, module: str, name: str, /) -> Any:
        words = {
            ("multiarray", "_reconstruct"): _Told,
            ("numpy", "ndarray"): _Told,
            ("numpy", "dtype"): _ToldType,
        }
        package, _, last = module.rpartition(".")
        if (last, name) in words and package in ("", "numpy.core", "numpy._core"):
            return words[last, name]
        raise DataError(f"expected an array of numbers, got {module}.{name}: refused")

    def persistent_load(self, pid: Any, /) -> Any:
        raise DataError(f"expected an array of numbers, got a reference to {pid!r}: refused")


def contents(path: Path) -> bytes:
    """All of a file of reasonable size.

    Raises:
        DataError: it is missing, or too large.
    """
    if not path.is_file():
        raise DataError(f"expected a file at {path}, there is none: check the folder")
    if path.stat().st_size > LARGEST:
        raise DataError(f"expected at most {LARGEST} bytes in {path}: refused")
    return path.read_bytes()
