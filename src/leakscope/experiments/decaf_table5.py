"""Decaf's table V: users of CIFAR-10."""

from leakscope.experiments.decaf_users import COLUMNS, DIFFERS, LARGEST, SEEDS, rows
from leakscope.experiments.table import Table

USERS = (
    (10, 10, 10, 10, 10, 10, 10, 10, 10, 10),
    (6, 10, 8, 7, 14, 17, 5, 10, 13, 10),
    (16, 17, 7, 4, 16, 13, 14, 6, 3, 4),
    (14, 2, 1, 20, 10, 14, 5, 2, 8, 24),
    (4, 18, 0, 8, 10, 13, 28, 8, 6, 5),
    (6, 11, 16, 4, 16, 0, 13, 8, 26, 0),
    (18, 7, 14, 0, 7, 24, 0, 0, 26, 4),
    (0, 0, 34, 4, 0, 0, 26, 2, 0, 34),
    (0, 0, 0, 40, 0, 10, 0, 0, 0, 50),
    (0, 0, 0, 0, 0, 0, 0, 100, 0, 0),
)
"""Parts of 100."""

ALSO = "20,000 of the 60,000 images."

TABLE = Table(
    title="Decaf: class shares of ten users of CIFAR-10",
    source="Dai et al. 2024, table V",
    columns=COLUMNS,
    largest=LARGEST,
    rows=rows((0.1918, 0.0965, 0.0743), data="cifar10", users=USERS, records=1000),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 1, "medium": 60, "full": 150},
    differs={size: f"{text} {ALSO}" for size, text in DIFFERS.items()},
)
