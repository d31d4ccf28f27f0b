"""One wrong cell among right ones is named by its file, column and row."""

import math
from pathlib import Path

import numpy as np
import pytest

from divulge.errors import DataError
from divulge.federation import prediction_tables

NAMES = ("p_0", "p_1", "label", "relevant", "external")
ROW = (0.25, 0.75, 1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("column", "cell", "wanted"),
    [
        (1, math.nan, "a number"),
        (2, math.nan, "a class number, 0, 1, 2..."),
        (2, math.inf, "a class number, 0, 1, 2..."),
        (2, -1.0, "a class number, 0, 1, 2..."),
        (2, 0.5, "a class number, 0, 1, 2..."),
        (3, 2.0, "0 or 1"),
        (4, math.nan, "0 or 1"),
    ],
)
@pytest.mark.parametrize("row", [0, 1, 3])
def test_a_wrong_cell_is_named(column: int, cell: float, wanted: str, row: int) -> None:
    values = np.tile(ROW, (4, 1))
    prediction_tables._check_columns(Path("a.csv"), NAMES, values, 2)
    values[row, column] = cell
    with pytest.raises(DataError) as error:
        prediction_tables._check_columns(Path("a.csv"), NAMES, values, 2)
    place = f"expected {wanted} in a.csv, column {NAMES[column]!r}, row {row + 1} below"
    assert place in str(error.value)


def test_answers_may_be_any_numbers_and_classes_any_whole_ones() -> None:
    values = np.array([[-5.0, 1e9, 0.0, 0.0, 1.0], [0.0, 2.0, 7.0, 1.0, 0.0]])
    prediction_tables._check_columns(Path("a.csv"), NAMES, values, 2)
    with pytest.raises(DataError, match=r"one row per record in a\.csv"):
        prediction_tables._check_columns(Path("a.csv"), NAMES, values[:0], 2)
