"""MRAD and what beats it on Fashion-MNIST, for every share of missing features."""

from divulge.experiments import mrad_records as records
from divulge.experiments.table import Table

_DIFFERS = f"{records.WITH_SHADOWS} Images averaged to 14 x 14 pixels, a perceptron of 256 and 64."
_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.GAUSSIAN]
_FILLED = "5 neighbours' mean, then calibrated"

TABLE = Table(
    title="MRAD on Fashion-MNIST: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    columns=records.COLUMNS,
    rows=(
        *records.rows("fashion_mnist", [*_NAMES, _FILLED], records.HEADLINE),
        *records.rows("fashion_mnist", records.CROPPED, {}, "last rows missing: ", pattern="rows"),
    ),
    drawn=records.DRAWN,
    measures="AUC",
    work="divulge.experiments.mrad_records:measured",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=(
        *records.pairs([*records.DRAWN, _FILLED]),
        *records.pairs(records.CROPPED, before="last rows missing: "),
    ),
    seeds=records.SEEDS,
    minutes={"small": 1, "medium": 7, "full": 20},
    differs={
        "small": f"{_DIFFERS} 8 shadows, 3 seeds.",
        "medium": f"{_DIFFERS} 16 shadows, 5 seeds.",
        "full": f"{_DIFFERS} 64 shadows, 10 seeds.",
    },
)
