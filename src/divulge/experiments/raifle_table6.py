"""RAIFLE's table VI: recommenders with a penalty on item embeddings, and the older attack."""

from divulge.experiments.raifle_users import COLUMNS, FEWER, SEEDS, UNITS
from divulge.experiments.table import Row, Table

PAPER = {
    ("interaction-search", 0.0): (0.593, 0.671),
    ("raifle", 0.0): (0.983, 0.923),
    ("interaction-search", 1.0): (0.215, 0.206),
    ("raifle", 1.0): (0.382, 0.316),
}

TABLE = Table(
    title="RAIFLE and IMIA: decisions with and without IMIA's defence",
    source="Pham et al. 2024, table VI",
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{name}, {data}, {'L1 defence' if l1 else 'no defence'}",
            {"data": data, "attack": {"name": name}, "l1": l1},
            {"F1": value},
        )
        for (name, l1), values in PAPER.items()
        for data, value in zip(("ml-100k", "steam-200k"), values, strict=True)
    ),
    work="divulge.experiments.raifle_users:recommended",
    units=UNITS,
    pairs=tuple(
        (f"raifle, {data}, {defence}", f"interaction-search, {data}, {defence}")
        for defence in ("no defence", "L1 defence")
        for data in ("ml-100k", "steam-200k")
    ),
    seeds=SEEDS,
    minutes={"small": 1, "medium": 26, "full": 160},
    differs={
        size: f"{text} IMIA is our reading of a description in words; the paper quotes its figures."
        for size, text in FEWER.items()
    },
)
