"""Models with and without defences, as DAP's tables have them: what they are worth, and what leaks.

All four tables are columns of one measurement of the same models.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from leakscope import auditing, catalog
from leakscope.attacks import signals
from leakscope.core import Challenge, Membership, ModelView, Records, Shadows, Target, Trainer
from leakscope.experiments.data import images
from leakscope.experiments.table import Size
from leakscope.metrics import tradeoff
from leakscope.randomness import stream
from leakscope.training.recipe import Recipe, Select

if TYPE_CHECKING:
    from torch import nn

    from leakscope.training.loop import Job

Data = Literal["cifar10", "cifar100", "fashion_mnist"]
Public = Literal["held out", "test", "others"]

_DROPOUT, _L2 = (0.2, 0.33, 0.5), (0.1, 0.01, 0.001)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How much is computed."""

    records: int
    """Of one model, those held out included; as many more are the test set."""
    shadows: int
    epochs: int
    side: Mapping[Data, int]
    width: int
    """Of the convolutions, as multiples of it; 0 is a perceptron."""
    l2: tuple[float, ...]
    """That Reg is tuned over, with each dropout of the paper."""
    r: tuple[float, ...] = (0.1, 0.25, 0.5)
    """That DAP tries."""


_PARTS: Mapping[Data, int] = {"cifar10": 8, "cifar100": 8, "fashion_mnist": 14}
_WHOLE: Mapping[Data, int] = {"cifar10": 32, "cifar100": 32, "fashion_mnist": 28}
_SCALES: Mapping[Size, _Scale] = {
    "small": _Scale(450, 4, 20, _PARTS, 0, (0.01,), (0.1, 0.5)),
    "medium": _Scale(1500, 8, 60, {"cifar10": 16, "cifar100": 16, "fashion_mnist": 14}, 16, _L2),
    "full": _Scale(1500, 16, 100, _WHOLE, 64, _L2),
}
_HELD_OUT = 1 / 3


class _World(NamedTuple):
    """The same records for all rows."""

    candidates: Records
    """The target's, and as many others: the test set."""
    chosen: Bool[np.ndarray, " candidates"]
    """Which are the target's."""
    others: Records
    """As many as the test set: what DAP_t may learn from without spoiling the test."""
    reference: Records


def measured(
    seed: int,
    size: Size,
    *,
    data: Data,
    defence: str = "none",
    select: Select = "accuracy",
    settings: Mapping[str, Any] | None = None,
    public: Public = "held out",
) -> dict[str, list[float]]:
    """All columns of all four tables.

    Args:
        seed: of everything.
        size: how much is computed.
        data: which images.
        defence: its name, ``none``, or ``epochs`` for DP-SGD that stops where ε is spent.
        select: by what the epoch is chosen, for whatever is trained.
        settings: of the defence.
        public: what DAP's shadows are trained on.
    """
    from leakscope.experiments.dap_making import PRIVATE, Making
    from leakscope.targets.torch import TorchTarget
    from leakscope.training.loop import Job

    scale, world = _SCALES[size], _world(seed, size, data)
    pool, chosen = world.candidates, world.chosen
    recipe = _recipe(scale, data, select)
    how = dict(settings or {}) | ({"r": scale.r} if defence == "dap" else {})
    if public != "held out":
        how["public"] = pool.take(np.flatnonzero(~chosen)) if public == "test" else world.others
    job = Job(np.flatnonzero(chosen), seed)
    making = Making(pool, job, recipe, {"dropout": _DROPOUT, "l2": scale.l2})
    undefended = making.timed("none", {})
    made = making.timed(defence, how)
    target = TorchTarget(made.module, "logits")
    accuracy = _accuracy(target, pool.take(np.flatnonzero(~chosen)))
    fit = _fitted(recipe, job)
    asked = fit | ~chosen
    view = ModelView(target, pool.take(np.flatnonzero(asked)), world.reference)
    auc = _rates(view, fit[asked], "threshold")["auc"]
    found = {
        "accuracy": accuracy,
        "AUC": auc,
        "AOP(2)": tradeoff.aop(accuracy, auc),
        "seconds an epoch": made.epoch,
        "epoch, times the baseline's": made.epoch / undefended.epoch,
        "whole training, times the baseline's": made.whole / undefended.whole,
    }
    if size != "small" or defence not in PRIVATE:
        drawn = _halves(seed, scale.shadows, len(pool))
        view = replace(view, shadows=_shadows(view, made.alike, pool, recipe, drawn, asked))
        rates = _rates(view, fit[asked], "rmia")
        found["AUC, adaptive"] = rates["auc"]
        found["TPR at 1 % FPR, adaptive"] = rates["tpr@0.01"]
        found["AOP(2), adaptive"] = tradeoff.aop(accuracy, rates["auc"])
    return {column: [value] for column, value in found.items()}


class _Halves(NamedTuple):
    """What shadows are trained on, and with which seeds."""

    subsets: Bool[np.ndarray, "models records"]
    seeds: list[int]


def _halves(seed: int, count: int, total: int) -> _Halves:
    """Pairs of a half and the other one: each candidate is drawn for half of the shadows."""
    drawn = stream(seed, "halves of the candidates")
    halves = [drawn.permutation(total) < total // 2 for _ in range(count // 2)]
    subsets = np.stack([half for one in halves for half in (one, ~one)])
    return _Halves(subsets, [1000 * (seed + 1) + k for k in range(len(subsets))])


def _shadows(
    view: ModelView,
    trainer: Trainer,
    pool: Records,
    recipe: Recipe,
    drawn: _Halves,
    asked: Bool[np.ndarray, " candidates"],
) -> Shadows:
    """What models say that were trained as the target was; who was held out is no member."""
    from leakscope.training.loop import Job

    assert view.reference is not None
    models = list(trainer.many(pool, drawn.subsets, drawn.seeds))
    jobs = [Job(np.flatnonzero(s), k) for s, k in zip(*drawn, strict=True)]
    member = np.stack([_fitted(recipe, job)[asked] for job in jobs], axis=1)
    return Shadows(_phi(models, view.records), member, _phi(models, view.reference))


def _accuracy(target: Target, test: Records) -> float:
    return float((target.predict(test.x).argmax(axis=1) == test.y).mean())


def _fitted(recipe: Recipe, job: "Job") -> Bool[np.ndarray, " candidates"]:
    """Which candidates were learned from, and not held out; they are twice a model's records."""
    fit, _ = recipe.parts(job.rows, job.seed)
    return np.isin(np.arange(2 * len(job.rows)), fit)


def _rates(view: ModelView, member: Bool[np.ndarray, " records"], attack: str) -> dict[str, float]:
    finding = auditing.run(Challenge(view, Membership(member)), catalog.attack(attack), 0).finding
    return {name: estimate.value for name, estimate in finding.metrics.items()}


def _phi(models: list[Target], records: Records) -> Float64[np.ndarray, "records models"]:
    columns = [
        signals.compute("scaled_logit", model.predict(records.x), records.y) for model in models
    ]
    return np.stack(columns, axis=1)


@functools.lru_cache(maxsize=8)
def _world(seed: int, size: Size, data: Data) -> _World:
    scale = _SCALES[size]
    records = _records(data, scale.side[data], flat=not scale.width)
    order = stream(seed, "parts").permutation(len(records))
    edges = np.cumsum([2 * scale.records, scale.records, scale.records // 2])
    candidates, others, reference, _ = (records.take(part) for part in np.split(order, edges))
    return _World(candidates, np.arange(len(candidates)) < scale.records, others, reference)


@functools.lru_cache(maxsize=3)
def _records(data: Data, side: int, *, flat: bool) -> Records:
    found = images(data, side)
    return Records(found.x.reshape(len(found), -1), found.y) if flat else found


def _recipe(scale: _Scale, data: Data, select: Select) -> Recipe:
    channels = 1 if data == "fashion_mnist" else 3
    classes = 100 if data == "cifar100" else 10
    network = functools.partial(_network, channels, scale.side[data], scale.width, classes)
    return Recipe(
        network,
        "adam",
        lr=1e-3,
        epochs=scale.epochs,
        batch_size=32,
        held_out=_HELD_OUT,
        select=select,
    )


def _network(channels: int, side: int, width: int, classes: int) -> "nn.Module":
    from torch import nn

    if not width:
        wide = nn.Linear(channels * side**2, 256)
        return nn.Sequential(wide, nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, classes))
    layers: list[nn.Module] = []
    for inside, outside in ((channels, width), (width, 2 * width), (2 * width, 4 * width)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers[:-1], *pooled, nn.Linear(4 * width, classes))
