"""Decaf's table III: users of MNIST."""

from leakscope.experiments.decaf_users import COLUMNS, DIFFERS, LARGEST, MNIST, SEEDS, TEN, rows
from leakscope.experiments.table import Table

TABLE = Table(
    title="Decaf: class shares of ten users of MNIST",
    source="Dai et al. 2024, table III",
    columns=COLUMNS,
    largest=LARGEST,
    rows=rows(MNIST, data="mnist", users=TEN, records=1200),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 1, "medium": 60, "full": 150},
    differs=DIFFERS,
)
