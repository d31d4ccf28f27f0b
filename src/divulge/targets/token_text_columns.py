"""Columns of a table of tokens that say something of each text as a whole."""

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge.data import tables
from divulge.data.typed_columns import as_text
from divulge.errors import DataError
from divulge.targets import token_forms
from divulge.targets.blind_column import is_date, read_moment

TEXT, DATE, LOWERCASE, GRADIENT = "text", "date", "lowercase_logprobs", "gradient_norm"

TEXT_COLUMNS = (LOWERCASE, GRADIENT, TEXT, DATE)
"""The columns by the names under which they are looked for."""


def refuse_cell(path: Path, row: int, column: str, wanted: str, got: str) -> tables.CellError:
    """The error that names a cell of a table; rows count from 0."""
    return tables.CellError(
        f"expected {wanted} in {path}, column {column!r}, row {row + 1}, got {got}: correct the "
        "export, or drop the row"
    )


class TextColumns:
    """Gathers and checks the cells of these columns, as far as a table has them.

    Args:
        path: the table, for messages.
        names: of all its columns.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._path = path
        self._names = [name for name in TEXT_COLUMNS if name in names]
        self.texts: list[str] = []
        self._packed: list[int] = []
        self._dates: list[float] = []
        self._of_days = False
        self._lists: list[np.ndarray] = []
        self._norms: list[float] = []
        self.bytes = 0
        """How much is held."""

    def add(self, row: int, cells: dict[str, Any]) -> None:
        """Check and keep one row.

        Raises:
            CellError: a cell holds something else.
        """
        keep = {
            TEXT: self._keep_text,
            DATE: self._keep_date,
            LOWERCASE: self._keep_lowercase,
            GRADIENT: self._keep_norm,
        }
        for name in self._names:
            keep[name](row, cells[name])

    def fields(self) -> dict[str, np.ndarray]:
        """What is known of each text, by the names of the fields of `Tokens`.

        Raises:
            DataError: lists of texts in lower case hold no log-probabilities.
        """
        fields = {}
        if self.texts:
            fields["size"] = np.array(self._packed, np.int64)
        if self._lists:
            token_forms.check_lowercase(self._path, LOWERCASE, self._lists)
            fields["lowercase"] = np.array([part.sum() / len(part) for part in self._lists])
        if self._norms:
            fields["gradient_norm"] = np.array(self._norms)
        return fields

    def moments(self) -> Float64[np.ndarray, " texts"] | None:
        """The dates of the texts; None where there are none.

        Raises:
            DataError: all are equal.
        """
        if len(self._dates) > 1 and min(self._dates) == max(self._dates):
            raise DataError(
                f"expected dates that differ between texts in {self._path}, column {DATE!r}, got "
                f"the same in each of {len(self._dates):,} rows: they explain nothing; correct "
                "them, or leave the column out"
            )
        return np.array(self._dates) if self._dates else None

    def _keep_text(self, row: int, text: Any) -> None:
        if not isinstance(text, str):
            raise refuse_cell(self._path, row, TEXT, "a text", type(text).__name__)
        self.texts.append(text)
        # lone surrogates are no UTF-8, and neither are they a reason to stop
        self._packed.append(len(zlib.compress(text.encode("utf-8", "replace"))))
        self.bytes += len(text)

    def _keep_date(self, row: int, cell: Any) -> None:
        text = as_text(cell)
        self._dates.append(read_moment(text))
        if isinstance(cell, bool) or not np.isfinite(self._dates[-1]):
            raise refuse_cell(self._path, row, DATE, "a number or an ISO date", "something else")
        if not row:
            self._of_days = is_date(text)
        if is_date(text) != self._of_days:
            wanted, got = ("a date", "a number")[:: 1 if self._of_days else -1]
            raise refuse_cell(self._path, row, DATE, f"{wanted}, as in the first row,", got)

    def _keep_lowercase(self, row: int, cell: Any) -> None:
        wanted = "a list with the log-probability of every token of the text in lower case"
        if not isinstance(cell, np.ndarray):
            raise refuse_cell(self._path, row, LOWERCASE, wanted, type(cell).__name__)
        values = cell[1:] if np.isnan(cell[:1]).any() else cell  # nothing precedes a first token
        if not len(values) or np.isnan(values).any():
            got = "a token without a number" if len(values) else "none"
            raise refuse_cell(self._path, row, LOWERCASE, wanted, got)
        self._lists.append(values)
        self.bytes += values.nbytes

    def _keep_norm(self, row: int, cell: Any) -> None:
        number = isinstance(cell, int | float) and not isinstance(cell, bool)
        if not number or not math.isfinite(cell) or cell < 0:
            got = f"{cell:g}" if number else type(cell).__name__
            raise refuse_cell(self._path, row, GRADIENT, "a finite norm, 0 at least", got)
        self._norms.append(float(cell))
