"""Define tables of MRAD on three data sets, and of questions that its paper leaves open."""

from collections.abc import Mapping

from divulge._util.json import Settings
from divulge.reproduce.papers.mrad import study as records
from divulge.reproduce.papers.mrad.study import LOSS, MRAD, NORM
from divulge.reproduce.table import Row, Table

_CIFAR_10_DIFFERS = (
    f"{records.WITH_SHADOWS} Colour images averaged to 16 x 16 pixels; a perceptron of 256, or a "
    "residual network of three blocks of 8, 16 and 32 channels with batch normalisation."
)

_CIFAR_10_PAPER = {**records.HEADLINE, "MRAD, NCI": {"50 % missing": 0.7}}

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

_CIFAR_10_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.NEIGHBOURS]


CIFAR_10 = Table(
    title="MRAD on CIFAR-10: AUC by share of missing features",
    source="Wang et al. 2025, as a summary of it tells; for CADE the abstract's figure",
    data=("cifar10",),
    columns=records.COLUMNS,
    rows=(
        *records.rows("cifar10", _CIFAR_10_NAMES, _CIFAR_10_PAPER),
        *records.rows("cifar10", _FEW, _CIFAR_10_PAPER, "residual: ", model="resnet"),
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
    work="divulge.reproduce.papers.mrad.study:measure_auc",
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
    minutes={"small": 2, "paper": 40},
    differs={
        "small": f"{_CIFAR_10_DIFFERS} 4 shadows, 2 of the residual network; 3 seeds.",
        "paper": f"{_CIFAR_10_DIFFERS} 32 shadows, or 16; 10 seeds.",
    },
)

_FASHION_MNIST_DIFFERS = (
    f"{records.WITH_SHADOWS} Images averaged to 14 x 14 pixels, a perceptron of 256 and 64."
)

_FASHION_MNIST_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.GAUSSIAN]

_FASHION_MNIST_FILLED = "5 neighbours' mean, then calibrated"


FASHION_MNIST = Table(
    title="MRAD on Fashion-MNIST: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    data=("fashion_mnist",),
    columns=records.COLUMNS,
    rows=(
        *records.rows(
            "fashion_mnist", [*_FASHION_MNIST_NAMES, _FASHION_MNIST_FILLED], records.HEADLINE
        ),
        *records.rows(
            "fashion_mnist", records.CROPPED_ROWS, {}, "last rows missing: ", pattern="rows"
        ),
    ),
    drawn=records.CURVE_ROWS,
    measures="AUC",
    work="divulge.reproduce.papers.mrad.study:measure_auc",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=(
        *records.pairs([*records.CURVE_ROWS, _FASHION_MNIST_FILLED]),
        *records.pairs(records.CROPPED_ROWS, before="last rows missing: "),
    ),
    seeds=records.SEEDS,
    minutes={"small": 1, "paper": 20},
    differs={
        "small": f"{_FASHION_MNIST_DIFFERS} 8 shadows, 3 seeds.",
        "paper": f"{_FASHION_MNIST_DIFFERS} 64 shadows, 10 seeds.",
    },
)

_LOCATION30_DIFFERS = f"{records.WITH_SHADOWS} 446 features of 0 or 1, a perceptron of 128."

_LOCATION30_NAMES = [*records.PUBLISHED, *records.SIMPLE, *records.GAUSSIAN]

_LOCATION30_FILLED = "5 neighbours' mean, then calibrated"


LOCATION30 = Table(
    title="MRAD on Location-30: AUC by share of missing features",
    source="Wang et al. 2025, abstract",
    data=("location30",),
    columns=records.COLUMNS,
    rows=records.rows("location30", [*_LOCATION30_NAMES, _LOCATION30_FILLED], records.HEADLINE),
    drawn=records.CURVE_ROWS,
    measures="AUC",
    work="divulge.reproduce.papers.mrad.study:measure_auc",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=records.pairs([*records.CURVE_ROWS, _LOCATION30_FILLED]),
    seeds=records.SEEDS,
    minutes={"small": 1, "paper": 30},
    differs={
        "small": f"{_LOCATION30_DIFFERS} 8 shadows, 3 seeds.",
        "paper": f"{_LOCATION30_DIFFERS} 64 shadows, 10 seeds.",
    },
)


_QUESTIONS_DIFFERS = (
    f"{records.SETUP} Location-30 with a perceptron of 128, but for the transformer: CIFAR-10 at "
    "16 x 16 pixels, 16 patches, two layers of width 32."
)

_BY_ANSWERS: Settings = {**MRAD, "access": "answers"}

_FIVE: Settings = {**_BY_ANSWERS, "directions": 9, "iterations": 5, "step": 200.0}

_MEAN: Settings = {"attack": LOSS, "fill": "mean"}


_QUESTIONS_PAPER = {"one step, by the gradient": {"60 % missing": 0.75}}


_STEPS: Mapping[str, Settings] = {
    "one step, by the gradient": {"attack": MRAD},
    "one step, 6 questions": {"attack": {**_BY_ANSWERS, "directions": 5}},
    "one step, 21 questions": {"attack": {**_BY_ANSWERS, "directions": 20}},
    "one step, 51 questions": {"attack": {**_BY_ANSWERS, "directions": 50}},
    "5 steps, 50 questions": {"attack": _FIVE},
    "5 steps, 50 questions, momentum": {"attack": {**_FIVE, "optimiser": "momentum"}},
    "5 steps, 50 questions, Adam": {"attack": {**_FIVE, "optimiser": "adam", "step": 0.1}},
    "10 Adam steps between 0 and 1, by gradients": {
        "attack": {
            **MRAD,
            "iterations": 10,
            "optimiser": "adam",
            "step": 0.1,
            "limits": [0.0, 1.0],
        },
    },
    "mean, then loss": _MEAN,
}

_PRIVATE: Mapping[str, Settings] = {
    "MRAD, CADE": {"attack": MRAD},
    "mean, then loss": _MEAN,
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


QUESTIONS = Table(
    title="What MRAD's paper leaves open: AUC by share of missing features",
    source="Wang et al. 2025, abstract, whose figure stands beside MRAD as published",
    data=("location30", "cifar10"),
    columns=records.COLUMNS,
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
    measures="AUC",
    work="divulge.reproduce.papers.mrad.study:measure_auc",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=records.pairs(_STEPS, "one step, by the gradient"),
    seeds=records.SEEDS,
    minutes={"small": 2, "paper": 40},
    differs={
        "small": f"{_QUESTIONS_DIFFERS} 3 seeds.",
        "paper": f"{_QUESTIONS_DIFFERS} 10 seeds.",
    },
)
