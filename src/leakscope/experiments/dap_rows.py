"""The rows of DAP's tables, and what the paper says of them."""

from collections.abc import Mapping
from typing import Any

from leakscope.experiments.table import Row, Size

SEEDS: Mapping[Size, int] = {"small": 2, "medium": 3, "full": 5}
MINUTES: Mapping[Size, int] = {"small": 6, "medium": 600, "full": 9000}

_SETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "Fashion-MNIST": "fashion_mnist"}

_AOP = {"select": "aop"}
_RANDOM = {"defence": "dap", "settings": {"discriminator": "random"}}
_ADVERSARY = {"defence": "adversarial-regularisation"}

_ROWS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "baseline": ("Baseline", {}),
    "Reg": ("Reg", {"defence": "regularise"}),
    "DP, ε = 0.5": ("0.5", {"defence": "epochs", "settings": {"epsilon": 0.5}}),
    "DP, ε = 1": ("1", {"defence": "epochs", "settings": {"epsilon": 1.0}}),
    "DP, ε = 2": ("2", {"defence": "epochs", "settings": {"epsilon": 2.0}}),
    "DP, ε = 4": ("4", {"defence": "epochs", "settings": {"epsilon": 4.0}}),
    "DAP_t, learned from the very test set": ("DAP_t", {"defence": "dap", "public": "test"}),
    "DAP_t, learned from other records": ("", {"defence": "dap", "public": "others"}),
    "DAP_v": ("DAP_v", {"defence": "dap"}),
    "DAP_v, random discriminator": ("", _RANDOM),
    "baseline, by AOP": ("", _AOP),
}
"""By name: the paper's name of it if it has one, and the settings."""

_FURTHER: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "DP, ε = 4, noise for 20 epochs": ("", {"defence": "dp-sgd", "settings": {"epsilon": 4.0}}),
    "DAP_v, all samples": ("", {"defence": "dap", "settings": {"samples": "all"}}),
    "RelaxLoss": ("", {"defence": "relaxloss"}),
    "adversarial regularisation": ("", _ADVERSARY),
    "Reg, by AOP": ("", {"defence": "regularise", **_AOP}),
    "DAP_v, by AOP": ("", {"defence": "dap", **_AOP}),
    "DAP_v, random discriminator, by AOP": ("", {**_RANDOM, **_AOP}),
    "RelaxLoss, by AOP": ("", {"defence": "relaxloss", **_AOP}),
    "adversarial regularisation, by AOP": ("", {**_ADVERSARY, **_AOP}),
}
"""More rivals, on the last set alone."""

_COMMON = (
    "One architecture for all rows; Adam, learning rate 1e-3, batches of 32. A model gets as many "
    "records as there are test records; two thirds are trained on, and the rest is held out, by "
    "which the epoch is chosen: by accuracy, as in the paper, or where a row says so by AOP(2). "
    "All epochs are run, without patience. DP has noise 3.0 and as many epochs as ε allows at "
    "δ = 1e-5, a guarantee that the choice of the epoch voids. AUC is that of a threshold on the "
    "loss, where the paper takes the best of several attacks. The adaptive attack is RMIA with "
    "shadows trained through the same defence; for DAP against the target's own discriminator with "
    "its r, which the attacker is given. Times are of one core, and the paper's of a GPU. "
)
_TUNED = "Reg is tuned over the paper's nine settings, DAP over r of 0.1, 0.25 and 0.5. "

DIFFERS: Mapping[Size, str] = {
    "small": f"{_COMMON}Images averaged to 8 x 8 (CIFAR) or 14 x 14 pixels, a perceptron of 256 "
    "and 64 in place of the convolutional network, 450 records a model, 20 epochs, Reg tuned over "
    "the paper's three dropouts with its l2 of 0.01, DAP over r of 0.1 and 0.5, 4 shadows (none "
    "for DP), 2 seeds.",
    "medium": f"{_COMMON}{_TUNED}Images averaged to 16 x 16 or 14 x 14 pixels, convolutions of 16, "
    "32 and 64 channels, 1,500 records a model, 60 epochs, 8 shadows, 3 seeds.",
    "full": f"{_COMMON}{_TUNED}Images as they are and convolutions of 64, 128 and 256 channels, "
    "but 1,500 records a model, 100 epochs, 16 shadows, 5 seeds.",
}


def rows(column: str, paper: Mapping[str, Mapping[str, float]]) -> tuple[Row, ...]:
    """All rows of the three sets.

    Args:
        column: which of ours the paper has.
        paper: its figures, by set and name of a row.
    """
    return tuple(
        Row(
            f"{title}: {name}",
            {"data": data, **settings},
            {column: paper[title][theirs]} if theirs in paper[title] else {},
        )
        for title, data in _SETS.items()
        for name, (theirs, settings) in _rows_of(data).items()
    )


def _rows_of(data: str) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    return {**_ROWS, **_FURTHER} if data == "fashion_mnist" else _ROWS


def figures(*printed: float) -> dict[str, float]:
    """One line of a table of the paper: baseline, Reg, four ε, DAP_t and DAP_v."""
    return dict(
        zip(("Baseline", "Reg", "0.5", "1", "2", "4", "DAP_t", "DAP_v"), printed, strict=True)
    )
