"""Read who is a member from the cells of a table of predictions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from divulge.data import tables
from divulge.errors import DataError
from divulge.targets.label_columns import LISTED, refuse_empty

MEMBER_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "member", "train", "in"), True),
    **dict.fromkeys(("0", "false", "no", "nonmember", "non-member", "test", "out"), False),
}
"""Values of a member column that need no explanation, in lower case."""


def read_members(
    path: Path, column: str, cells: Sequence[str], member_value: str | None
) -> tuple[Bool[np.ndarray, " records"], str]:
    """Who is a member, and a sentence that says which values were taken for that.

    Args:
        path: the file, for messages.
        column: where the cells are.
        cells: one a record.
        member_value: the value of members; every other record has the one other value. Without it,
            `MEMBER_WORDS` are understood.

    Raises:
        DataError: a cell is empty, or nobody can know which value means a member.
    """
    cells = _all_plain(cells)
    refuse_empty(path, column, cells, "a value that says who is a member")
    distinct = sorted(set(cells))
    each = dict.fromkeys(tables.show_label(value, distinct) for value in distinct)
    shown = ", ".join(list(each)[:LISTED])
    where = f"in {path}, column {column!r}"
    if member_value is not None:
        if _plain(member_value) not in distinct or len(distinct) > 2:
            raise DataError(
                f"expected {member_value!r} and one other value {where}, got {shown}: correct "
                "member_value, or drop the rows that are neither members nor non-members"
            )
        member = np.array([cell == _plain(member_value) for cell in cells])
    elif all(value.lower() in MEMBER_WORDS for value in distinct):
        once = {value: MEMBER_WORDS[value.lower()] for value in distinct}
        member = np.array([once[cell] for cell in cells])
    elif len(distinct) == 2:
        raise DataError(
            f"expected to know which value means a member {where}, got {shown}: pass "
            f"member_value={distinct[0]!r} or member_value={distinct[1]!r}"
        )
    else:
        row = next(k for k, cell in enumerate(cells) if cell.lower() not in MEMBER_WORDS)
        wanted = "1 or 0, true or false, train or test, or two values and member_value="
        raise tables.cell_error(path, column, row, wanted, cells[row], distinct)
    meant = set(zip(cells, member.tolist(), strict=True))
    inside, outside = (sorted(c for c, m in meant if m is side) for side in (True, False))
    return member, (
        f"In column {column!r}, {_either(inside)} means a member, and {_either(outside)} a "
        "non-member."
    )


def _either(values: Sequence[str]) -> str:
    return " or ".join(repr(value) for value in values) or "no value"


def _plain(cell: str) -> str:
    """A cell without spaces around it; a whole number without its fraction: ``1.0`` is ``1``."""
    cell = cell.strip()
    whole, dot, fraction = cell.partition(".")
    return whole if dot and fraction and not fraction.strip("0") and whole.isdecimal() else cell


def _all_plain(cells: Sequence[str]) -> list[str]:
    once = {cell: _plain(cell) for cell in set(cells)}
    return [once[cell] for cell in cells]
