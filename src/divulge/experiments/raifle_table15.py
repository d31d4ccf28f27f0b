"""RAIFLE's table XV: noise on the updates of users who upvote images."""

from divulge.experiments.raifle_images import COLUMNS, DIFFERS, MODELS, UNITS, Manipulation
from divulge.experiments.table import Row, Table

PAPER: dict[tuple[float, Manipulation], tuple[int, ...]] = {
    (500.0, "none"): (597, 561, 535, 573, 546, 525, 599, 555, 534, 616, 573, 539),
    (500.0, "raifle"): (605, 568, 541, 584, 554, 531, 605, 562, 541, 627, 584, 543),
    (100.0, "none"): (549, 527, 516, 531, 520, 511, 545, 524, 514, 550, 533, 517),
    (100.0, "raifle"): (555, 535, 519, 537, 523, 513, 547, 526, 514, 554, 532, 519),
    (20.0, "none"): (518, 511, 505, 507, 505, 503, 517, 505, 505, 518, 509, 504),
    (20.0, "raifle"): (520, 510, 506, 514, 507, 504, 517, 508, 505, 518, 511, 506),
    (1.0, "none"): (499, 502, 500, 500, 499, 499, 504, 500, 501, 499, 503, 501),
    (1.0, "raifle"): (499, 504, 501, 503, 503, 503, 502, 501, 499, 501, 500, 500),
}  # fmt: skip
"""Of ResNet18, in thousandths."""

TABLE = Table(
    title="RAIFLE: upvotes of images under local differential privacy",
    source="Pham et al. 2024, table XV",
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation}, ε = {epsilon:g}",
            {"model": model, "manipulation": manipulation, "epsilon": epsilon},
            {c: value / 1000 for c, value in zip(COLUMNS, published, strict=True)},
        )
        for model in MODELS
        for (epsilon, manipulation), published in PAPER.items()
    ),
    work="divulge.experiments.raifle_images:reconstructed",
    units=UNITS,
    pairs=tuple(
        (f"{model}, raifle, ε = {epsilon:g}", f"{model}, none, ε = {epsilon:g}")
        for model in MODELS
        for epsilon, manipulation in PAPER
        if manipulation == "raifle"
    ),
    seeds={"small": 1, "medium": 1, "full": 1},
    minutes={"small": 3, "medium": 300, "full": 2400},
    differs={
        size: f"{text} The paper's figures are those of ResNet18." for size, text in DIFFERS.items()
    },
    keeps=True,
    deviations=True,
)
