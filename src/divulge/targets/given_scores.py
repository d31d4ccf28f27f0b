"""Read a table that has one number a record: its loss, or its score by a membership attack."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from divulge._util.arguments import check_arguments
from divulge.core import Need
from divulge.core.records import LARGEST_VALUE
from divulge.data import tables
from divulge.errors import DataError
from divulge.targets.member_column import read_members
from divulge.targets.recorded import TableTarget

ScoreKind = Literal["loss", "score"]
"""What the number is: a loss is low for members, a score is high."""


@check_arguments
@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The content of a table of losses or scores, one row a record."""

    score: Float64[np.ndarray, " records"]
    """Higher means more likely a member: the score, or minus the loss."""
    member: Bool[np.ndarray, " records"]
    how: str
    """How the number was understood, in a sentence or two."""
    membership: str
    """Which value was taken for a member, in a sentence."""
    endless: int = 0
    """How many records have an infinite loss, or a score of minus infinity."""

    @property
    def target(self) -> TableTarget:
        """The table as a target that is asked with row numbers."""
        return TableTarget(self.score[:, None], Need.SCORES)


def read_scores(
    path: Path,
    kind: ScoreKind,
    column: str,
    *,
    member: str = "member",
    member_value: str | None = None,
    own_id: str | None = None,
) -> ScoreTable:
    """Read a table with a loss or a score a record; its other columns are not read.

    An infinite loss, or a score of minus infinity, is that of a record to which the model gives no
    probability: it ranks below all finite ones, and equal to others like it.

    Args:
        path: the file, whose first line names the columns if it is text.
        kind: whether the number is a loss or a score.
        column: the column that holds it.
        member: as for `divulge.targets.predictions.read_predictions`.
        member_value: likewise.
        own_id: the column with the user's own ids.

    Raises:
        DataError: the file cannot be read, a column is missing or holds something else, or all
            records have the same number.
        MissingExtra: the file needs pyarrow, which is not installed.
    """
    header = tables.read_header(path)
    if missing := [name for name in (column, member) if name not in header]:
        raise DataError(
            f"expected a column {missing[0]!r} in {path}, got {', '.join(header[:20])}: pass "
            f"{kind}= and member= as they are called there"
        )
    if column in (member, own_id):
        other = "the membership" if column == member else "your ids"
        raise DataError(
            f"expected two columns for the {kind} and {other}, got {column!r} for both: pass "
            f"{kind}=, member= and ids as they are called there"
        )
    tables.check_names(path, header, (column, member))
    (cells,) = tables.read_texts(path, member)
    inside, sentence = read_members(path, member, cells, member_value)
    numbers = tables.read_columns(path, [column])[:, 0]
    if len(numbers) != len(inside):
        raise DataError(
            f"expected one row per record in {path}, got {len(numbers)} numbers in {column!r} and "
            f"{len(inside)} in {member!r}: check the export"
        )
    score, endless = _rank_endless(path, kind, column, numbers)
    means = "a lower loss" if kind == "loss" else "a higher score"
    how = f"The {kind} in column {column!r} is ranked as it is: {means} says member."
    if endless:
        last = "an infinite loss" if kind == "loss" else "a score of minus infinity"
        how += f" {endless:,} of {len(score):,} records have {last} and rank last, as equals."
    return ScoreTable(score, inside, how, sentence, endless)


def _rank_endless(
    path: Path, kind: ScoreKind, column: str, numbers: Float64[np.ndarray, " records"]
) -> tuple[Float64[np.ndarray, " records"], int]:
    """The scores, all finite and in order, and how many stood for minus infinity."""
    score = (-numbers if kind == "loss" else numbers) + 0.0  # no minus zero
    endless = score == -np.inf
    usable = (np.abs(score) <= LARGEST_VALUE) | endless  # also false for NaN
    if not usable.all():
        row = int(usable.argmin())
        raise _refuse_cell(path, kind, column, row, float(numbers[row]))
    if score.min() == score.max():
        raise DataError(
            f"expected a {kind} that differs between records in {path}, column {column!r}, got "
            f"{tables.show_cell(numbers[0])} in each of {len(numbers):,} rows: it ranks nobody; "
            "check the export, or name another column"
        )
    lowest = float(score[~endless].min())
    return np.where(endless, lowest - max(1.0, abs(lowest)), score), int(endless.sum())


def _refuse_cell(path: Path, kind: ScoreKind, column: str, row: int, value: float) -> DataError:
    if np.isnan(value):
        return tables.cell_error(path, column, row, f"a {kind}", value)
    endless = "inf" if kind == "loss" else "-inf"
    return tables.CellError(
        f"expected a {kind} of size {LARGEST_VALUE:g} at most, or {endless}, in {path}, column "
        f"{column!r}, row {row + 1} below the header, got {tables.show_cell(value)}: compute it in "
        "float64 and from logits, where the surest records stay finite and in order, or take its "
        "logarithm"
    )
