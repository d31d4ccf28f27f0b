"""Files from outside are checked before they are opened: what they are, and how large.

Opening a pipe waits for ever, a device has effects, and a small file can claim to unpack to
petabytes. All that reads a file goes through `open_file` or `read_file`; a library that opens files
itself gets a path that `check_file` has seen.
"""

import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

from divulge.errors import DivulgeError, SpecError

VARIABLE: Final = "DIVULGE_MAX_BYTES"
"""The environment variable that raises every limit to so many bytes."""

COLUMNS_VARIABLE: Final = "DIVULGE_MAX_COLUMNS"
"""The environment variable that raises the limit of columns."""

MAX_COLUMNS: Final = 10**6
"""Largest number of columns of a table, each of which has a name and a type of its own."""

MAX_TEXT_BYTES: Final = 64 * 2**20
"""Largest size of settings and JSON, which become many small objects."""

MAX_DATA_BYTES: Final = 16 * 2**30
"""Largest size of records, models and arrays, packed and unpacked."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


def byte_limit(usual: int) -> int:
    """The usual limit, or that of the environment variable where it is higher.

    Raises:
        SpecError: the variable holds something else than a number of bytes.
    """
    return max(usual, _read_variable(VARIABLE, "bytes"))


def _read_variable(name: str, unit: str) -> int:
    text = os.environ.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise SpecError(f"expected a number of {unit} in {name}, got {text[:40]!r}: correct it")
    return int(text)


def check_size(size: int, usual: int, what: str, error: type[DivulgeError]) -> None:
    """Refuse what is larger than a limit.

    Args:
        size: in bytes.
        usual: the limit, unless the environment variable raises it.
        what: what has this size, for the message.
        error: the class of the error.

    Raises:
        DivulgeError: of this class.
    """
    limit = byte_limit(usual)
    if size > limit:
        raise error(
            f"expected at most {limit:,} bytes of {what}, got {size:,}: make it smaller, or if you "
            f"trust it, set {VARIABLE}={size}"
        )


def check_columns(count: int, what: str, error: type[DivulgeError]) -> None:
    """Refuse a table with more columns than the limit.

    Args:
        count: the number of columns.
        what: what has so many columns, for the message.
        error: the class of the error.

    Raises:
        DivulgeError: of this class.
    """
    limit = max(MAX_COLUMNS, _read_variable(COLUMNS_VARIABLE, "columns"))
    if count > limit:
        raise error(
            f"expected at most {limit:,} columns in {what}, got {count:,}: leave out columns that "
            f"are not needed, or if you trust the file, set {COLUMNS_VARIABLE}={count}"
        )


def check_file(
    path: Path, usual: int, error: type[DivulgeError], *, links: bool = True
) -> os.stat_result:
    """Refuse what is no ordinary file, or is too large; it is not opened.

    Args:
        path: the file.
        usual: its largest size in bytes, unless the environment variable raises it.
        error: the class of the error.
        links: whether it may be a link to a file. A user's own path may; within a folder that
            somebody else has made, none is followed.

    Raises:
        DivulgeError: of this class.
    """
    try:
        status = path.stat() if links else path.lstat()
    except (OSError, ValueError) as problem:
        raise error(_explain(path, problem)) from problem
    _check(status, path, usual, error)
    return status


def open_file(
    path: Path, usual: int, error: type[DivulgeError], *, links: bool = True
) -> BufferedReader:
    """Open a file for reading; arguments and errors as of `check_file`."""
    check_file(path, usual, error, links=links)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NONBLOCK", 0)  # were it replaced by a pipe just now
    flags |= 0 if links else getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.fdopen(os.open(path, flags), "rb")
    except OSError as problem:
        raise error(_explain(path, problem)) from problem
    try:
        _check(os.fstat(file.fileno()), path, usual, error)
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: Path, usual: int, error: type[DivulgeError], *, links: bool = True) -> bytes:
    """The whole content of a file; arguments and errors as of `check_file`."""
    with open_file(path, usual, error, links=links) as file:
        try:
            content = file.read(byte_limit(usual) + 1)
        except OSError as problem:
            raise error(_explain(path, problem)) from problem
    check_size(len(content), usual, str(path), error)  # a file that grows while it is read
    return content


def path_within(folder: Path, name: str, error: type[DivulgeError]) -> Path:
    """The path of something in a folder that somebody else may have made, not by way of a link.

    Args:
        folder: the folder, which may be a link itself: the user named it.
        name: a path in it.
        error: the class of the error.

    Raises:
        DivulgeError: a folder on the way is a link, or the name leads out of the folder.
    """
    path = folder / name
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        raise error(f"expected a path within {folder}, got {name[:200]!r}: correct it")
    for depth in range(1, len(parts)):
        between = folder.joinpath(*parts[:depth])
        if os.path.islink(between):  # noqa: PTH114 (false where the path cannot exist at all)
            raise error(
                f"expected a folder at {between}, got a link: copy what it points to into its place"
            )
    return path


def _check(status: os.stat_result, path: Path, usual: int, error: type[DivulgeError]) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise error(f"expected a file at {path}, got {kind}: put the file itself there")
    check_size(status.st_size, usual, str(path), error)


def _explain(path: Path, problem: OSError | ValueError) -> str:
    place = str(path) if len(str(path)) < 500 else f"{str(path)[:200]}...{str(path)[-100:]}"
    if isinstance(problem, (FileNotFoundError, NotADirectoryError)):
        return f"expected a file at {place}, there is none: check the path"
    reason = getattr(problem, "strerror", None) or problem
    return f"expected access to {place}, got {reason}: check the path and its permissions"
