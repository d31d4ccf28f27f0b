"""Measure accuracy and leakage of models with and without defences, for DAP's tables.

All four tables are columns of one measurement of the same models.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from torch import nn

from divulge._util.json import Settings
from divulge.attacks import catalog
from divulge.audits.challenges.model import pose_view
from divulge.core import Entry, Membership, ModelView, Records, Shadows, Target
from divulge.metrics import membership, signals, utility
from divulge.targets.torch import TorchTarget
from divulge.training.engine.loop import Job
from divulge.training.engine.selection import merit
from divulge.training.recipe import Recipe, Select
from divulge.training.tensors import PoolArrays
from divulge_papers import source
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.papers.dap.data import (
    SIDES,
    Data,
    DataSizes,
    RecordSplit,
    draw_halves,
    split_records,
)
from divulge_papers.papers.dap.grids import PAPER_R, WEIGHTS
from divulge_papers.papers.dap.networks import ClassifierNetwork, NetworkStore
from divulge_papers.papers.dap.training import DefendedModels, PoolTrainer
from divulge_papers.table import Size

_DROPOUT, _L2 = (0.2, 0.33, 0.5), (0.1, 0.01, 0.001)
_PRIVATE = {"optimiser": "sgd", "lr": 1.0, "momentum": 0.9, "batch_size": 256, "epochs": 15}
_HELD_OUT = 1 / 3
_ADAPTIVE = ("lira", "rmia")
_FEW_R = (0.0, 0.025, 0.05, 0.1, 0.2, 0.5)
_ALPHA, _WEIGHT = (0.25, 0.5, 1.0), (1.0, 3.0, 10.0)
"""Values that RelaxLoss and adversarial regularisation are tuned over; neither is in the paper."""


@dataclass(frozen=True, slots=True)
class TrainingScale:
    """Amount of computation at one size of the experiment."""

    sizes: DataSizes
    models: int
    """Even number of models of one pool; each is attacked with all others but its complement."""
    width: int
    """Number of hidden units, or of channels of the first convolution."""
    epochs: int
    patience: int | None
    """Number of epochs without improvement after which a model's training ends, if any."""
    batch_size: int
    lr: float
    shadows: int
    """Number of shadow models that DAP's discriminator learns from."""
    first_r: tuple[float, ...]
    """Values of r that DAP tries for the first model of a pool; for the others `_FEW_R`."""
    l2: tuple[float, ...]
    """Values of l2 that Reg is tuned over, with each dropout of the paper."""
    stored: bool
    """Whether networks that several rows need are stored: where a kill would cost minutes."""


SCALES: Mapping[Size, TrainingScale] = {
    "small": TrainingScale(
        DataSizes(5000, 1000, 64), 6, 128, 12, None, 64, 4e-3, 4, _FEW_R, (0.01,), stored=False
    ),
    "paper": TrainingScale(
        DataSizes(0, 1000, 0), 18, 64, 100, 25, 32, 1e-3, 10, PAPER_R, _L2, stored=True
    ),
}


def measure_defence(
    seed: int,
    size: Size,
    folder: Path,
    *,
    data: Data,
    defence: str = "none",
    select: Select = "accuracy",
    linear: bool = False,
    settings: Settings | None = None,
) -> RowResult:
    """Measure all columns of all tables of defences: means over the models of one pool.

    Args:
        seed: seed of every random choice.
        size: size of the experiment.
        folder: folder that stores the features of images.
        data: data set.
        defence: name of the defence, ``none``, or ``epochs`` for DP-SGD that stops where ε is
            spent.
        select: criterion by which the epoch is chosen, for all training.
        linear: whether the model is a linear one.
        settings: settings of the defence; for DAP also ``public``, the records that its shadows
            are trained on.
    """
    scale, parts = SCALES[size], split_records(seed, data, SCALES[size].sizes, folder)
    recipe = _recipe(scale, data, select, linear=linear)
    undefended = _train_undefended(seed, size, folder, data, select)
    baseline, entries = _measure_undefended(seed, size, folder, data, select)
    if defence == "none" and not linear:
        made, figures = undefended, baseline
    else:
        making = _pool_trainer(seed, size, folder, data)
        made = making.train_all(recipe, defence, settings or {})
        figures, entries = _measure_models(made.modules, parts, making.jobs, recipe)
    less = {
        f"{column}, less the baseline's": figures[column] - baseline[column]
        for column in ("accuracy", "AUC, adaptive", "AOP(2)", "AOP(2), adaptive")
    }
    times = {
        "seconds an epoch": made.epoch,
        "epoch, times the baseline's": made.epoch / undefended.epoch,
        "whole training, times the baseline's": made.whole / undefended.whole,
    }
    every = figures | less | times
    values = {column: [value] for column, value in every.items() if not np.isnan(value)}
    return RowResult(values, entries)


@functools.lru_cache(maxsize=2)
def _train_undefended(
    seed: int, size: Size, folder: Path, data: Data, select: Select
) -> DefendedModels:
    recipe = _recipe(SCALES[size], data, select, linear=False)
    return _pool_trainer(seed, size, folder, data).train_all(recipe, "none", {})


@functools.lru_cache(maxsize=2)
def _measure_undefended(
    seed: int, size: Size, folder: Path, data: Data, select: Select
) -> tuple[dict[str, float], list[Entry]]:
    making = _pool_trainer(seed, size, folder, data)
    modules = _train_undefended(seed, size, folder, data, select).modules
    parts = split_records(seed, data, SCALES[size].sizes, folder)
    return _measure_models(
        modules, parts, making.jobs, _recipe(SCALES[size], data, select, linear=False)
    )


@functools.lru_cache(maxsize=1)
def _pool_trainer(seed: int, size: Size, folder: Path, data: Data) -> PoolTrainer:
    scale = SCALES[size]
    pool, others, _ = split_records(seed, data, scale.sizes, folder)
    drawn = draw_halves(seed, scale.models, len(pool))
    jobs = (Job(np.flatnonzero(half), 1000 * (seed + 1) + k) for k, half in enumerate(drawn))
    grids: dict[str, dict[str, tuple[float, ...]]] = {
        "dap": {"r": _FEW_R},
        "regularise": {"dropout": _DROPOUT, "l2": scale.l2},
        "relaxloss": {"alpha": _ALPHA},
        "adversarial-regularisation": {"weight": _WEIGHT},
    }
    about = f"{seed} {size} {data} {source.code(__name__)}"
    store = NetworkStore(folder / "networks" if scale.stored else None, about)
    return PoolTrainer(
        pool, others, tuple(jobs), grids, scale.first_r, scale.shadows, _PRIVATE, store
    )


def measure_r(
    seed: int, size: Size, folder: Path, *, data: Data, r: float, select: Select
) -> RowResult:
    """Measure DAP_v with one r on the first model of the pool, attacked by its loss alone.

    Args:
        seed: seed of every random choice.
        size: size of the experiment.
        folder: folder that stores the features of images, and networks.
        data: data set.
        r: how much the discriminator counts.
        select: criterion by which the epoch is chosen.
    """
    making = _pool_trainer(seed, size, folder, data)
    pool, job = making.pool, making.jobs[0]
    recipe = _recipe(SCALES[size], data, select, linear=False)
    module = making.train_first(recipe, r)
    fit, held_out = recipe.split_rows(job.rows, job.seed)
    target, test = TorchTarget(module, "logits"), np.setdiff1d(np.arange(len(pool)), job.rows)
    candidates = pool.take(np.concatenate([fit, test]))
    score = signals.compute_signal("loss", target.predict(candidates.x), candidates.y)
    auc = membership.auc(score, np.arange(len(score)) < len(fit)).value
    accuracy = _accuracy(target, pool.take(test))
    data_there = PoolArrays.prepare(pool, module).tensors("cpu")
    figures = {
        "accuracy": accuracy,
        "AUC": auc,
        "AOP(2)": utility.aop(accuracy, auc),
        "AOP(2), held out": merit("aop", module, data_there, fit, held_out),
    }
    return RowResult({column: [value] for column, value in figures.items()})


def _measure_models(
    modules: list[nn.Module], parts: RecordSplit, jobs: tuple[Job, ...], recipe: Recipe
) -> tuple[dict[str, float], list[Entry]]:
    """Attack each model in turn, with others as shadows; return means over models.

    The model trained on the other half of the pool is no shadow: with it, how many shadows were
    trained on a record would tell whether the target was.
    """
    pool, reference = parts.pool, parts.reference
    targets = [TorchTarget(module, "logits") for module in modules]
    phi, reference_phi = (_phi(targets, records) for records in (pool, reference))
    every = np.arange(len(pool))
    drawn = np.stack([np.isin(every, job.rows) for job in jobs], axis=1)
    fit = np.stack([np.isin(every, recipe.split_rows(j.rows, j.seed)[0]) for j in jobs], axis=1)
    rows, entries = [], list[Entry]()
    for k, target in enumerate(targets):
        is_candidate = fit[:, k] | ~drawn[:, k]
        # models 2k and 2k + 1 have the two halves of one split
        others = np.arange(len(targets)) // 2 != k // 2
        shadows = Shadows(
            phi[is_candidate][:, others], fit[is_candidate][:, others], reference_phi[:, others]
        )
        view = ModelView(target, pool.take(np.flatnonzero(is_candidate)), reference, shadows)
        accuracy = _accuracy(target, pool.take(np.flatnonzero(~drawn[:, k])))
        challenge = pose_view(view, Membership(fit[is_candidate, k]))
        attacked = [
            attempt(challenge, catalog.attack(name), jobs[k].seed).entry
            for name in ("threshold", *_ADAPTIVE)
        ]
        rows.append([accuracy, *_rates(attacked)])
        entries += attacked
    accuracy, auc, *adaptive = np.mean(rows, axis=0).tolist()
    attacks = np.array(adaptive).reshape(len(_ADAPTIVE), 3)
    strongest = attacks.max(axis=0)
    figures = {
        "accuracy": accuracy,
        "AUC": auc,
        "AOP(2)": utility.aop(accuracy, auc),  # eq. 4, of means over the pool
        "AUC, adaptive": float(strongest[0]),
        "AOP(2), adaptive": utility.aop(accuracy, float(strongest[0])),
        "TPR at 1 % FPR, adaptive": float(strongest[1]),
        "TPR at 0.1 % FPR, adaptive": float(strongest[2]),
    } | {f"{weight:g} λ": utility.aop(accuracy, float(strongest[0]), weight) for weight in WEIGHTS}
    return figures, entries


def _rates(entries: Sequence[Entry]) -> list[float]:
    """AUC of the threshold; AUC and TPR of each attack with shadows, NaN with too few records."""
    threshold, *adaptive = (entry.finding.metrics for entry in entries)
    rates = [
        metrics[name].value if name in metrics else np.nan
        for metrics in adaptive
        for name in ("auc", "tpr@0.01", "tpr@0.001")
    ]
    return [threshold["auc"].value, *rates]


def _accuracy(target: Target, test: Records) -> float:
    return float((target.predict(test.x).argmax(axis=1) == test.y).mean())


def _phi(models: list[TorchTarget], records: Records) -> Float64[np.ndarray, "records models"]:
    columns = [
        signals.compute_signal("scaled_logit", model.predict(records.x), records.y)
        for model in models
    ]
    return np.stack(columns, axis=1)


def _recipe(scale: TrainingScale, data: Data, select: Select, *, linear: bool) -> Recipe:
    channels = 0 if scale.sizes.components else (1 if data == "fashion_mnist" else 3)
    inputs = scale.sizes.components or channels * SIDES[data] ** 2
    classes = 100 if data == "cifar100" else 10
    network = ClassifierNetwork(channels, inputs, scale.width, classes, linear)
    return Recipe(
        network,
        "adam",
        lr=scale.lr,
        epochs=scale.epochs,
        batch_size=scale.batch_size,
        patience=scale.patience,
        held_out=_HELD_OUT,
        select=select,
    )
