"""Files that are whole or absent, and what the operating system refuses said in our words."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from leakscope.errors import StoreError


@contextlib.contextmanager
def said(path: Path) -> Iterator[None]:
    """Say in our words what the operating system refuses.

    Raises:
        StoreError: it did.
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


def write(path: Path, data: bytes) -> None:
    """Write beside the place, then move: after a crash the file is whole or absent.

    Raises:
        StoreError: the operating system refused.
    """
    with said(path):
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
