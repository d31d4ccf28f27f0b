"""Decaf's figure 6: users of MNIST, by the round that is attacked."""

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
ROUNDS = (1, 3, 5, 10, 16)

TABLE = Table(
    title="Decaf by round: class shares of ten users of MNIST",
    source="Dai et al. 2024, figure 6, by its text least at about round 3; beside round 5 stand "
    "the figures of table III, of one of the first rounds",
    columns=COLUMNS,
    largest=LARGEST,
    rows=tuple(
        Row(
            f"{name}, round {number}",
            {"attack": attack, "number": number - 1},
            MNIST if number == 5 and attack == PUBLISHED else {},
        )
        for number in ROUNDS
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", BRIEF))
    ),
    work="divulge.experiments.decaf_users:measured",
    units=UNITS,
    kinds=KINDS,
    pairs=tuple(
        (f"divulge, refined, round {number}", f"the paper's method, round {number}")
        for number in ROUNDS
    ),
    seeds=SEEDS,
    minutes={"small": 1, "medium": 250, "full": 600},
    differs=differs(SEEDS, FEWER),
)
