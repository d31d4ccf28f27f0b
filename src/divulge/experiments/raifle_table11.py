"""RAIFLE's table XI: one user singled out of a secure sum of noisy updates."""

from divulge.experiments.raifle_users import COLUMNS, SEEDS, UNITS
from divulge.experiments.table import Row, Table

PARTICIPANTS = (10, 100, 500, 1000)
PAPER: dict[tuple[int, float | None], tuple[float | None, ...]] = {
    (0, 700.0): (0.79, 0.64, 0.56, 0.54),
    (0, 500.0): (0.75, 0.60, 0.55, 0.54),
    (0, 300.0): (0.71, 0.57, 0.54, 0.53),
    (0, 100.0): (0.61, 0.54, None, 0.51),
    (16, 700.0): (0.81, 0.63, 0.56, 0.54),
    (16, 500.0): (0.77, 0.60, 0.54, 0.53),
    (16, 300.0): (0.73, 0.58, 0.52, 0.51),
    (16, 100.0): (0.61, 0.54, 0.51, 0.51),
    (0, None): (1.00, 1.00, 1.00, 1.00),
    (16, None): (1.00, 1.00, 1.00, 1.00),
}

"""By hidden units and ε; None where our copy of the paper cannot be read."""

_SUM = "The others' items are 0, so the sum is the target's update and the noise of all."

TABLE = Table(
    title="RAIFLE: a user singled out of a secure sum",
    source="Pham et al. 2024, table XI",
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{hidden or 'no'} hidden, {'no noise' if epsilon is None else f'ε = {epsilon:g}'}, "
            f"{many} participants",
            {
                "data": "mq2008",
                "hidden": hidden,
                "habit": "informational",
                "queries": 4,
                "manipulated": True,
                "attack": {"name": "raifle"},
                "epsilon": epsilon,
                "participants": many,
                "times": 4,
            },
            {} if value is None else {"AUC": value},
        )
        for (hidden, epsilon), published in PAPER.items()
        for many, value in zip(PARTICIPANTS, published, strict=True)
    ),
    work="divulge.experiments.raifle_users:searched",
    units=UNITS,
    seeds=SEEDS,
    minutes={"small": 1, "medium": 4, "full": 13},
    differs={
        "small": f"MQ2008 for MQ2007; 96 users a row. {_SUM}",
        "medium": f"MQ2008 for MQ2007; 200 users a row. {_SUM}",
        "full": f"MQ2008 for MQ2007; 800 users a row. {_SUM}",
    },
)
