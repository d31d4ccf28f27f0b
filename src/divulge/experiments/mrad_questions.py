"""What the paper on MRAD leaves open: better steps for few questions, DP-SGD, transformers."""

from collections.abc import Mapping
from typing import Any

from divulge.experiments import mrad_records as records
from divulge.experiments.mrad_records import LOSS, MRAD, NORM
from divulge.experiments.table import Row, Table

_DIFFERS = (
    f"{records.SETUP} Location-30 with a perceptron of 128, but for the transformer: CIFAR-10 at "
    "16 x 16 pixels, 16 patches, two layers of width 32."
)
_BY_ANSWERS = {**MRAD, "access": "answers"}
_FIVE = {**_BY_ANSWERS, "directions": 9, "iterations": 5, "step": 200.0}
_MEAN = {"attack": LOSS, "fill": "mean"}

_PAPER = {"one step, by the gradient": {"60 % missing": 0.75}}

_STEPS: Mapping[str, Mapping[str, Any]] = {
    "one step, by the gradient": {"attack": MRAD},
    "one step, 6 questions": {"attack": {**_BY_ANSWERS, "directions": 5}},
    "one step, 21 questions": {"attack": {**_BY_ANSWERS, "directions": 20}},
    "one step, 51 questions": {"attack": {**_BY_ANSWERS, "directions": 50}},
    "5 steps, 50 questions": {"attack": _FIVE},
    "5 steps, 50 questions, momentum": {"attack": {**_FIVE, "optimiser": "momentum"}},
    "5 steps, 50 questions, Adam": {"attack": {**_FIVE, "optimiser": "adam", "step": 0.1}},
    "10 Adam steps between 0 and 1, by gradients": {
        "attack": {**MRAD, "iterations": 10, "optimiser": "adam", "step": 0.1, "limits": [0, 1]},
    },
    "mean, then loss": _MEAN,
}
_PRIVATE: Mapping[str, Mapping[str, Any]] = {
    "MRAD, CADE": {"attack": MRAD},
    "mean, then loss": _MEAN,
}
_TRANSFORMER: Mapping[str, Mapping[str, Any]] = {
    "MRAD, CADE": {"attack": MRAD},
    "gradient's norm": {"attack": NORM},
    "5 neighbours' mean, then loss": {"attack": LOSS, "fill": "neighbours"},
}

TABLE = Table(
    title="What MRAD's paper leaves open: AUC by share of missing features",
    source="Wang et al. 2025, abstract, whose figure stands beside MRAD as published",
    columns=records.COLUMNS,
    rows=tuple(
        Row(before + name, {**model, **how}, _PAPER.get(before + name, {}))
        for before, model, rows in (
            ("", {"data": "location30"}, _STEPS),
            ("DP-SGD, ε = 100: ", {"data": "location30", "epsilon": 100.0}, _PRIVATE),
            ("DP-SGD, ε = 8: ", {"data": "location30", "epsilon": 8.0}, _PRIVATE),
            ("transformer: ", {"data": "cifar10", "model": "vit"}, _TRANSFORMER),
        )
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
    work="divulge.experiments.mrad_records:measured",
    units=records.UNITS,
    nested=False,
    kinds=records.KINDS,
    common=(records.ACCURACY,),
    pairs=records.pairs(_STEPS, "one step, by the gradient"),
    seeds=records.SEEDS,
    minutes={"small": 2, "medium": 10, "full": 40},
    differs={
        "small": f"{_DIFFERS} 3 seeds.",
        "medium": f"{_DIFFERS} 5 seeds.",
        "full": f"{_DIFFERS} 10 seeds.",
    },
)
