"""Define DAP's tables 1 to 4: accuracy, attacks, AOP(2) and CPU time of defended models."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from divulge._util.json import Settings
from divulge_papers.papers.dap.grids import PAPER_R, WEIGHTS
from divulge_papers.table import Row, Size, Table

UNITS = "pools of records, each the mean over its models"

SEEDS: Mapping[Size, int] = {"small": 3, "paper": 3}

MINUTES: Mapping[Size, int] = {"small": 12, "paper": 10000}


_SETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "Fashion-MNIST": "fashion_mnist"}


_RIVALS = ("baseline", "DAP_v, random discriminator")


PAIRS = tuple(
    (f"{title}: {rival}{how}", f"{title}: DAP_v{how}")
    for title in _SETS
    for rival in _RIVALS
    for how in ("", ", by AOP")
)
"""Pairs of rows to compare: a rival and DAP_v, whose epoch is chosen alike."""


Rows = Mapping[str, tuple[str, Settings]]


def _dap_settings(**settings: Any) -> Settings:
    return {"defence": "dap", "settings": settings}


def _dp_settings(epsilon: float) -> Settings:
    return {"defence": "dp-sgd", "linear": True, "settings": {"epsilon": epsilon}}


_ROWS: Rows = {
    "baseline": ("Baseline", {}),
    "baseline, a linear model": ("", {"linear": True}),
    "Reg": ("Reg", {"defence": "regularise"}),
    "DP, ε = 0.5": ("0.5", _dp_settings(0.5)),
    "DP, ε = 1": ("1", _dp_settings(1.0)),
    "DP, ε = 2": ("2", _dp_settings(2.0)),
    "DP, ε = 4": ("4", _dp_settings(4.0)),
    "DAP_t, learned from the very test set": ("DAP_t", _dap_settings(public="test")),
    "DAP_t, learned from other records": ("", _dap_settings(public="others")),
    "DAP_v": ("DAP_v", _dap_settings()),
    "DAP_v, random discriminator": ("", _dap_settings(discriminator="random")),
}
"""Rows by name: the paper's name of the row, empty if it has none, and the settings."""


_EXTRA_ROWS: Rows = {
    "DP, ε = 4, epoch by epoch": ("", {"defence": "epochs", "settings": {"epsilon": 4.0}}),
    "DAP_v, all samples": ("", _dap_settings(samples="all")),
    "RelaxLoss": ("", {"defence": "relaxloss"}),
    "adversarial regularisation": ("", {"defence": "adversarial-regularisation"}),
    "SELENA": ("", {"defence": "selena", "settings": {"models": 10, "left_out": 4}}),
}
"""Further defences, measured on the last data set alone."""


_NEVER_BY_AOP = (
    *("DP, ε = 0.5", "DP, ε = 1", "DP, ε = 2", "DP, ε = 4, epoch by epoch"),
    *("DAP_t, learned from other records", "DAP_v, all samples"),
)
"""Rows that are not repeated with the epoch chosen by AOP: one DP row is enough to see the effect
of that choice, which voids the guarantee, and controls are for the paper's own choice."""


_WEIGHTS: Mapping[str, float] = {
    "baseline, a linear model": 0.1,
    "Reg": 9.0,
    "DP, ε = 0.5": 0.1,
    "DP, ε = 1": 0.1,
    "DP, ε = 2": 0.1,
    "DP, ε = 4": 0.1,
    "DP, ε = 4, epoch by epoch": 5.0,
    "DAP_t, learned from the very test set": 14.0,
    "DAP_t, learned from other records": 8.0,
    "DAP_v": 10.0,
    "DAP_v, random discriminator": 10.0,
    "DAP_v, all samples": 10.0,
    "RelaxLoss": 3.0,
    "adversarial regularisation": 6.0,
    "SELENA": 7.0,
}
"""Cost of a row at size paper relative to plain training, which is 1."""


_COMMON = (
    "A pool of records is drawn for each seed, and models are trained on random halves of it, "
    "the same for all rows; the other half tests a model, and every model is attacked with the "
    "others of its row as shadows, but for the one trained on that other half. A figure is the "
    "mean over seeds of the mean over the models of a pool. Two thirds of a half are trained on, "
    "and the rest is held out, by which the epoch is chosen: by accuracy, as in the paper, or "
    "where a row says so by AOP(2). Compare rows whose epoch is chosen alike, as the pairs below "
    "are. Adam, the same recipe for all rows but DP, which trains a linear model by SGD with 15 "
    "epochs of Poisson batches of 256 and the noise that keeps ε at δ = 1e-5, on the same "
    "records, without a choice of the epoch (with one the guarantee is void); the row epoch by "
    "epoch has noise 1.5, the recipe of all others, and as many epochs as ε allows, at least "
    "one. Settings that are tuned (DAP's r, Reg's dropout and l2, RelaxLoss' level, the weight "
    "of adversarial regularisation) are chosen for each model as its deployer would, by AOP(2) "
    "on the model's own held-out records. AUC is that of a threshold on the loss, where the "
    "paper takes the best of several attacks. Adaptive is the stronger of LiRA and RMIA by its "
    "mean over a pool, with shadows trained through the same defence, each with a choice, and "
    "for DAP a discriminator, of its own. Less the baseline's: than that whose epoch is chosen "
    "alike. Whole training is that of a deployer: shadows, discriminator, and a model a setting. "
    "Times are of one core, and the paper's of a GPU; an epoch of SELENA is one of all its "
    "models. EuroSAT, TinyImageNet, Oxford Flowers, STL-10 and CINIC-10 are not measured: they "
    "are not among the data sets at hand, and the paper's average over all eight has no "
    "counterpart. "
)

_FEATURES = (
    "Models are perceptrons of one hidden layer on what EfficientNet-Lite0, pretrained on "
    "ImageNet, sees in the images at twice their size, cut to principal components of records that "
    "no model is trained on; so they start from more than the paper's. "
)

_TUNED = (
    "RelaxLoss is tuned over 0.25, 0.5 and 1, adversarial regularisation over 1, 3 and 10; neither "
    "is in the paper. "
)


DIFFERS: Mapping[Size, str] = {
    "small": f"{_COMMON}{_FEATURES}{_TUNED}64 components of 5,000 images of each set, a hidden "
    "layer of 128, 1,000 records a model, all of 12 epochs, batches of 64, learning rate 4e-3; Reg "
    "tuned over the paper's three dropouts with its l2 of 0.01, DAP over six of the paper's 41 r "
    "(0, 0.025, 0.05, 0.1, 0.2 and 0.5); discriminators of 4 shadows (the paper: 10), SELENA of 10 "
    "models (its paper: 25); 6 models of each pool, 3 seeds.",
    "paper": f"{_COMMON}{_TUNED}The paper's network (convolutions of 64, 128 and 256 channels), "
    "images at their size, at most 100 epochs with its patience of 25, batches of 32, Adam at "
    "1e-3 (the largest of its three rates), 10 shadows, and all nine settings of Reg. The first "
    "model of a pool tries the paper's 41 r, the others, which are its shadows, six of them (0, "
    "0.025, 0.05, 0.1, 0.2 and 0.5): all 41 would take 17 x 35 models more. For DP a linear model "
    "of the pixels. 1,000 records a model, where the paper has whole data sets; 18 models of a "
    "pool, so that each is attacked with 16 shadows. Convolutions multiply in bfloat16 and add in "
    "float32 where the processor can, and multiply in float32 elsewhere. SELENA of 10 models (its "
    "paper: 25). 3 seeds.",
}


def rows(
    column: str, paper: Mapping[str, Mapping[str, float]], against: tuple[str, ...] = ()
) -> tuple[Row, ...]:
    """List all rows of the three sets, each as in the paper and with its epoch chosen by AOP.

    Args:
        column: column of ours for which the paper has figures.
        paper: published figures by data set and name of the row.
        against: columns that compare with the baseline, which are fixed for the baseline itself.
    """
    return tuple(
        Row(
            f"{title}: {name}",
            {"data": data, **settings},
            {column: paper[title][theirs]} if theirs in paper[title] else {},
            against if name in ("baseline", "baseline, by AOP") else (),
            _WEIGHTS.get(name.removesuffix(", by AOP"), 1.0),
        )
        for title, data in _SETS.items()
        for name, (theirs, settings) in _rows_of(data).items()
    )


def _rows_of(data: str) -> Rows:
    named = {**_ROWS, **_EXTRA_ROWS} if data == "fashion_mnist" else _ROWS
    by_aop = {
        f"{name}, by AOP": ("", {**settings, "select": "aop"})
        for name, (_, settings) in named.items()
        if name not in _NEVER_BY_AOP
    }
    return {**named, **by_aop}


def paper_figures(*printed: float) -> dict[str, float]:
    """Name the figures of one line of the paper: baseline, Reg, four ε, DAP_t and DAP_v."""
    return dict(
        zip(("Baseline", "Reg", "0.5", "1", "2", "4", "DAP_t", "DAP_v"), printed, strict=True)
    )


_define_table = partial(
    Table,
    data=(*_SETS.values(), "vision-extractor"),
    work="divulge_papers.papers.dap.study:measure_defence",
    units=UNITS,
    nested=False,
    seeds=SEEDS,
    minutes=MINUTES,
    differs=DIFFERS,
    keeps=True,
)
"""Define a table by what differs from the others of this paper."""


_TABLE_1_PAPER = {
    "CIFAR-10": paper_figures(0.784, 0.811, 0.313, 0.374, 0.417, 0.418, 0.624, 0.613),
    "CIFAR-100": paper_figures(0.481, 0.532, 0.039, 0.083, 0.090, 0.072, 0.315, 0.276),
    "Fashion-MNIST": paper_figures(0.932, 0.926, 0.605, 0.701, 0.736, 0.774, 0.866, 0.871),
}

_TABLE_1_COLUMNS = ("accuracy", "accuracy, less the baseline's")

_TABLE_1_AGAINST = ("accuracy, less the baseline's",)


TABLE_1 = _define_table(
    title="Accuracy of defended models on test sets",
    source="Lomurno et al. 2023, table 1",
    columns=_TABLE_1_COLUMNS,
    rows=rows("accuracy", _TABLE_1_PAPER, _TABLE_1_AGAINST),
    kinds=dict.fromkeys(_TABLE_1_COLUMNS, "normal"),
    pairs=PAIRS,
    smallest=dict.fromkeys(_TABLE_1_AGAINST, -1.0),
)

_TABLE_2_PAPER = {
    "CIFAR-10": paper_figures(0.648, 0.631, 0.505, 0.526, 0.519, 0.503, 0.507, 0.505),
    "CIFAR-100": paper_figures(0.603, 0.621, 0.501, 0.515, 0.507, 0.506, 0.516, 0.506),
    "Fashion-MNIST": paper_figures(0.552, 0.562, 0.502, 0.502, 0.504, 0.505, 0.507, 0.506),
}

_TABLE_2_COLUMNS = (
    "AUC",
    "AUC, adaptive",
    "AUC, adaptive, less the baseline's",
    "TPR at 1 % FPR, adaptive",
    "TPR at 0.1 % FPR, adaptive",
)

_TABLE_2_AGAINST = ("AUC, adaptive, less the baseline's",)


TABLE_2 = _define_table(
    title="AUC of membership inference on defended models",
    source="Lomurno et al. 2023, table 2",
    columns=_TABLE_2_COLUMNS,
    rows=rows("AUC", _TABLE_2_PAPER, _TABLE_2_AGAINST),
    kinds=dict.fromkeys(_TABLE_2_COLUMNS, "normal"),
    pairs=PAIRS,
    smallest=dict.fromkeys(_TABLE_2_AGAINST, -1.0),
)

_TABLE_3_PAPER = {
    "CIFAR-10": paper_figures(0.467, 0.509, 0.307, 0.338, 0.387, 0.413, 0.607, 0.601),
    "CIFAR-100": paper_figures(0.331, 0.345, 0.039, 0.078, 0.087, 0.070, 0.296, 0.269),
    "Fashion-MNIST": paper_figures(0.765, 0.733, 0.600, 0.695, 0.724, 0.759, 0.842, 0.850),
}

_TABLE_3_COLUMNS = (
    "AOP(2)",
    "AOP(2), less the baseline's",
    "AOP(2), adaptive",
    "AOP(2), adaptive, less the baseline's",
)

_TABLE_3_AGAINST = (
    "AOP(2), less the baseline's",
    "AOP(2), adaptive, less the baseline's",
)


TABLE_3 = _define_table(
    title="AOP(2) of defended models",
    source="Lomurno et al. 2023, table 3",
    columns=_TABLE_3_COLUMNS,
    rows=rows("AOP(2)", _TABLE_3_PAPER, _TABLE_3_AGAINST),
    kinds=dict.fromkeys(_TABLE_3_COLUMNS, "normal"),
    pairs=PAIRS,
    smallest=dict.fromkeys(_TABLE_3_AGAINST, -1.0),
)

_TABLE_4_PAPER = {
    "CIFAR-10": paper_figures(5.6, 5.9, 46.5, 46.5, 46.5, 46.5, 17.8, 17.7),
    "CIFAR-100": paper_figures(8.9, 9.5, 48.2, 48.2, 48.2, 48.2, 17.9, 17.9),
    "Fashion-MNIST": paper_figures(12.1, 11.7, 53.2, 53.2, 53.2, 53.2, 23.4, 23.5),
}

_TABLE_4_COLUMNS = (
    "seconds an epoch",
    "epoch, times the baseline's",
    "whole training, times the baseline's",
)

_TABLE_4_AGAINST = (
    "epoch, times the baseline's",
    "whole training, times the baseline's",
)


TABLE_4 = _define_table(
    title="CPU seconds of training",
    source="Lomurno et al. 2023, table 4",
    columns=_TABLE_4_COLUMNS,
    rows=rows("seconds an epoch", _TABLE_4_PAPER, _TABLE_4_AGAINST),
    kinds=dict.fromkeys(_TABLE_4_COLUMNS, "normal"),
    largest={
        "seconds an epoch": 1e4,
        "epoch, times the baseline's": 1e4,
        "whole training, times the baseline's": 1e5,
    },
)


_DRAWN = (
    *("baseline, by AOP", "DP, ε = 4", "DAP_t, learned from the very test set, by AOP"),
    *("DAP_v, by AOP", "SELENA, by AOP"),
)

_FIGURE_2_COLUMNS = tuple(f"{weight:g} λ" for weight in WEIGHTS)


FIGURE_2 = _define_table(
    title="AOP(λ) of defended models by the stronger adaptive attack",
    source="Lomurno et al. 2023, figure 2: the formula alone, without figures",
    columns=_FIGURE_2_COLUMNS,
    rows=rows("", {title: {} for title in _SETS}),
    kinds=dict.fromkeys(_FIGURE_2_COLUMNS, "normal"),
    pairs=PAIRS,
    drawn=tuple(f"Fashion-MNIST: {name}" for name in _DRAWN),
    measures="AOP(λ), adaptive",
)


_R_COLUMNS = ("accuracy", "AUC", "AOP(2)", "AOP(2), held out")

_R_DIFFERS = (
    "No table of the paper: it tries these 41 values of r and prints the best. DAP_v, the epoch "
    "chosen by AOP(2); one model of each seed, the one on which the other tables choose r: its "
    "held-out records choose, and as many others test. "
)


R = _define_table(
    title="DAP_v by r, how much the discriminator counts",
    source="Lomurno et al. 2023, section 4, without figures by r",
    columns=_R_COLUMNS,
    rows=tuple(
        Row(f"{title}: r = {r:g}", {"data": data, "r": r, "select": "aop"})
        for title, data in _SETS.items()
        for r in PAPER_R
    ),
    work="divulge_papers.papers.dap.study:measure_r",
    units="models",
    pairs=tuple(
        (f"{title}: r = {r:g}", f"{title}: r = 0") for title in _SETS for r in PAPER_R if r
    ),
    kinds=dict.fromkeys(_R_COLUMNS, "normal"),
    minutes={"small": 2, "paper": 260},
    differs={
        "small": f"{_R_DIFFERS}{_FEATURES}Other settings as in the tables of the same size.",
        "paper": f"{_R_DIFFERS}Other settings as in the tables of the same size.",
    },
)
