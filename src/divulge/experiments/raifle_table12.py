"""RAIFLE's table XII: how manipulated images look."""

from divulge.experiments.raifle_images import DIFFERS, MODELS
from divulge.experiments.table import Row, Table

PAPER = {"cifar-network": (0.70, 25.80), "efficientnet-lite0": (0.76, 28.00)}
BESIDE = {"cifar-network": "ResNet18", "efficientnet-lite0": "MNASNet 1.3"}
COLUMNS = ("SSIM", "PSNR")

TABLE = Table(
    title="RAIFLE: manipulated images beside the originals",
    source="Pham et al. 2024, table XII",
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation}" + (f" (paper: {BESIDE[model]})" if published else ""),
            {"model": model, "manipulation": manipulation},
            dict(zip(COLUMNS, PAPER[model], strict=True)) if published else {},
        )
        for model in MODELS
        for manipulation, published in (("fgsm", False), ("raifle", True))
    ),
    work="divulge.experiments.raifle_images:looked_at",
    units="images, and versions are averaged within each",
    kinds={"PSNR": "normal"},
    seeds={"small": 1, "medium": 1, "full": 1},
    minutes={"small": 2, "medium": 40, "full": 600},
    differs=DIFFERS,
    smallest={"SSIM": -1.0},
    largest={"PSNR": 100.0},
    keeps=True,
    deviations=True,
)
