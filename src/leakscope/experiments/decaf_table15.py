"""Decaf's table XV: users of MNIST, without the calibrator."""

from leakscope.experiments.decaf_users import COLUMNS, DIFFERS, LARGEST, SEEDS, ablation
from leakscope.experiments.table import Table

TABLE = Table(
    title="Decaf without the calibrator: class shares of ten users of MNIST",
    source="Dai et al. 2024, tables XV and III",
    columns=COLUMNS,
    largest=LARGEST,
    rows=ablation("calibrator", (0.3681, 0.1551, 0.1092)),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 1, "medium": 10, "full": 25},
    differs=DIFFERS,
)
