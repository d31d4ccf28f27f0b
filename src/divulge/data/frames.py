"""Read tables with texts, dates and empty cells as data frames, all files of an audit alike.

A column has one type in all files. In CSV it is decided by the cells of all of them: whole numbers,
numbers, or true and false where every cell is one, else texts exactly as they stand: a postcode
01234 keeps its zero, and so does every other one of its column. Cells that `pandas.read_csv` takes
for missing are missing. Dates in CSV are texts. In Parquet columns have the types of the file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from divulge._util.extras import name_missing_extra
from divulge.data import tables
from divulge.errors import DataError

Kind = Literal["whole", "number", "bool", "time", "text"]

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]{0,17})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False,
             "false": False}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column in all files."""

    kind: Kind
    gaps: bool
    """Whether some cell is missing."""


def column_types(paths: Sequence[Path]) -> dict[str, ColumnType]:
    """The type of each column, decided by all files together.

    Raises:
        DataError: a file is damaged, a row has more or fewer cells than the header, or a column has
            types in the files that cannot be one.
        MissingExtra: a file needs pyarrow, which is not installed.
    """
    kinds: dict[str, set[Kind]] = {}
    gaps: set[str] = set()
    for path in paths:
        for name, column in tables.read_batches(path):
            here = kinds.setdefault(name, set())
            types, missing = _kinds(column)
            here |= types
            if missing:
                gaps.add(name)
            if "time" in here and len(here) > 1:
                raise DataError(
                    f"expected dates in column {name!r} of all files, got other cells in {path} or "
                    "in a file before it: save all as Parquet, or the dates as texts"
                )
    return {name: ColumnType(_join(types), name in gaps) for name, types in kinds.items()}


def read_frame(path: Path, types: Mapping[str, ColumnType]) -> Any:
    """The table as a pandas DataFrame.

    Args:
        path: a table.
        types: of its columns, as `column_types` decided.

    Raises:
        DataError: see `column_types`.
        MissingExtra: pandas is not installed, or pyarrow where the file needs it.
    """
    with name_missing_extra():
        import pandas as pd
    parts: dict[str, list[np.ndarray]] = {name: [] for name in tables.read_header(path)}
    once: dict[str, str] = {}
    for name, cells in tables.read_batches(path):
        parts[name].append(_array(cells, types[name], once))
    columns = {
        name: np.concatenate(arrays) if arrays else np.zeros(0) for name, arrays in parts.items()
    }
    alike: dict[np.dtype[Any], list[str]] = {}
    for name, column in columns.items():
        alike.setdefault(column.dtype, []).append(name)
    # columns of one type together: a series for each would take long
    blocks = [
        pd.DataFrame(np.column_stack([columns[n] for n in names]), columns=names, dtype=dtype)
        for dtype, names in alike.items()
    ]
    return pd.concat(blocks, axis=1)[list(columns)] if blocks else pd.DataFrame()


def _kinds(cells: Sequence[Any]) -> tuple[set[Kind], bool]:
    """The kinds that occur, and whether a cell is missing."""
    different = set(cells)
    missing = None in different
    return {_kind(cell) for cell in different - {None}}, missing


def _kind(cell: Any) -> Kind:
    if not isinstance(cell, str):
        if isinstance(cell, bool):
            return "bool"
        if isinstance(cell, int | float):
            return "whole" if isinstance(cell, int) else "number"
        return "time" if hasattr(cell, "isoformat") else "text"
    cell = cell.strip()
    if _WHOLE.fullmatch(cell):
        return "whole"
    if _NUMBER.fullmatch(cell):
        return "number"
    return "bool" if cell in _BOOLEANS else "text"


def _join(kinds: set[Kind]) -> Kind:
    """The one type of a column whose cells are of these kinds; numbers where all are missing."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds <= {"whole", "number"} else "text"


def _array(cells: Sequence[Any], column: ColumnType, once: dict[str, str]) -> np.ndarray:
    """Cells in the type of their column; equal texts are one object."""
    if column.kind == "time":
        return np.array(cells, dtype="datetime64[us]")
    if column.kind in ("whole", "number"):
        whole = column.kind == "whole" and not column.gaps
        if whole:
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    array = np.empty(len(cells), dtype=object)
    if column.kind == "bool":
        array[:] = [np.nan if c is None else c if c is True or c is False else _BOOLEANS[c.strip()]
                    for c in cells]  # fmt: skip
        return array if column.gaps else array.astype(bool)
    texts = (None if cell is None else str(cell) for cell in cells)
    array[:] = [np.nan if text is None else once.setdefault(text, text) for text in texts]
    return array
