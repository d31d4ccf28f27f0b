"""Complaints about cells and columns of tables, and the limit of their memory."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from divulge._util import untrusted
from divulge.errors import DataError


class CellError(DataError):
    """A cell holds something else than was expected."""


def cell_error(path: Path, column: str, row: int, wanted: str, found: object) -> CellError:
    """The complaint about one cell; rows count from 1 below the header."""
    return CellError(
        f"expected {wanted} in {path}, column {column!r}, row {row + 1} below the header, got "
        f"{found}: correct or drop the row"
    )


def check_names(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a table in which a column is missing, or a name stands twice.

    Args:
        path: the file, for the message.
        header: the names of all columns.
        wanted: the names that must stand there once each.

    Raises:
        DataError: one of them is missing, or stands there twice.
    """
    counts = Counter(header)
    for name in wanted:
        if counts[name] != 1:
            raise DataError(
                f"expected one column {name!r} in {path}, got {counts[name]} among "
                f"{', '.join(header[:20])}: name it as it is called there, or rename them"
            )


def check_unpacked(path: Path, size: int) -> None:
    """Refuse columns that take too much memory.

    Raises:
        DataError: they take more bytes than the limit.
    """
    untrusted.check_size(
        size, untrusted.MAX_DATA_BYTES, f"columns that {path} unpacks to", DataError
    )
