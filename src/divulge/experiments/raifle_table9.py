"""RAIFLE's table IX: noise on the updates; the rows on photographs are another table's."""

from typing import Any

from divulge.experiments.raifle_users import COLUMNS, SEARCHES, SEEDS, UNITS
from divulge.experiments.table import Row, Table

EPSILONS = (1.0, 20.0, 100.0, 500.0, None)
RECOMMENDERS = {
    "ml-100k": (0.50, 0.52, 0.56, 0.74, 1.00),
    "steam-200k": (0.50, 0.56, 0.72, 0.90, 0.96),
}
ENGINES = {
    ("mq2008", False): (0.50, 0.54, 0.57, 0.58, 0.66),
    ("mq2008", True): (0.50, 0.56, 0.66, 0.75, 0.82),
    ("mslr", False): (0.50, 0.50, 0.50, 0.50, 0.50),
    ("mslr", True): (0.50, 0.52, 0.58, 0.62, 0.80),
}


def _noise(epsilon: float | None) -> str:
    return "no noise" if epsilon is None else f"ε = {epsilon:g}"


def _row(name: str, epsilon: float | None, paper: float, **settings: Any) -> Row:
    settings |= {"attack": {"name": "raifle"}, "epsilon": epsilon}
    return Row(f"{name}, {_noise(epsilon)}", settings, {"AUC": paper})


TABLE = Table(
    title="RAIFLE against local differential privacy",
    source="Pham et al. 2024, table IX",
    columns=COLUMNS,
    rows=(
        *(
            _row(data, epsilon, paper, data=data, setting="recommended")
            for data, published in RECOMMENDERS.items()
            for epsilon, paper in zip(EPSILONS, published, strict=True)
        ),
        *(
            _row(
                f"{data}, {'noise handed out' if manipulated else 'as they are'}",
                epsilon,
                paper,
                setting="searched",
                data=data,
                hidden=0,
                habit="informational",
                queries=16 if data == "mq2008" else 48,
                manipulated=manipulated,
            )
            for (data, manipulated), published in ENGINES.items()
            for epsilon, paper in zip(EPSILONS, published, strict=True)
        ),
    ),
    work="divulge.experiments.raifle_users:either",
    units=UNITS,
    pairs=tuple(
        (f"{data}, noise handed out, {noise}", f"{data}, as they are, {noise}")
        for data in ("mq2008", "mslr")
        for noise in map(_noise, EPSILONS)
    ),
    seeds=SEEDS,
    minutes={"small": 1, "medium": 60, "full": 400},
    differs=SEARCHES,
)
