"""Files are written atomically, and errors of the operating system become a `StoreError`."""

import contextlib
import errno
import glob
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pydantic

from divulge._util import arrays, untrusted
from divulge._util.json import RepeatedKey, refuse_repeated_keys
from divulge.errors import SpecError, StoreError

T = TypeVar("T")

_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""What NumPy says, without an error number, when it could not write a whole array."""

UNFINISHED = ".writing-"
"""How the names of files begin that are being written."""


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Raise a `StoreError` that says what to do, in place of an error of the operating system.

    Raises:
        StoreError: access to this path is refused, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or _SHORT_WRITE.match(str(error)):
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
    problem = (str(error) or type(error).__name__).splitlines()[0]
    return StoreError(
        f"expected {path} as divulge wrote it, got something else "
        f"({problem}): restore it, or run the audit again"
    )


def write(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash it is whole or absent.

    Raises:
        StoreError: it cannot be written.
    """
    with replace_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes its place when it is whole.

    Raises:
        StoreError: it cannot be written.
    """
    with translate_os_errors(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_unfinished(path))  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def remove_unfinished(path: Path) -> None:
    """Remove what a process that was killed had written of a file that this process alone writes.

    Run folders need no call: whoever holds one removes what is unfinished in it.

    Raises:
        StoreError: it cannot be removed.
    """
    with translate_os_errors(path):
        for file in path.parent.glob(f"{glob.escape(_unfinished(path))}*"):
            if file.is_file() and not file.is_symlink():
                file.unlink(missing_ok=True)


def _unfinished(path: Path) -> str:
    """How the names of files begin that are being written in place of this one."""
    return f"{UNFINISHED}{path.name[:40]}-"  # names may have 255 bytes


def write_within(folder: Path, name: str, data: bytes) -> Path:
    """Write a file of a folder atomically, and return its path.

    The folder itself may be a link. What is in it may come from somebody else: no link in it is
    followed, so that nothing outside is ever written.

    Args:
        folder: a folder that is there.
        name: the path of the file in it; folders that are missing are made for the owner alone.
        data: the content.

    Raises:
        StoreError: it cannot be written, or a folder on the way is a link.
    """
    with translate_os_errors(folder / name):
        path = untrusted.path_within(folder, name, StoreError)
        for between in reversed(path.parents[: len(Path(name).parts) - 1]):
            between.mkdir(mode=0o700, exist_ok=True)
    write(path, data)
    return path


def write_arrays(path: Path, named: dict[str, np.ndarray]) -> None:
    """Write arrays to an ``.npz`` file, atomically.

    Raises:
        StoreError: it cannot be written.
    """
    write(path, pack_arrays(named))


def pack_arrays(named: dict[str, np.ndarray]) -> bytes:
    """Arrays as the bytes of an ``.npz`` file.

    Raises:
        StoreError: the folder for temporary files is full, or cannot be written.
    """
    scratch = Path(tempfile.gettempdir())
    with translate_os_errors(scratch), tempfile.SpooledTemporaryFile(max_size=2**26) as file:
        np.savez(file, allow_pickle=False, **named)
        file.seek(0)
        return file.read()


def read(path: Path) -> bytes:
    """The content of a JSON file, or another small one, in a run folder or a transcript.

    Raises:
        StoreError: there is none, it is no ordinary file, too large, or cannot be read.
    """
    return untrusted.read_file(path, untrusted.MAX_TEXT_BYTES, StoreError, links=False)


def read_arrays(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` file in a run folder by name, each with one dimension.

    Args:
        path: the file.
        names: of arrays that have to be there.

    Raises:
        StoreError: it cannot be read, or holds something else.
    """
    try:
        stored = arrays.read_npz(path, error=StoreError, links=False)
    except arrays.DamagedArrays as error:
        raise damaged_file_error(path, error) from error
    for name in names:
        if name not in stored:
            raise damaged_file_error(path, KeyError(name))
    if any(array.ndim != 1 for array in stored.values()):
        raise damaged_file_error(path, ValueError("an array has more than one dimension"))
    return stored


def map_array(path: Path) -> np.ndarray:
    """The array of an ``.npy`` file in a run folder, read-only and mapped into memory.

    Raises:
        StoreError: it cannot be read, or holds something else.
    """
    try:
        return arrays.map_npy(path, error=StoreError)
    except arrays.DamagedArrays as error:
        raise damaged_file_error(path, error) from error


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
        refuse_repeated_keys(raw)
        return pydantic.TypeAdapter(kind).validate_json(raw)
    except (pydantic.ValidationError, SpecError, RepeatedKey) as error:
        raise damaged_file_error(path, error) from error


def from_python(value: Any, kind: type[T], path: Path) -> T:
    """What JSON held as a value of one kind, checked as strictly as `from_json` does.

    Raises:
        StoreError: it is something else; names the path it came from.
    """
    return from_json(pydantic.TypeAdapter(Any).dump_json(value), kind, path)
