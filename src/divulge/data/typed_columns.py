"""Columns of formats that have types: numbers as they are, and texts that stand for numbers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from divulge.data.cells import cell_error
from divulge.data.number_texts import Notation, NotationEvidence, parse_number


def parse_column(
    path: Path, name: str, cells: Sequence[Any], notation: Notation, above: int = 0
) -> Float[np.ndarray, " records"]:
    """Numbers of a column, true and false as 1 and 0, missing ones NaN.

    Args:
        path: the file, for messages.
        name: the column.
        cells: numbers, texts, truth values or None.
        notation: of the texts.
        above: how many cells of the column precede these.

    Raises:
        DataError: a cell holds something else.
    """
    numbers = np.empty(len(cells))
    known: dict[Any, float] = {None: np.nan}  # a small file may hold a long text in each row
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = parse_number(notation.plain(str(cell)))
            except ValueError as error:
                raise cell_error(path, name, above + row, "a number", cell) from error
        numbers[row] = known[cell]
    return numbers


def see_texts(evidence: NotationEvidence, cells: Iterable[Any], above: int) -> None:
    """Look at those cells that are texts."""
    evidence.see((cell if isinstance(cell, str) else "" for cell in cells), above)


def as_text(cell: Any) -> str:
    """A cell as a text, empty where there is none."""
    return "" if cell is None else str(cell)
