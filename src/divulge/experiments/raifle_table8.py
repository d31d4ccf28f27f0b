"""RAIFLE's table VIII: users who upvote images."""

from divulge.experiments.raifle_images import COLUMNS, DIFFERS, MANIPULATIONS, MODELS, UNITS
from divulge.experiments.table import Row, Table

PAPER = {
    "ResNet18": {
        "none": (1000, 916, 767, 921, 868, 771, 985, 945, 857, 999, 985, 924),
        "fgsm": (1000, 915, 766, 914, 857, 759, 981, 934, 841, 998, 977, 906),
        "raifle": (1000, 943, 772, 946, 920, 823, 993, 981, 922, 1000, 998, 978),
    },
    "MNASNet 1.3": {
        "none": (994, 895, 764, 936, 858, 754, 985, 926, 787, 996, 942, 775),
        "fgsm": (989, 885, 758, 930, 845, 742, 982, 913, 771, 994, 928, 755),
        "raifle": (1000, 939, 775, 940, 882, 791, 991, 965, 875, 999, 992, 924),
    },
}  # fmt: skip
"""In thousandths, of the models with the fewest features and with the most."""
BESIDE = dict(zip(MODELS, PAPER, strict=True))

TABLE = Table(
    title="RAIFLE: upvotes of images",
    source="Pham et al. 2024, table VIII",
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation} (paper: {BESIDE[model]})",
            {"model": model, "manipulation": manipulation},
            {c: p / 1000 for c, p in zip(COLUMNS, PAPER[BESIDE[model]][manipulation], strict=True)},
        )
        for model in MODELS
        for manipulation in MANIPULATIONS
    ),
    work="divulge.experiments.raifle_images:reconstructed",
    units=UNITS,
    pairs=tuple(
        (f"{model}, {one} (paper: {BESIDE[model]})", f"{model}, none (paper: {BESIDE[model]})")
        for model in MODELS
        for one in ("fgsm", "raifle")
    ),
    seeds={"small": 1, "medium": 1, "full": 1},
    minutes={"small": 3, "medium": 120, "full": 900},
    differs=DIFFERS,
    keeps=True,
    deviations=True,
)
