"""Decaf's figure 13, of its tables IX, X, XII and XIII: ResNet18 and VGG16."""

from divulge.experiments import decaf_table5, decaf_table6
from divulge.experiments.decaf_rows import (
    BRIEF,
    COLUMNS,
    FEWER,
    KINDS,
    LARGEST,
    PUBLISHED,
    UNIFORM,
    UNITS,
    differs,
)
from divulge.experiments.table import Row, Size, Table

SEEDS: dict[Size, int] = {"small": 1, "medium": 1, "full": 3}
USERS = {"fer2013": decaf_table6.USERS, "cifar10": decaf_table5.USERS}
PAPER = {
    ("fer2013", "resnet18"): (0.194, 0.063),
    ("fer2013", "vgg16"): (0.234, 0.085),
    ("cifar10", "resnet18"): (0.196, 0.062),
    ("cifar10", "vgg16"): (0.228, 0.078),
}
"""Mean L1 and L∞."""
SHOWN = {
    "the paper's method": PUBLISHED,
    "divulge, refined": BRIEF,
    "uniform over detected classes": UNIFORM,
}

TABLE = Table(
    title="Decaf on larger networks: class shares of users of FER-2013 and CIFAR-10",
    source="Dai et al. 2024, tables IX, X, XII and XIII; our copy does not name their networks: by "
    "the text on figure 13 the larger distances are VGG16's",
    columns=COLUMNS,
    largest=LARGEST,
    rows=tuple(
        Row(
            f"{data}, {network}, {name}",
            {
                "attack": attack,
                "data": data,
                "network": network,
                "users": USERS[data],
                "records": 240,
                "number": 2,
            },
            {"L1": l1, "L∞": largest} if name == "the paper's method" else {},
        )
        for (data, network), (l1, largest) in PAPER.items()
        for name, attack in SHOWN.items()
    ),
    work="divulge.experiments.decaf_users:measured",
    units=UNITS,
    kinds=KINDS,
    pairs=tuple(
        (f"{data}, {network}, divulge, refined", f"{data}, {network}, the paper's method")
        for data, network in PAPER
    ),
    seeds=SEEDS,
    minutes={"small": 2, "medium": 100, "full": 3000},
    differs=differs(
        SEEDS,
        "networks have 1 in 16 of their channels and units at size small, 1 in 4 at medium, and "
        "ResNet18 begins without stride and pooling",
        "240 records a user, the third round",
        FEWER,
    ),
)
