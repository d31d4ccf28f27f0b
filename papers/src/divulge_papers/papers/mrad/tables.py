"""Define tables of MRAD on three data sets, and of questions that its paper leaves open."""

from collections.abc import Mapping
from functools import partial

from divulge._util.json import Settings
from divulge_papers.papers.mrad import study as records
from divulge_papers.papers.mrad.study import (
    ALL,
    FEW,
    FROM_0_TO_1,
    FROM_0_TO_1_NAME,
    GAUSSIAN,
    HEADLINE,
    LOSS,
    MRAD,
    NO_SHADOW,
    NORM,
    SHADOWS,
    RowNames,
)
from divulge_papers.table import Row, Table

_RESIDUAL, _CROPPED = "residual: ", "last rows missing: "

_DLG = (
    "DLG matches the gradient of the parameters with zero by 100 steps of Adam, at two rates that "
    "were set beforehand; how the paper adapted it is not known."
)

_LAST_ROWS: RowNames = {
    NO_SHADOW: (
        "MRAD, CADE",
        "no reconstruction: loss",
        "global mean, then loss",
        "5 neighbours' mean, then loss",
    ),
    SHADOWS: ("zeros, then calibrated", "chosen fill, then calibrated", "chosen fill, then RMIA"),
}

_CURVES = (
    f"MRAD, CADE{NO_SHADOW}",
    f"no reconstruction: loss{NO_SHADOW}",
    f"5 neighbours' mean, then loss{NO_SHADOW}",
    f"chosen fill, then RMIA{SHADOWS}",
)
"""Names of rows whose curves are drawn."""

_define_table = partial(
    Table,
    columns=records.COLUMNS,
    work="divulge_papers.papers.mrad.study:measure_auc",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    seeds=records.SEEDS,
    measures="AUC",
)
"""Define a table by what differs from the others of this paper."""

CIFAR_10 = _define_table(
    title="MRAD on CIFAR-10: AUC by share of missing features",
    source="Wang et al. 2025, as a summary of it tells; for CADE the abstract's figure",
    data=("cifar10",),
    rows=(
        *records.rows("cifar10", ALL, paper={**HEADLINE, "MRAD, NCI": {"50 % missing": 0.7}}),
        *records.rows("cifar10", FEW, _RESIDUAL, model="resnet"),
        *records.rows("cifar10", FEW, FROM_0_TO_1_NAME, **FROM_0_TO_1),
        *records.rows("cifar10", FEW, FROM_0_TO_1_NAME + _RESIDUAL, model="resnet", **FROM_0_TO_1),
        *records.rows("cifar10", _LAST_ROWS, _CROPPED, {}, pattern="rows"),
    ),
    drawn=(*_CURVES, *(_RESIDUAL + name for name in _CURVES)),
    pairs=(
        *records.pairs(ALL),
        *records.pairs(FEW, _RESIDUAL),
        *records.pairs(FEW, FROM_0_TO_1_NAME),
        *records.pairs(FEW, FROM_0_TO_1_NAME + _RESIDUAL),
        *records.pairs(_LAST_ROWS, _CROPPED),
    ),
    minutes={"small": 2, "paper": 980},
    differs={
        "small": f"{records.WITH_SHADOWS} Colour images averaged to 16 x 16 pixels; a perceptron "
        "of 256, or a residual network of three blocks of 8, 16 and 32 channels with batch "
        f"normalisation. {_DLG} 4 shadows, 2 of the residual network; 3 seeds.",
        "paper": f"{records.WITH_SHADOWS} A perceptron of 256, or a ResNet18. {_DLG} 32 shadows, "
        "4 of the residual network; 5 seeds. Stored rows of the ResNet18 are of a rate of 0.1, "
        "with which it does not memorise its records; it is trained with 0.01 now.",
    },
)

FASHION_MNIST = _define_table(
    title="MRAD on Fashion-MNIST: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    data=("fashion_mnist",),
    rows=(
        *records.rows("fashion_mnist", GAUSSIAN),
        *records.rows("fashion_mnist", FEW, FROM_0_TO_1_NAME, **FROM_0_TO_1),
        *records.rows("fashion_mnist", _LAST_ROWS, _CROPPED, {}, pattern="rows"),
    ),
    drawn=_CURVES,
    pairs=(
        *records.pairs(GAUSSIAN),
        *records.pairs(FEW, FROM_0_TO_1_NAME),
        *records.pairs(_LAST_ROWS, _CROPPED),
    ),
    minutes={"small": 2, "paper": 90},
    differs={
        "small": f"{records.WITH_SHADOWS} Images averaged to 14 x 14 pixels, a perceptron of 256 "
        f"and 64. {_DLG} 8 shadows, 3 seeds.",
        "paper": f"{records.WITH_SHADOWS} A perceptron of 256 and 64. {_DLG} 64 shadows, 5 seeds.",
    },
)

_LOCATION30_DIFFERS = (
    f"{records.WITH_SHADOWS} 446 features, which are 0 or 1 unless standardised, and a perceptron "
    f"of 128. {_DLG}"
)

LOCATION30 = _define_table(
    title="MRAD on Location-30: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    data=("location30",),
    rows=(
        *records.rows("location30", GAUSSIAN),
        *records.rows("location30", FEW, FROM_0_TO_1_NAME, **FROM_0_TO_1),
    ),
    drawn=_CURVES,
    pairs=(*records.pairs(GAUSSIAN), *records.pairs(FEW, FROM_0_TO_1_NAME)),
    minutes={"small": 2, "paper": 30},
    differs={
        "small": f"{_LOCATION30_DIFFERS} 8 shadows, 3 seeds.",
        "paper": f"{_LOCATION30_DIFFERS} 64 shadows, 5 seeds.",
    },
)


_QUESTIONS_DIFFERS = (
    f"{records.SETUP} Location-30 with a perceptron of 128, but for the transformer: CIFAR-10, "
    "patches of 4 x 4 pixels, two layers of width 32. No row has shadows."
)

_BY_ANSWERS: Settings = {**MRAD, "access": "answers"}

_FIVE: Settings = {**_BY_ANSWERS, "directions": 9, "iterations": 5, "step": 200.0}

_MEAN: Settings = {"attack": LOSS, "fill": "global-mean"}


_QUESTIONS_PAPER = {"one step, by the gradient": {"60 % missing": 0.75}}


_STEPS: Mapping[str, Settings] = {
    "one step, by the gradient": {"attack": MRAD},
    "one step, 6 questions": {"attack": {**_BY_ANSWERS, "directions": 5}},
    "one step, 21 questions": {"attack": {**_BY_ANSWERS, "directions": 20}},
    "one step, 51 questions": {"attack": {**_BY_ANSWERS, "directions": 50}},
    "5 steps, 50 questions": {"attack": _FIVE},
    "5 steps, 50 questions, momentum": {"attack": {**_FIVE, "optimiser": "momentum"}},
    "5 steps, 50 questions, Adam": {"attack": {**_FIVE, "optimiser": "adam", "step": 0.1}},
    "0 to 1: one step, by the gradient": {"attack": MRAD, **FROM_0_TO_1},
    "0 to 1: 10 Adam steps between 0 and 1, by gradients": {
        "attack": {
            **MRAD,
            "iterations": 10,
            "optimiser": "adam",
            "step": 0.1,
            "limits": [0.0, 1.0],
        },
        **FROM_0_TO_1,
    },
    "global mean, then loss": _MEAN,
}

_PRIVATE: Mapping[str, Settings] = {
    "MRAD, CADE": {"attack": MRAD},
    "global mean, then loss": _MEAN,
}

_TRANSFORMER: Mapping[str, Settings] = {
    "MRAD, CADE": {"attack": MRAD},
    "gradient's norm": {"attack": NORM},
    "5 neighbours' mean, then loss": {"attack": LOSS, "fill": "neighbours"},
}

_PARTS: tuple[tuple[str, Settings, Mapping[str, Settings]], ...] = (
    ("", {"data": "location30"}, _STEPS),
    ("DP-SGD, ε = 100: ", {"data": "location30", "epsilon": 100.0}, _PRIVATE),
    ("DP-SGD, ε = 8: ", {"data": "location30", "epsilon": 8.0}, _PRIVATE),
    ("transformer: ", {"data": "cifar10", "model": "vit"}, _TRANSFORMER),
)


QUESTIONS = _define_table(
    title="What MRAD's paper leaves open: AUC by share of missing features",
    source="Wang et al. 2025, abstract, whose figure stands beside MRAD as published",
    data=("location30", "cifar10"),
    rows=tuple(
        Row(before + name, {**model, **how}, _QUESTIONS_PAPER.get(before + name, {}))
        for before, model, rows in _PARTS
        for name, how in rows.items()
    ),
    drawn=(
        "one step, by the gradient",
        "5 steps, 50 questions, momentum",
        "5 steps, 50 questions, Adam",
        "DP-SGD, ε = 100: MRAD, CADE",
        "DP-SGD, ε = 8: MRAD, CADE",
        "transformer: MRAD, CADE",
    ),
    pairs=tuple(
        (name, f"{before}one step, by the gradient")
        for name in _STEPS
        for before in (FROM_0_TO_1_NAME if name.startswith(FROM_0_TO_1_NAME) else "",)
        if name != f"{before}one step, by the gradient"
    ),
    minutes={"small": 1, "paper": 10},
    differs={
        "small": f"{_QUESTIONS_DIFFERS} Images averaged to 16 x 16 pixels. 3 seeds.",
        "paper": f"{_QUESTIONS_DIFFERS} 5 seeds.",
    },
)
