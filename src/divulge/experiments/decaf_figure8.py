"""Decaf's figure 8: users of MNIST, by the width of the last layer."""

from divulge.experiments.decaf_rows import (
    BRIEF,
    COLUMNS,
    FEWER,
    KINDS,
    LARGEST,
    MNIST,
    PUBLISHED,
    UNITS,
    differs,
)
from divulge.experiments.table import Row, Size, Table

SEEDS: dict[Size, int] = {"small": 1, "medium": 2, "full": 5}
USUAL = 64
WIDTHS = (16, USUAL, 256, 1024)

TABLE = Table(
    title="Decaf by width of the last layer: class shares of ten users of MNIST",
    source="Dai et al. 2024, figure 8, by its text worse the wider the layer; beside the usual "
    "width stand the figures of table III",
    columns=COLUMNS,
    largest=LARGEST,
    rows=tuple(
        Row(
            f"{name}, {width} inputs",
            {"attack": attack, "width": width},
            MNIST if width == USUAL and attack == PUBLISHED else {},
        )
        for width in WIDTHS
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", BRIEF))
    ),
    work="divulge.experiments.decaf_users:measured",
    units=UNITS,
    kinds=KINDS,
    pairs=tuple(
        (f"divulge, refined, {number} inputs", f"the paper's method, {number} inputs")
        for number in WIDTHS
    ),
    seeds=SEEDS,
    minutes={"small": 1, "medium": 200, "full": 500},
    differs=differs(SEEDS, FEWER, "widths are ours, since the copy that we have lacks the paper's"),
)
