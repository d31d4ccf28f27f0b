"""Decaf's tables XIV and XV: users of MNIST, without a step of the published method."""

from divulge.experiments.decaf_rows import (
    COLUMNS,
    KINDS,
    LARGEST,
    MNIST,
    PUBLISHED,
    RATES,
    UNITS,
    differs,
)
from divulge.experiments.table import Row, Size, Table

PAPER = {
    "none": tuple(MNIST.values())[:3],
    "null removal": (0.4631, 0.2010, 0.1423),
    "calibrator": (0.3681, 0.1551, 0.1092),
}
SEEDS: dict[Size, int] = {"small": 2, "medium": 3, "full": 5}

TABLE = Table(
    title="Decaf without the removal of null classes, and without the calibrator: users of MNIST",
    source="Dai et al. 2024, tables III, XIV and XV",
    columns=COLUMNS,
    largest=LARGEST,
    rows=tuple(
        Row(
            f"the paper's method, {'whole' if step == 'none' else f'without {step}'}, {optimiser}",
            {"attack": PUBLISHED | {"without": step}, "optimiser": optimiser},
            dict(zip(COLUMNS, published, strict=False)) if optimiser == "adadelta" else {},
        )
        for optimiser in RATES
        for step, published in PAPER.items()
    ),
    work="divulge.experiments.decaf_users:measured",
    units=UNITS,
    kinds=KINDS,
    common=("null classes right",),
    pairs=tuple(
        (
            f"the paper's method, without {step}, {optimiser}",
            f"the paper's method, whole, {optimiser}",
        )
        for optimiser in RATES
        for step in PAPER
        if step != "none"
    ),
    seeds=SEEDS,
    minutes={"small": 1, "medium": 20, "full": 50},
    differs=differs(SEEDS),
)
