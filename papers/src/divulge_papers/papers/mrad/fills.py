"""Define the table of what is filled in: fills that know what is near, and fills that do not."""

from collections.abc import Mapping

from divulge._util.json import Settings
from divulge_papers.papers.mrad.study import (
    ACCURACY,
    HEADLINE,
    LOSS,
    MRAD,
    NO_SHADOW,
    SETUP,
    SHADOWS,
    TRAINING_ACCURACY,
    UNITS,
)
from divulge_papers.table import Row, Table

_SHARES = {f"{percent} % missing": percent / 100 for percent in (0, 60)}
_COLUMNS = (*_SHARES, ACCURACY, TRAINING_ACCURACY)
_FROM_ZEROS, _NEIGHBOURS = f"MRAD, CADE{NO_SHADOW}", f"5 neighbours' mean, then RMIA{SHADOWS}"
_MODELS: Mapping[str, Settings] = {
    "residual: ": {"data": "cifar10", "model": "resnet"},
    "Fashion-MNIST: ": {"data": "fashion_mnist"},
    "Location-30: ": {"data": "location30"},
}
_ATTACKS: Mapping[str, Settings] = {
    _FROM_ZEROS: {"attack": MRAD},
    f"local, then MRAD{NO_SHADOW}": {"attack": {**MRAD, "start": "filled"}, "fill": "local"},
    f"5 neighbours' mean, then loss{NO_SHADOW}": {"attack": LOSS, "fill": "neighbours"},
    f"local, then loss{NO_SHADOW}": {"attack": LOSS, "fill": "local"},
    _NEIGHBOURS: {"attack": {"name": "rmia"}, "fill": "neighbours"},
    f"chosen fill, then RMIA{SHADOWS}": {"attack": {"name": "rmia"}, "fill": "chosen-near"},
}
_DIFFERS = (
    f"{SETUP} With 0 % missing attacks see whole records. "
    "Shadows are trained on 500 other records each; they choose the fill, among zeros, means, "
    "5 neighbours' mean, the conditional mean in a window (local) and, but for CIFAR-10, the "
    "Gaussian. Fashion-MNIST and Location-30 have perceptrons."
)

FILLS = Table(
    title="MRAD and what is filled in: AUC where all is known, and with 60 % missing",
    source="Wang et al. 2025, abstract",
    columns=_COLUMNS,
    data=("cifar10", "fashion_mnist", "location30"),
    rows=tuple(
        Row(
            model + name,
            {**settings, **attack, "shares": _SHARES},
            HEADLINE["MRAD, CADE"] if name == _FROM_ZEROS else {},
            weight=10.0 if settings.get("model") else 1.0,
        )
        for model, settings in _MODELS.items()
        for name, attack in _ATTACKS.items()
    ),
    pairs=tuple(
        (model + name, model + (_NEIGHBOURS if name.endswith(SHADOWS) else _FROM_ZEROS))
        for model in _MODELS
        for name in _ATTACKS
        if name not in (_FROM_ZEROS, _NEIGHBOURS)
    ),
    work="divulge_papers.papers.mrad.study:measure_auc",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(_COLUMNS, "normal"),
    common=(ACCURACY, TRAINING_ACCURACY),
    seeds={"small": 3, "paper": 5},
    minutes={"small": 2, "paper": 300},
    measures="AUC",
    differs={
        "small": f"{_DIFFERS} Images averaged to 16 x 16 and 14 x 14 pixels; a residual network of "
        "8, 16 and 32 channels. 8 shadows, 2 of the residual network; 3 seeds.",
        "paper": f"{_DIFFERS} A ResNet18. 64 shadows, 4 of the residual network; 5 seeds.",
    },
)
