"""MRAD and what beats it on Location-30, for every share of missing features."""

from divulge.experiments import mrad_records as records
from divulge.experiments.table import Table

_DIFFERS = f"{records.WITH_SHADOWS} 446 features of 0 or 1, a perceptron of 128."
_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.GAUSSIAN]
_FILLED = "5 neighbours' mean, then calibrated"

TABLE = Table(
    title="MRAD on Location-30: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    columns=records.COLUMNS,
    rows=records.rows("location30", [*_NAMES, _FILLED], records.HEADLINE),
    drawn=records.DRAWN,
    measures="AUC",
    work="divulge.experiments.mrad_records:measured",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=records.pairs([*records.DRAWN, _FILLED]),
    seeds=records.SEEDS,
    minutes={"small": 1, "medium": 10, "full": 30},
    differs={
        "small": f"{_DIFFERS} 8 shadows, 3 seeds.",
        "medium": f"{_DIFFERS} 16 shadows, 5 seeds.",
        "full": f"{_DIFFERS} 64 shadows, 10 seeds.",
    },
)
