"""Keep many answers without holding them: on the disk, from which they are read by parts."""

import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import final

import numpy as np
from jaxtyping import Float64, Int

from divulge.errors import TargetError

HELD = 2**26
"""Bytes of answers that are kept in memory."""

PART = 2**20
"""Numbers that are read at a time."""

Part = Float64[np.ndarray, "_ columns"]


@final
class AnswerFile:
    """Rows of numbers that are read by parts; many lie in a file, which ends with this object.

    The file has no name, is readable by its owner alone, and lies where `tempfile` puts files.

    Args:
        columns: how many numbers a row has.

    Examples:
        >>> rows = AnswerFile.of([np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])], columns=2)
        >>> rows.shape, rows[1:].tolist()
        ((2, 2), [[0.5, 0.5]])
    """

    def __init__(self, columns: int) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115 (ends with self)
        weakref.finalize(self, self._file.close)
        self._rows, self._columns = 0, columns

    @classmethod
    def of(cls, parts: Iterable[Part], columns: int) -> "AnswerFile":
        """Rows that come in parts.

        Raises:
            TargetError: there is no room for them on the disk.
        """
        made = cls(columns)
        for part in parts:
            made.put(made.shape[0], part)
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._rows, self._columns

    def __len__(self) -> int:
        return self._rows

    def put(self, start: int, rows: Part) -> None:
        """Write rows from this row on, over those that are there.

        Raises:
            TargetError: there is no room for them on the disk.
        """
        try:
            self._file.seek(start * self._columns * 8)
            self._file.write(np.ascontiguousarray(rows, np.float64).ravel().view(np.uint8).data)
            self._file.flush()  # else what is still buffered would fail in a later reading
        except OSError as error:
            with suppress(OSError):  # closing writes the rest once more
                self._file.close()
            raise TargetError(
                f"expected room for answers in {tempfile.tempdir or 'a temporary folder'}, got "
                f"{error}: free some space, or set TMPDIR to a folder on a larger disk"
            ) from error
        self._rows = max(self._rows, start + len(rows))

    def __getitem__(self, rows: slice | Int[np.ndarray, " rows"]) -> Part:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self._rows)
            if step == 1:
                self._file.seek(start * self._columns * 8)
                content = bytearray(self._file.read(max(0, stop - start) * self._columns * 8))
                return np.frombuffer(content, np.float64).reshape(-1, self._columns)
            rows = np.arange(start, stop, step)
        chosen = np.empty((len(rows), self._columns))
        for places, answers in find_rows(self, np.asarray(rows)):
            chosen[places] = answers
        return chosen

    def parts(self) -> Iterator[Part]:
        """All rows in their order, some at a time."""
        count = rows_at_once(self._columns)
        return (self[start : start + count] for start in range(0, self._rows, count))


def rows_at_once(columns: int) -> int:
    """How many rows of so many columns are read at a time."""
    return max(1, PART // max(1, columns))


def find_rows(
    answers: np.ndarray | AnswerFile, rows: Int[np.ndarray, " rows"]
) -> Iterator[tuple[Int[np.ndarray, " part"], Part]]:
    """Positions in ``rows`` with the answers in these rows, in the order in which they lie."""
    count = rows_at_once(answers.shape[1])
    order = np.argsort(rows)
    ends = np.cumsum(np.bincount(rows // count, minlength=1)).tolist()
    for number, (begun, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > begun:
            places, start = order[begun:end], number * count
            yield places, answers[start : start + count][rows[places] - start]
