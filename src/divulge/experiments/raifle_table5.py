"""RAIFLE's table V: recommenders."""

from divulge.experiments.raifle_users import COLUMNS, FEWER, SEEDS, UNITS
from divulge.experiments.table import Row, Table

TABLE = Table(
    title="RAIFLE: interactions of users of a recommender",
    source="Pham et al. 2024, table V",
    columns=COLUMNS,
    rows=tuple(
        Row(data, {"data": data, "attack": {"name": "raifle"}}, {"AUC": paper})
        for data, paper in (("ml-100k", 0.998), ("steam-200k", 0.960))
    ),
    work="divulge.experiments.raifle_users:recommended",
    units=UNITS,
    seeds=SEEDS,
    minutes={"small": 1, "medium": 2, "full": 8},
    differs={
        size: f"{text} The embedding method, not gradient matching." for size, text in FEWER.items()
    },
)
