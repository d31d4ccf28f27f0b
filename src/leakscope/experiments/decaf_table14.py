"""Decaf's table XIV: users of MNIST, without the removal of null classes."""

from leakscope.experiments.decaf_users import COLUMNS, DIFFERS, LARGEST, SEEDS, ablation
from leakscope.experiments.table import Table

TABLE = Table(
    title="Decaf without the removal of null classes: class shares of ten users of MNIST",
    source="Dai et al. 2024, tables XIV and III",
    columns=COLUMNS,
    largest=LARGEST,
    rows=ablation("null removal", (0.4631, 0.201, 0.1423)),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 1, "medium": 10, "full": 25},
    differs=DIFFERS,
)
