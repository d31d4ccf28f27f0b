"""MRAD and what beats it on Fashion-MNIST, for every share of missing features."""

from leakscope.experiments.mrad_records import COLUMNS, SEEDS, SETUP, rows, rows_of_images
from leakscope.experiments.table import Table

_DIFFERS = f"{SETUP} Images averaged to 14 x 14 pixels, a perceptron of 256 and 64."

TABLE = Table(
    title="MRAD on Fashion-MNIST: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    columns=COLUMNS,
    rows=rows("fashion_mnist") + rows_of_images("fashion_mnist"),
    work="leakscope.experiments.mrad_records:measured",
    seeds=SEEDS,
    minutes={"small": 4, "medium": 7, "full": 20},
    differs={
        "small": f"{_DIFFERS} 8 shadows, 3 seeds.",
        "medium": f"{_DIFFERS} 16 shadows, 5 seeds.",
        "full": f"{_DIFFERS} 64 shadows, 10 seeds.",
    },
)
