"""What the cells of a table of predictions mean: which class, and who is a member."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64

from divulge.data import tables
from divulge.errors import DataError

Names = tuple[str, ...]

MEMBER_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "member", "train", "in"), True),
    **dict.fromkeys(("0", "false", "no", "nonmember", "non-member", "test", "out"), False),
}
"""Values of a member column that need no explanation, in lower case."""

_LISTED = 10
"""Values that a message names."""


def matched_names(pattern: str, columns: Sequence[str]) -> Names:
    """What the star of a pattern stands for in each column: ``cat`` in ``p_cat``.

    Empty where the pattern has not one star alone, or two columns would have one name.

    Examples:
        >>> matched_names("p_*", ["p_cat", "p_dog"])
        ('cat', 'dog')
    """
    before, star, after = pattern.partition("*")
    if not star or any(sign in before + after for sign in "*?["):
        return ()
    names = tuple(name[len(before) : len(name) - len(after)].strip() for name in columns)
    return names if len(set(names)) == len(names) else ()


def read_classes(
    path: Path, column: str, cells: Sequence[str], columns: Names, class_names: Names, classes: int
) -> tuple[Int64[np.ndarray, " records"], Names]:
    """The number of each cell's class, and the name of each class; without names, numbers.

    Args:
        path: the file, for messages.
        column: where the cells are.
        cells: names or numbers of classes.
        columns: the names of the classes by the columns with their probabilities.
        class_names: the names that the user gave, in the order of the columns.
        classes: how many columns there are.

    Raises:
        DataError: a cell is empty, or is neither a known name nor the number of a column.
    """
    cells = _all_plain(cells)
    _refuse_empty(path, column, cells, "a class")
    found = set(cells)
    for names in (columns, class_names):
        # one column is class 1 of two, whatever it is called
        if len(names) == classes and found <= set(names):
            numbered = names == tuple(map(str, range(classes)))
            return _positions(cells, names), () if numbered else names
    values = _as_numbers(cells)
    if values is None:
        raise _unknown_class(path, column, cells, columns, class_names)
    for wanted, right in (
        ("a class number, 0, 1, 2...", (values >= 0) & (values == np.floor(values))),
        (f"a class below {classes}", values < classes),
    ):
        if not right.all():
            row = int(right.argmin())
            raise tables.cell_error(path, column, row, wanted, cells[row])
    return values.astype(np.int64), ()


def read_predicted_classes(
    path: Path,
    columns: tuple[str, str],
    predicted: Sequence[str],
    labels: Sequence[str],
    class_names: Names,
) -> tuple[Int64[np.ndarray, " records"], Int64[np.ndarray, " records"], Names, int]:
    """Predicted and true classes as numbers, the name of each class, and how many there are.

    Args:
        path: the file, for messages.
        columns: the names of the columns with the two.
        predicted: a cell for each record.
        labels: a cell for each record.
        class_names: the names that the user gave; without any, those that occur, sorted.

    Raises:
        DataError: a cell is empty, is no class that the user named, or some are numbers and others
            are not.
    """
    told, true = _all_plain(predicted), _all_plain(labels)
    for column, cells in zip(columns, (told, true), strict=True):
        _refuse_empty(path, column, cells, "a class")
    numbers = _as_numbers([*told, *true])
    names: Names = ()
    if numbers is None or set(told) | set(true) <= set(class_names):
        names = class_names or tuple(sorted({*told, *true}))
        classes = len(names)
    elif (numbers < 0).any() or (numbers != np.floor(numbers)).any():
        raise DataError(
            f"expected one column of predicted classes in {path}, got numbers in {columns[0]} and "
            f'{columns[1]} that are no class numbers: pass output="probabilities", or the column '
            "in probabilities="
        )
    else:
        classes = max(len(class_names), 2, int(numbers.max()) + 1)
    both = []
    for column, cells in zip(columns, (told, true), strict=True):
        both.append(read_classes(path, column, cells, (), names, classes)[0])
    return both[0], both[1], names, max(2, classes)


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
    _refuse_empty(path, column, cells, "a value that says who is a member")
    found = sorted(set(cells))
    shown = ", ".join(repr(value[:40]) for value in found[:_LISTED])
    where = f"in {path}, column {column!r}"
    if member_value is not None:
        if _plain(member_value) not in found or len(found) > 2:
            raise DataError(
                f"expected {member_value!r} and one other value {where}, got {shown}: correct "
                "member_value, or drop the rows that are neither members nor non-members"
            )
        member = np.array([cell == _plain(member_value) for cell in cells])
    elif all(value.lower() in MEMBER_WORDS for value in found):
        once = {value: MEMBER_WORDS[value.lower()] for value in found}
        member = np.array([once[cell] for cell in cells])
    elif len(found) == 2:
        raise DataError(
            f"expected to know which value means a member {where}, got {shown}: pass "
            f"member_value={found[0]!r} or member_value={found[1]!r}"
        )
    else:
        row = next(k for k, cell in enumerate(cells) if cell.lower() not in MEMBER_WORDS)
        wanted = "1 or 0, true or false, train or test, or two values and member_value="
        raise tables.cell_error(path, column, row, wanted, repr(cells[row][:40]))
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


def _refuse_empty(path: Path, column: str, cells: Sequence[str], wanted: str) -> None:
    if not cells:
        raise DataError(f"expected one row per record in {path}, got none: check the export")
    if "" in cells:
        raise tables.cell_error(path, column, cells.index(""), wanted, "''")


def _as_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """The cells as numbers, true and false as 1 and 0; None where one is something else."""
    words = {"true": "1", "false": "0"}
    try:
        once = {cell: float(words.get(cell.lower(), cell)) for cell in set(cells)}
    except ValueError:
        return None
    values = np.array([once[cell] for cell in cells])
    return values if np.isfinite(values).all() else None


def _positions(cells: Sequence[str], names: Names) -> Int64[np.ndarray, " records"]:
    at = {name: number for number, name in enumerate(names)}
    return np.array([at[cell] for cell in cells], dtype=np.int64)


def _unknown_class(
    path: Path, column: str, cells: Sequence[str], columns: Names, class_names: Names
) -> DataError:
    """Why a text is the name of no class, and the shortest way to say the names."""
    fitting = max((class_names, columns), key=lambda names: len(set(cells) & set(names)))
    fitting = fitting if set(cells) & set(fitting) else ()
    row = next(k for k, cell in enumerate(cells) if cell not in fitting)
    place = f"in {path}, column {column!r}, row {row + 1} below the header"
    if not fitting:
        return DataError(
            f"expected a class number or the name of a class {place}, got {cells[row][:40]!r}: "
            "pass class_names, the classes in the order of the columns with their probabilities"
        )
    return DataError(
        f"expected one of {', '.join(fitting[:_LISTED])} {place}, got {cells[row][:40]!r}: pass "
        "class_names, the classes in the order of the columns with their probabilities, or call "
        "these columns by their classes, such as p_cat and p_dog"
    )
