"""Define the table of RAIFLE as its authors' code has it, beside the paper's text."""

from typing import NamedTuple

from divulge._util.json import Settings
from divulge_papers.papers.raifle.study import (
    AUTO,
    COLUMNS,
    MATCH,
    RELEASED,
    SEARCHES,
    SEEDS,
    UNITS,
)
from divulge_papers.papers.raifle.tables import MQ2008
from divulge_papers.table import Row, Table

_QUERIES = (4, 8, 16)

_METHODS: dict[str, Settings] = {
    "the authors' code": {"attack": RELEASED, "order": "file"},
    "corrected": {"attack": MATCH},
    "auto": {"attack": AUTO},
}
"""Settings by method; those of the last two are table VII's, whose pieces they share."""


class _Cell(NamedTuple):
    """A cell of table VII, of MQ2008 with informational clicks."""

    hidden: int
    queries: int
    noise: bool = False

    def name(self, method: str) -> str:
        """Name of the cell's row of a method."""
        items = "noise" if self.noise else "as they are"
        return f"{self.hidden or 'no'} hidden, {items}, {self.queries} queries, {method}"

    def row(self, method: str) -> Row:
        """The cell's row of a method, with the paper's figure."""
        settings: Settings = {"data": "mq2008", "hidden": self.hidden, "habit": "informational"}
        more: Settings = {"queries": self.queries, "manipulated": self.noise}
        published = MQ2008[self.hidden, self.noise][_QUERIES.index(self.queries)]
        return Row(self.name(method), {**settings, **more, **_METHODS[method]}, {"AUC": published})


_CELLS = (
    *(_Cell(hidden, queries) for hidden in (0, 4, 8, 16) for queries in _QUERIES),
    _Cell(0, 16, noise=True),
    _Cell(16, 8, noise=True),
)

_NOTE = (
    "MQ2008, informational clicks. The authors' code drops the derivative of the swapped rankings' "
    "probabilities, and its users weigh positions by the order of documents in the file, not by "
    "that shown; corrected has neither fault, and is `match` of raifle-table7."
)

BY_CODE = Table(
    title="RAIFLE as its authors' code has it, and as its text has it",
    source="Pham et al. 2024, table VII, and the released code",
    data=("letor-mq2008",),
    columns=COLUMNS,
    rows=tuple(cell.row(method) for cell in _CELLS for method in _METHODS),
    work="divulge_papers.papers.raifle.study:measure_search",
    units=UNITS,
    seeds=SEEDS,
    pairs=(
        *((cell.name("corrected"), cell.name("the authors' code")) for cell in _CELLS),
        *((cell.name("auto"), cell.name("the authors' code")) for cell in _CELLS),
    ),
    minutes={"small": 3, "paper": 25},
    differs={size: f"{text} {_NOTE}" for size, text in SEARCHES.items()},
)
