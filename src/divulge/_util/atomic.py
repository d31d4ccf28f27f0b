"""Files are written atomically, and errors of the operating system become a `StoreError`."""

import contextlib
import errno
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pydantic

from divulge.errors import SpecError, StoreError

T = TypeVar("T")


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Raise a `StoreError` that says what to do, in place of an error of the operating system.

    Raises:
        StoreError: access to this path is refused, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(
                f"expected room for {path}, the disk is full: free some space, then continue with "
                "--resume; what was finished is kept"
            ) from error
        raise StoreError(
            f"expected access to {path}, got {error.strerror or error}: "
            "check the path and its permissions"
        ) from error


def damaged_file_error(path: Path, error: Exception) -> StoreError:
    """The error to raise when a file does not hold what was written."""
    return StoreError(
        f"expected {path} as divulge wrote it, got something else "
        f"({str(error).splitlines()[0]}): restore it, or run the audit again"
    )


def write(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash it is whole or absent.

    Raises:
        StoreError: it cannot be written.
    """
    with translate_os_errors(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays to an ``.npz`` file, atomically.

    Raises:
        StoreError: it cannot be written.
    """
    with tempfile.SpooledTemporaryFile(max_size=2**26) as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.seek(0)
        write(path, file.read())


def read_arrays(path: Path, *names: str) -> list[np.ndarray]:
    """Read the named arrays of an ``.npz`` file, each with one dimension, in the order of names.

    Raises:
        StoreError: it cannot be read, or holds something else.
    """
    arrays = read_all_arrays(path)
    for name in names:
        if name not in arrays:
            raise damaged_file_error(path, KeyError(name))
    return [arrays[name] for name in names]


def read_all_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` file by name, each with one dimension.

    Raises:
        StoreError: it cannot be read, or holds something else.
    """
    with translate_os_errors(path):
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive.items())
        except (
            TypeError,
            AttributeError,
            ValueError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
        ) as error:
            raise damaged_file_error(path, error) from error
    if any(array.ndim != 1 for array in arrays.values()):
        raise damaged_file_error(path, ValueError("an array has more than one dimension"))
    return arrays


def to_json(value: T, kind: type[T]) -> str:
    """A value as indented JSON."""
    return pydantic.TypeAdapter(kind).dump_json(value, indent=1).decode() + "\n"


def from_json(raw: bytes, kind: type[T], path: Path) -> T:
    """Read back a value that `to_json` wrote.

    Args:
        raw: the bytes of the file.
        kind: the type of the value.
        path: the file that the bytes come from, for the message.

    Raises:
        StoreError: the bytes hold something else.
    """
    try:
        return pydantic.TypeAdapter(kind).validate_json(raw)
    except (pydantic.ValidationError, SpecError) as error:
        raise damaged_file_error(path, error) from error


def from_python(value: Any, kind: type[T], path: Path) -> T:
    """What JSON held as a value of one kind, checked as strictly as `from_json` does.

    Raises:
        StoreError: it is something else; names the path it came from.
    """
    return from_json(pydantic.TypeAdapter(Any).dump_json(value), kind, path)
