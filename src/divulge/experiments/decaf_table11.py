"""Decaf's table XI and figure 14: dropout and DP-SGD, what they cost and what they hide."""

from divulge.experiments.decaf_rows import (
    BRIEF,
    COLUMNS,
    KINDS,
    LARGEST,
    PUBLISHED,
    differs,
)
from divulge.experiments.table import Row, Size, Table

SEEDS: dict[Size, int] = {"small": 1, "medium": 2, "full": 5}
ACCURACY = "accuracy of the model"
DEFENCES: dict[str, tuple[dict[str, float], float]] = {
    "no defence": ({}, 0.9879),
    "dropout": ({"dropout": 0.5}, 0.986),
    "noise 0.1": ({"noise": 0.1}, 0.9311),
    "noise 0.25": ({"noise": 0.25}, 0.9216),
    "noise 1": ({"noise": 1.0}, 0.8709),
    "noise 4": ({"noise": 4.0}, 0.7963),
    "noise 16": ({"noise": 16.0}, 0.589),
}
"""Settings, and the paper's accuracy."""

TABLE = Table(
    title="Decaf against dropout and DP-SGD: class shares of ten users of MNIST",
    source="Dai et al. 2024, table XI and figure 14",
    columns=(ACCURACY, *COLUMNS),
    largest=LARGEST,
    rows=tuple(
        Row(
            f"{defence}, {name}",
            {"attack": attack, **settings},
            {ACCURACY: accuracy} if attack == PUBLISHED else {},
        )
        for defence, (settings, accuracy) in DEFENCES.items()
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", BRIEF))
    ),
    work="divulge.experiments.decaf_users:defended",
    units="users (for the accuracy: test images)",
    common=(ACCURACY,),
    kinds=KINDS,
    pairs=tuple(
        (f"{defence}, divulge, refined", f"{defence}, the paper's method") for defence in DEFENCES
    ),
    seeds=SEEDS,
    minutes={"small": 2, "medium": 60, "full": 150},
    differs=differs(
        SEEDS,
        "accuracy on 1,000 images after ten rounds",
        "noise in multiples of a clipping norm of 1; dropout of one half before the last layer",
        "half as many virtual clients again, which train without the defence's clipping and noise",
    ),
)
