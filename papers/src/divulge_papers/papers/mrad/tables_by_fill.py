"""Define the table of attacks on parts of records by what fills in the rest."""

from collections.abc import Mapping

from divulge._util.json import Settings
from divulge_papers.papers.mrad.fills import COLUMNS, TRAINING
from divulge_papers.papers.mrad.study import ACCURACY, HEADLINE, LOSS, MRAD, SEEDS, SETUP, UNITS
from divulge_papers.table import Row, Table

_ROWS: Mapping[str, Settings] = {
    "MRAD from zeros, no shadow": {"attack": MRAD},
    "5 neighbours, then loss, no shadow": {"attack": LOSS, "fill": "neighbours"},
    "local, then loss, no shadow": {"attack": LOSS, "fill": "local"},
    "local, then MRAD, no shadow": {"attack": {**MRAD, "start": "filled"}, "fill": "local"},
    "5 neighbours, then RMIA": {"attack": {"name": "rmia"}, "fill": "neighbours"},
    "local, then RMIA": {"attack": {"name": "rmia"}, "fill": "local"},
}

_PAIRS = (
    ("local, then MRAD, no shadow", "MRAD from zeros, no shadow"),
    ("local, then loss, no shadow", "5 neighbours, then loss, no shadow"),
    ("local, then loss, no shadow", "local, then MRAD, no shadow"),
    ("local, then RMIA", "5 neighbours, then RMIA"),
    ("local, then RMIA", "local, then MRAD, no shadow"),
)

_MODELS: Mapping[str, Settings] = {
    "residual: ": {"data": "cifar10", "model": "resnet"},
    "Fashion-MNIST: ": {"data": "fashion_mnist"},
}

_DIFFERS = (
    f"{SETUP} CIFAR-10 averaged to 16 x 16 pixels and a residual network of three blocks of 8, 16 "
    "and 32 channels with 2 shadows, or Fashion-MNIST averaged to 14 x 14 and a perceptron of 256 "
    "and 64 with 8, at both sizes. With 0 % missing the attacker knows whole records, and MRAD has "
    "nothing to reconstruct. What the paper fills in is not known."
)

BY_FILL = Table(
    title="Attacks on parts of records by what fills in the rest",
    source="Wang et al. 2025, abstract",
    columns=COLUMNS,
    rows=tuple(
        Row(
            before + name,
            {**model, **how},
            HEADLINE["MRAD, CADE"] if "MRAD" in name and "model" in model else {},
            weight=4.0 if "model" in model else 1.0,
        )
        for before, model in _MODELS.items()
        for name, how in _ROWS.items()
    ),
    work="divulge_papers.papers.mrad.fills:measure_fill",
    units=UNITS,
    data=("cifar10", "fashion_mnist"),
    nested=False,
    kinds=dict.fromkeys(COLUMNS, "normal"),
    common=(TRAINING, ACCURACY),
    seeds=SEEDS,
    measures="AUC",
    drawn=tuple(
        f"residual: {name}" for name in _ROWS if name != "5 neighbours, then loss, no shadow"
    ),
    pairs=tuple((before + a, before + b) for before in _MODELS for a, b in _PAIRS),
    minutes={"small": 8, "paper": 14},
    differs={"small": f"{_DIFFERS} 3 seeds.", "paper": f"{_DIFFERS} 5 seeds."},
)
