"""MRAD and what beats it on Location-30, for every share of missing features."""

from leakscope.experiments.mrad_records import COLUMNS, SEEDS, SETUP, rows
from leakscope.experiments.table import Table

_DIFFERS = f"{SETUP} 446 features of 0 or 1, a perceptron of 128."

TABLE = Table(
    title="MRAD on Location-30: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    columns=COLUMNS,
    rows=rows("location30"),
    work="leakscope.experiments.mrad_records:measured",
    seeds=SEEDS,
    minutes={"small": 6, "medium": 10, "full": 30},
    differs={
        "small": f"{_DIFFERS} 8 shadows, 3 seeds.",
        "medium": f"{_DIFFERS} 16 shadows, 5 seeds.",
        "full": f"{_DIFFERS} 64 shadows, 10 seeds.",
    },
)
