"""A published table as settings, and the list of all of them.

A paper's ``tables.py`` holds a `Table` for each of its tables: the rows, what the paper says of
them, and the name of the function that measures a row.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from divulge.errors import SpecError, did_you_mean

Size = Literal["small", "medium", "full"]
Kind = Literal["bounded", "clustered", "normal", "p-value"]
"""How the units of a column become one figure; see `divulge.reproduce.units.estimate`."""

TABLES = {
    "decaf-table3": "divulge.reproduce.papers.decaf.tables:TABLE_3",
    "decaf-table4": "divulge.reproduce.papers.decaf.tables:TABLE_4",
    "decaf-table5": "divulge.reproduce.papers.decaf.tables:TABLE_5",
    "decaf-table6": "divulge.reproduce.papers.decaf.tables:TABLE_6",
    "decaf-table7": "divulge.reproduce.papers.decaf.tables:TABLE_7",
    "decaf-table11": "divulge.reproduce.papers.decaf.tables:TABLE_11",
    "decaf-table14": "divulge.reproduce.papers.decaf.tables:TABLE_14",
    "decaf-figure6": "divulge.reproduce.papers.decaf.tables:FIGURE_6",
    "decaf-figure8": "divulge.reproduce.papers.decaf.tables:FIGURE_8",
    "decaf-figure13": "divulge.reproduce.papers.decaf.tables:FIGURE_13",
    "dap-table1": "divulge.reproduce.papers.dap.tables:TABLE_1",
    "dap-table2": "divulge.reproduce.papers.dap.tables:TABLE_2",
    "dap-table3": "divulge.reproduce.papers.dap.tables:TABLE_3",
    "dap-table4": "divulge.reproduce.papers.dap.tables:TABLE_4",
    "nist-table2": "divulge.reproduce.papers.nist.tables:TABLE_2",
    "nist-table3": "divulge.reproduce.papers.nist.tables:TABLE_3",
    "raifle-table5": "divulge.reproduce.papers.raifle.tables:TABLE_5",
    "raifle-table6": "divulge.reproduce.papers.raifle.tables:TABLE_6",
    "raifle-table7": "divulge.reproduce.papers.raifle.tables:TABLE_7",
    "raifle-table9": "divulge.reproduce.papers.raifle.tables:TABLE_9",
    "raifle-table10": "divulge.reproduce.papers.raifle.tables:TABLE_10",
    "raifle-table11": "divulge.reproduce.papers.raifle.tables:TABLE_11",
    "raifle-table8": "divulge.reproduce.papers.raifle.tables:TABLE_8",
    "raifle-table12": "divulge.reproduce.papers.raifle.tables:TABLE_12",
    "raifle-table15": "divulge.reproduce.papers.raifle.tables:TABLE_15",
    "mrad-fashion-mnist": "divulge.reproduce.papers.mrad.tables:FASHION_MNIST",
    "mrad-location30": "divulge.reproduce.papers.mrad.tables:LOCATION30",
    "mrad-cifar-10": "divulge.reproduce.papers.mrad.tables:CIFAR_10",
    "mrad-questions": "divulge.reproduce.papers.mrad.tables:QUESTIONS",
}
"""Name to ``module:symbol``: the only list. A table is its settings and one line here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    name: str
    settings: Mapping[str, Any]
    """What the measuring function is given beside seed and size; JSON can hold it."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """Published values by column, where there are any."""
    by_definition: tuple[str, ...] = ()
    """Columns whose value is the same whatever is measured, such as the baseline less itself."""


@dataclass(frozen=True, slots=True)
class Table:
    """One published table."""

    title: str
    source: str
    """The paper, and the table's number in it."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    work: str
    """``module:function``: (seed, size, **settings) to values by column; their mean is shown."""
    units: str
    """What was drawn independently, in the plural: an interval counts each once."""
    seeds: Mapping[Size, int]
    """How many."""
    minutes: Mapping[Size, int]
    """About how long it takes one core."""
    differs: Mapping[Size, str]
    """What is not as in the paper."""
    nested: bool = True
    """Every seed has the same units, in the same order, and its values are one a unit. Otherwise
    every seed is one unit, and its values are that unit's trials."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """By column; ``bounded`` unless named."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Names of rows that are measured on the same units: of each pair the first less the second
    is shown too, unit by unit."""
    common: tuple[str, ...] = ()
    """Columns of what is attacked and not of the attack: the rows of a pair have them in common."""
    largest: Mapping[str, float] = field(default_factory=dict)
    """Of columns whose values may exceed 1: no interval goes beyond."""
    smallest: Mapping[str, float] = field(default_factory=dict)
    """Of columns whose values may be below 0."""
    keeps: bool = False
    """The measuring function is given ``folder`` too, for what several rows need."""
    drawn: tuple[str, ...] = ()
    """Rows that are drawn as curves over the columns that begin with a number."""
    measures: str = "Ours"
    """What those columns hold, in a word: the title of the curves' axis."""
    deviations: bool = False
    """How far values spread is shown too, as the paper does."""


def find(name: str) -> Table:
    """The table of this name.

    Raises:
        SpecError: there is none.
    """
    if name not in TABLES:
        raise SpecError(f"expected a table, got {name!r}: {did_you_mean(name, TABLES)}")
    module, _, symbol = TABLES[name].partition(":")
    table: Table = getattr(importlib.import_module(module), symbol)
    return table
