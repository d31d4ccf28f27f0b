"""Decaf's figure 6: users of MNIST, by the round that is attacked."""

from leakscope.experiments.decaf_users import (
    BEST,
    COLUMNS,
    DIFFERS,
    LARGEST,
    MNIST,
    PUBLISHED_RULE,
    SEEDS,
    TEN,
)
from leakscope.experiments.table import Row, Table

TABLE_3 = dict(zip(COLUMNS, MNIST, strict=False))
ROUNDS = (1, 2, 3, 5, 8)

TABLE = Table(
    title="Decaf by round: class shares of ten users of MNIST",
    source="Dai et al. 2024, figure 6, by its text least at about round 3; beside that round stand "
    "the figures of table III, of one of the first rounds",
    columns=COLUMNS,
    largest=LARGEST,
    rows=tuple(
        Row(
            f"{name}, round {number}",
            {
                "attack": attack,
                "optimiser": "adadelta",
                "data": "mnist",
                "users": TEN,
                "records": 1200,
                "number": number - 1,
            },
            TABLE_3 if (number, attack) == (3, PUBLISHED_RULE) else {},
        )
        for number in ROUNDS
        for name, attack in (("the paper's method", PUBLISHED_RULE), ("leakscope, refined", BEST))
    ),
    work="leakscope.experiments.decaf_users:measured",
    seeds=SEEDS,
    minutes={"small": 4, "medium": 120, "full": 300},
    differs={
        size: text.replace("the third round alone", "one round alone")
        for size, text in DIFFERS.items()
    },
)
