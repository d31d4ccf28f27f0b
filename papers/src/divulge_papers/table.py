"""Describe a published table as settings, and list all tables.

A paper's ``tables.py`` holds a `Table` for each of its tables: the rows, the published
figures, and the name of the function that measures a row.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from divulge._util.json import Settings
from divulge.errors import SpecError, did_you_mean

Size = Literal["small", "paper"]
IntervalKind = Literal["bounded", "clustered", "normal", "p-value"]
"""Method that combines the units of a column; see `divulge_papers.units.estimate`."""

TABLES = {
    "decaf-table3": "divulge_papers.papers.decaf.tables:TABLE_3",
    "decaf-table4": "divulge_papers.papers.decaf.tables:TABLE_4",
    "decaf-table5": "divulge_papers.papers.decaf.tables:TABLE_5",
    "decaf-table6": "divulge_papers.papers.decaf.tables:TABLE_6",
    "decaf-table7": "divulge_papers.papers.decaf.tables:TABLE_7",
    "decaf-table8": "divulge_papers.papers.decaf.tables:TABLE_8",
    "decaf-table11": "divulge_papers.papers.decaf.tables:TABLE_11",
    "decaf-table14": "divulge_papers.papers.decaf.tables:TABLE_14",
    "decaf-figure5": "divulge_papers.papers.decaf.tables:FIGURE_5",
    "decaf-figure6": "divulge_papers.papers.decaf.tables:FIGURE_6",
    "decaf-figure6d": "divulge_papers.papers.decaf.tables:FIGURE_6D",
    "decaf-figure8": "divulge_papers.papers.decaf.tables:FIGURE_8",
    "decaf-figure11": "divulge_papers.papers.decaf.tables:FIGURE_11",
    "decaf-figure13": "divulge_papers.papers.decaf.tables:FIGURE_13",
    "decaf-mixes": "divulge_papers.papers.decaf.tables:MIXES",
    "dap-table1": "divulge_papers.papers.dap.tables:TABLE_1",
    "dap-table2": "divulge_papers.papers.dap.tables:TABLE_2",
    "dap-table3": "divulge_papers.papers.dap.tables:TABLE_3",
    "dap-table4": "divulge_papers.papers.dap.tables:TABLE_4",
    "dap-figure2": "divulge_papers.papers.dap.tables:FIGURE_2",
    "dap-r": "divulge_papers.papers.dap.tables:R",
    "dap-records": "divulge_papers.papers.dap.tables_by_records:BY_RECORDS",
    "nist-table2": "divulge_papers.papers.nist.tables:TABLE_2",
    "nist-table3": "divulge_papers.papers.nist.tables:TABLE_3",
    "nist-figure3": "divulge_papers.papers.nist.tables:FIGURE_3",
    "nist-figure5": "divulge_papers.papers.nist.tables:FIGURE_5",
    "nist-figure6": "divulge_papers.papers.nist.tables:FIGURE_6",
    "nist-validation": "divulge_papers.papers.nist.tables:VALIDATION",
    "nist-full-width": "divulge_papers.papers.nist.tables:FULL_WIDTH",
    "raifle-table5": "divulge_papers.papers.raifle.tables:TABLE_5",
    "raifle-table6": "divulge_papers.papers.raifle.tables:TABLE_6",
    "raifle-table7": "divulge_papers.papers.raifle.tables:TABLE_7",
    "raifle-table9": "divulge_papers.papers.raifle.tables:TABLE_9",
    "raifle-table10": "divulge_papers.papers.raifle.tables:TABLE_10",
    "raifle-table11": "divulge_papers.papers.raifle.tables:TABLE_11",
    "raifle-code": "divulge_papers.papers.raifle.tables_by_code:BY_CODE",
    "raifle-table8": "divulge_papers.papers.raifle.tables:TABLE_8",
    "raifle-table12": "divulge_papers.papers.raifle.tables:TABLE_12",
    "raifle-table13": "divulge_papers.papers.raifle.tables:TABLE_13",
    "raifle-table14": "divulge_papers.papers.raifle.tables:TABLE_14",
    "raifle-table15": "divulge_papers.papers.raifle.tables:TABLE_15",
    "mrad-fashion-mnist": "divulge_papers.papers.mrad.tables:FASHION_MNIST",
    "mrad-location30": "divulge_papers.papers.mrad.tables:LOCATION30",
    "mrad-cifar-10": "divulge_papers.papers.mrad.tables:CIFAR_10",
    "mrad-questions": "divulge_papers.papers.mrad.tables:QUESTIONS",
    "mrad-fills": "divulge_papers.papers.mrad.tables_by_fill:BY_FILL",
}
"""All tables: name to ``module:symbol``. A table is its settings and one line here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a published table."""

    name: str
    settings: Settings
    """Arguments of the measuring function beside seed and size, such as JSON can hold."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """Published values by column, where there are any."""
    by_definition: tuple[str, ...] = ()
    """Columns whose value is fixed by definition, such as the baseline less itself."""
    weight: float = 1.0
    """What a seed of this row costs, relative to the other rows of its table."""


@dataclass(frozen=True, slots=True)
class Table:
    """Settings of one published table."""

    title: str
    source: str
    """Paper, and number of the table in it."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    work: str
    """Measuring function as ``module:function``: (seed, size, **settings) to values by column."""
    units: str
    """Name of the independent units of replication, in the plural; an interval is over them."""
    seeds: Mapping[Size, int]
    """Number of seeds for each size."""
    minutes: Mapping[Size, int]
    """Approximate minutes of one core for each size."""
    differs: Mapping[Size, str]
    """Sentences on what differs from the paper, for each size."""
    data: tuple[str, ...] = ()
    """Names of the data sets that it reads; see `divulge_papers.datasets.DATA_SETS`."""
    nested: bool = True
    """Whether every seed has the same units in the same order, with one value a unit. Otherwise
    every seed is one unit, and its values are that unit's trials."""
    kinds: Mapping[str, IntervalKind] = field(default_factory=dict)
    """Kind of interval by column; ``bounded`` for columns that are not named."""
    pooled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that hold the units of several others together. The measuring function gives values
    of those others alone, whose units are independent of each other."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of rows measured on the same units, whose difference (first less second, unit by
    unit) is shown too."""
    common: tuple[str, ...] = ()
    """Columns about the target instead of the attack, which are equal in both rows of a pair."""
    largest: Mapping[str, float] = field(default_factory=dict)
    """Largest possible value by column, where it is not 1; no interval goes beyond."""
    smallest: Mapping[str, float] = field(default_factory=dict)
    """Smallest possible value by column, where it is not 0; no interval goes beyond."""
    keeps: bool = False
    """Whether the measuring function takes ``folder`` too, to store what several rows need."""
    drawn: tuple[str, ...] = ()
    """Names of rows drawn as curves over the columns that begin with a number."""
    measures: str = "Ours"
    """Name of the quantity in those columns: the title of the curves' axis."""
    deviations: bool = False
    """Whether the standard deviation of values is shown too, as in the paper."""


def find_table(name: str) -> Table:
    """Find the table of this name.

    Raises:
        SpecError: there is none.
    """
    if name not in TABLES:
        raise SpecError(f"expected a table, got {name!r}: {did_you_mean(name, TABLES)}")
    module, _, symbol = TABLES[name].partition(":")
    table: Table = getattr(importlib.import_module(module), symbol)
    return table
