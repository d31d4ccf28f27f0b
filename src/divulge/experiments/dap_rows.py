"""The rows of DAP's tables, and what the paper says of them."""

from collections.abc import Mapping
from typing import Any

from divulge.experiments.table import Row, Size

UNITS = "pools of records, each the mean over its models"
SEEDS: Mapping[Size, int] = {"small": 3, "medium": 5, "full": 5}
MINUTES: Mapping[Size, int] = {"small": 8, "medium": 400, "full": 20000}

_SETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "Fashion-MNIST": "fashion_mnist"}

PAIRS = tuple((f"{title}: baseline, by AOP", f"{title}: DAP_v") for title in _SETS)
"""Plain training, given the choice of the epoch that the paper gives its own method alone."""

Rows = Mapping[str, tuple[str, Mapping[str, Any]]]


def _dap(**settings: Any) -> Mapping[str, Any]:
    return {"defence": "dap", "settings": settings}


def _private(epsilon: float) -> Mapping[str, Any]:
    return {"defence": "dp-sgd", "linear": True, "settings": {"epsilon": epsilon}}


_ROWS: Rows = {
    "baseline": ("Baseline", {}),
    "baseline, a linear model": ("", {"linear": True}),
    "Reg": ("Reg", {"defence": "regularise"}),
    "DP, ε = 0.5": ("0.5", _private(0.5)),
    "DP, ε = 1": ("1", _private(1.0)),
    "DP, ε = 2": ("2", _private(2.0)),
    "DP, ε = 4": ("4", _private(4.0)),
    "DAP_t, learned from the very test set": ("DAP_t", _dap(public="test")),
    "DAP_t, learned from other records": ("", _dap(public="others")),
    "DAP_v": ("DAP_v", _dap()),
    "DAP_v, random discriminator": ("", _dap(discriminator="random")),
}
"""By name: the paper's name of it if it has one, and the settings."""

_FURTHER: Rows = {
    "DP, ε = 4, epoch by epoch": ("", {"defence": "epochs", "settings": {"epsilon": 4.0}}),
    "DAP_v, all samples": ("", _dap(samples="all")),
    "RelaxLoss": ("", {"defence": "relaxloss"}),
    "adversarial regularisation": ("", {"defence": "adversarial-regularisation"}),
    "SELENA": ("", {"defence": "selena", "settings": {"models": 10, "left_out": 4}}),
}
"""More rivals, on the last set alone."""

_NEVER_BY_AOP = (
    *("DP, ε = 0.5", "DP, ε = 1", "DP, ε = 2", "DP, ε = 4, epoch by epoch"),
    *("DAP_t, learned from other records", "DAP_v, all samples"),
)
"""One DP row is enough to see what choosing its epoch would do, which voids the guarantee; and
controls are there for the paper's own choice."""

_COMMON = (
    "A pool of records is drawn for each seed, and models are trained on random halves of it, the "
    "same for all rows; the other half tests a model, and every model is attacked with the others "
    "of its row as shadows. A figure is the mean over seeds of the mean over the models of a pool. "
    "Two thirds of a half are trained on, and the rest is held out, by which the epoch is chosen: "
    "by accuracy, as in the paper, or where a row says so by AOP(2). All epochs are run. Adam, "
    "the same recipe for all rows but DP, which trains a linear model by SGD with 15 epochs of "
    "Poisson batches of 256 and the noise that keeps ε at δ = 1e-5, on the same records, without a "
    "choice of the epoch (with one the guarantee is void); the row epoch by epoch has noise 1.5, "
    "the recipe of all others, and as many epochs as ε allows, at least one. Reg's settings and "
    "DAP's r are found on the first model of a pool. AUC is that of a threshold on the loss, where "
    "the paper takes the best of several attacks. Adaptive is the stronger of LiRA and RMIA by its "
    "mean over a pool, with shadows trained through the same defence, for DAP with the same r and "
    "discriminators of their own. Less the baseline's: than that whose epoch is chosen alike. "
    "Times are of one core, and the paper's of a GPU; an epoch of SELENA is one of all its models. "
)
_FEATURES = (
    "Models are perceptrons of one hidden layer on what EfficientNet-Lite0, pretrained on "
    "ImageNet, sees in the images at twice their size, cut to principal components of records that "
    "no model is trained on; so they start from more than the paper's. "
)
_TUNED = "Reg is tuned over the paper's nine settings, DAP over r of 0.1, 0.25 and 0.5. "

DIFFERS: Mapping[Size, str] = {
    "small": f"{_COMMON}{_FEATURES}64 components of 5,000 images of each set, a hidden layer of "
    "128, 1,000 records a model, 12 epochs, batches of 64, learning rate 4e-3; Reg tuned over the "
    "paper's three dropouts with its l2 of 0.01, DAP over r of 0.1 and 0.5; discriminators of 4 "
    "shadows (the paper: 10), SELENA of 10 models (its paper: 25); 6 models of each pool, 3 seeds.",
    "medium": f"{_COMMON}{_FEATURES}{_TUNED}128 components, a hidden layer of 256, 1,700 records a "
    "model, 20 epochs, batches of 32, learning rate 1e-3, 16 models of each pool, 5 seeds.",
    "full": f"{_COMMON}{_TUNED}Convolutions of 64, 128 and 256 channels, and for DP a linear model "
    "of the pixels; 1,700 records a model, 100 epochs, batches of 32, learning rate 1e-3, 16 "
    "models of each pool, 5 seeds.",
}


def rows(
    column: str, paper: Mapping[str, Mapping[str, float]], against: tuple[str, ...] = ()
) -> tuple[Row, ...]:
    """All rows of the three sets, each as the paper has it and with its epoch chosen by AOP.

    Args:
        column: which of ours the paper has.
        paper: its figures, by set and name of a row.
        against: columns that compare with the baseline, and say nothing of itself.
    """
    return tuple(
        Row(
            f"{title}: {name}",
            {"data": data, **settings},
            {column: paper[title][theirs]} if theirs in paper[title] else {},
            against if name in ("baseline", "baseline, by AOP") else (),
        )
        for title, data in _SETS.items()
        for name, (theirs, settings) in _rows_of(data).items()
    )


def _rows_of(data: str) -> Rows:
    found = {**_ROWS, **_FURTHER} if data == "fashion_mnist" else _ROWS
    by_aop = {
        f"{name}, by AOP": ("", {**settings, "select": "aop"})
        for name, (_, settings) in found.items()
        if name not in _NEVER_BY_AOP
    }
    return {**found, **by_aop}


def figures(*printed: float) -> dict[str, float]:
    """One line of a table of the paper: baseline, Reg, four ε, DAP_t and DAP_v."""
    return dict(
        zip(("Baseline", "Reg", "0.5", "1", "2", "4", "DAP_t", "DAP_v"), printed, strict=True)
    )
