"""A published table as settings, and the list of all of them.

A table's file holds one `Table` called ``TABLE``: its rows, what the paper says of them, and the
name of the function that measures a row.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from divulge.errors import SpecError, did_you_mean

Size = Literal["small", "medium", "full"]
Kind = Literal["bounded", "clustered", "normal", "p-value"]
"""How the units of a column become one figure; see `divulge.experiments.units.estimate`."""

TABLES = {
    "decaf-table3": "divulge.experiments.decaf_table3",
    "decaf-table4": "divulge.experiments.decaf_table4",
    "decaf-table5": "divulge.experiments.decaf_table5",
    "decaf-table6": "divulge.experiments.decaf_table6",
    "decaf-table7": "divulge.experiments.decaf_table7",
    "decaf-table11": "divulge.experiments.decaf_table11",
    "decaf-table14": "divulge.experiments.decaf_table14",
    "decaf-figure6": "divulge.experiments.decaf_figure6",
    "decaf-figure8": "divulge.experiments.decaf_figure8",
    "decaf-figure13": "divulge.experiments.decaf_figure13",
    "dap-table1": "divulge.experiments.dap_table1",
    "dap-table2": "divulge.experiments.dap_table2",
    "dap-table3": "divulge.experiments.dap_table3",
    "dap-table4": "divulge.experiments.dap_table4",
    "nist-table2": "divulge.experiments.nist_table2",
    "nist-table3": "divulge.experiments.nist_table3",
    "raifle-table5": "divulge.experiments.raifle_table5",
    "raifle-table6": "divulge.experiments.raifle_table6",
    "raifle-table7": "divulge.experiments.raifle_table7",
    "raifle-table9": "divulge.experiments.raifle_table9",
    "raifle-table10": "divulge.experiments.raifle_table10",
    "raifle-table11": "divulge.experiments.raifle_table11",
    "raifle-table8": "divulge.experiments.raifle_table8",
    "raifle-table12": "divulge.experiments.raifle_table12",
    "raifle-table15": "divulge.experiments.raifle_table15",
    "mrad-fashion-mnist": "divulge.experiments.mrad_fashion_mnist",
    "mrad-location30": "divulge.experiments.mrad_location30",
    "mrad-cifar-10": "divulge.experiments.mrad_cifar_10",
    "mrad-questions": "divulge.experiments.mrad_questions",
}
"""Name to module: the only list. A table is its file and one line here."""


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
    table: Table = importlib.import_module(TABLES[name]).TABLE
    return table
