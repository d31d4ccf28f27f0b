"""MRAD and what beats it on CIFAR-10, for every share of missing features."""

from divulge.experiments import mrad_records as records
from divulge.experiments.table import Table

_DIFFERS = (
    f"{records.WITH_SHADOWS} Colour images averaged to 16 x 16 pixels; a perceptron of 256, or a "
    "residual network of three blocks of 8, 16 and 32 channels with batch normalisation."
)
_PAPER = {**records.HEADLINE, "MRAD, NCI": {"50 % missing": 0.7}}
_FEW = (
    "MRAD, CADE",
    "MRAD, CADE, ratio to a shadow",
    "no reconstruction: CADE",
    "no reconstruction: gradient's norm",
    "no reconstruction: loss",
    "5 neighbours' mean, then calibrated",
    "5 neighbours' mean, then RMIA",
)
_CROPPED = (
    "MRAD, CADE",
    "no reconstruction: gradient's norm",
    "5 neighbours' mean, then calibrated",
    "5 neighbours' mean, then RMIA",
)
_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.NEIGHBOURS]

TABLE = Table(
    title="MRAD on CIFAR-10: AUC by share of missing features",
    source="Wang et al. 2025, as a summary of it tells; for CADE the abstract's figure",
    columns=records.COLUMNS,
    rows=(
        *records.rows("cifar10", _NAMES, _PAPER),
        *records.rows("cifar10", _FEW, _PAPER, "residual: ", model="resnet"),
        *records.rows("cifar10", _CROPPED, {}, "last rows missing: ", pattern="rows"),
    ),
    drawn=(
        "MRAD, CADE",
        "no reconstruction: gradient's norm",
        "5 neighbours' mean, then RMIA",
        "residual: MRAD, CADE",
        "residual: no reconstruction: gradient's norm",
        "residual: 5 neighbours' mean, then RMIA",
    ),
    measures="AUC",
    work="divulge.experiments.mrad_records:measured",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=(
        *records.pairs([*records.PUBLISHED, *records.NEIGHBOURS]),
        *records.pairs(_FEW, before="residual: "),
        *records.pairs(_CROPPED, before="last rows missing: "),
    ),
    seeds=records.SEEDS,
    minutes={"small": 2, "medium": 10, "full": 40},
    differs={
        "small": f"{_DIFFERS} 4 shadows, 2 of the residual network; 3 seeds.",
        "medium": f"{_DIFFERS} 8 shadows, or 4; 5 seeds.",
        "full": f"{_DIFFERS} 32 shadows, or 16; 10 seeds.",
    },
)
