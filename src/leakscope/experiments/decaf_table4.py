"""Decaf's table IV: users of Fashion-MNIST."""

from leakscope.experiments.decaf_users import COLUMNS, DIFFERS, LARGEST, SEEDS, TEN, rows
from leakscope.experiments.table import Table

TABLE = Table(
    title="Decaf: class shares of ten users of Fashion-MNIST",
    source="Dai et al. 2024, table IV",
    columns=COLUMNS,
    largest=LARGEST,
    rows=rows((0.2625, 0.1213, 0.0808), data="fashion_mnist", users=TEN, records=1200),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 1, "medium": 60, "full": 150},
    differs=DIFFERS,
)
