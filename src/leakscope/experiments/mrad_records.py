"""Attacks on over-fitted models by who knows only parts of each record."""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float64

from leakscope import auditing, catalog
from leakscope.attacks import signals
from leakscope.core import (
    Challenge,
    Membership,
    ModelView,
    Records,
    ShadowModel,
    Shadows,
    Target,
)
from leakscope.data import partial
from leakscope.data.masks import Fill, Known, Pattern
from leakscope.errors import NotApplicable
from leakscope.experiments.data import images, location_30
from leakscope.experiments.table import Row, Size
from leakscope.randomness import stream
from leakscope.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

Data = Literal["fashion_mnist", "location30"]

MISSING = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COLUMNS = tuple(f"{100 * missing:.0f} % missing" for missing in MISSING)
SEEDS: Mapping[Size, int] = {"small": 3, "medium": 5, "full": 10}

SETUP = (
    "The paper's figure is of STL-10 and a ResNet50; its tables were not at hand. Here: 500 "
    "training records, as many non-members, 1,000 records of the attacker's, features missing at "
    "random in each record unless said otherwise; shadows are trained on 500 other records each, "
    "and asked about the filled-in candidates."
)

_SHADOWS: Mapping[Size, int] = {"small": 8, "medium": 16, "full": 64}
_SIZE = 500  # records that each model is trained on

_MRAD = {"name": "mrad"}
_FEW = {**_MRAD, "access": "answers", "directions": 9, "iterations": 10, "step": 100.0}
_ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "MRAD, CADE": {"attack": _MRAD},
    "MRAD, MSAD": {"attack": {**_MRAD, "detector": "msad"}},
    "MRAD, NCI": {"attack": {**_MRAD, "detector": "nci"}},
    "MRAD, CADE in features": {"attack": {**_MRAD, "space": "features"}},
    "MRAD, CADE, ratio to a shadow": {"attack": _MRAD, "shadow": True},
    "MRAD, NCI, less a shadow's": {"attack": {**_MRAD, "detector": "nci"}, "shadow": True},
    "MRAD, CADE, by 101 questions": {"attack": {**_MRAD, "access": "answers"}},
    "MRAD, CADE, 100 questions, 10 steps, momentum": {"attack": {**_FEW, "optimiser": "momentum"}},
    "MRAD, CADE, 100 questions, 10 steps, Adam": {
        "attack": {**_FEW, "optimiser": "adam", "step": 0.1},
    },
    "MRAD, CADE, 50 Adam steps between 0 and 1": {
        "attack": {**_MRAD, "iterations": 50, "optimiser": "adam", "step": 0.05, "limits": [0, 1]},
    },
    "no reconstruction: CADE": {"attack": {**_MRAD, "iterations": 0}},
    "no reconstruction: gradient's norm": {"attack": {"name": "gradient-norm"}},
    "no reconstruction: loss": {"attack": {"name": "threshold"}},
    "zeros, then calibrated": {"attack": {"name": "calibrated"}},
    "mean, then loss": {"attack": {"name": "threshold"}, "fill": "mean"},
    "Gaussian, then loss": {"attack": {"name": "threshold"}, "fill": "gaussian"},
    "Gaussian, then gradient's norm": {"attack": {"name": "gradient-norm"}, "fill": "gaussian"},
    "Gaussian, then calibrated": {"attack": {"name": "calibrated"}, "fill": "gaussian"},
    "Gaussian, then RMIA": {"attack": {"name": "rmia"}, "fill": "gaussian"},
    "8 Gaussian draws, then calibrated": {
        "attack": {"name": "calibrated"},
        "fill": "gaussian",
        "completions": 8,
    },
    "5 neighbours' mean, then calibrated": {
        "attack": {"name": "calibrated"},
        "fill": "neighbours",
    },
}


def rows(data: Data) -> tuple[Row, ...]:
    """Every attack on one data set, beside the paper's one figure, which is of other images."""
    return tuple(
        Row(
            name,
            {"data": data, **settings},
            {"60 % missing": 0.75} if name == "MRAD, CADE" else {},
        )
        for name, settings in _ATTACKS.items()
    )


def rows_of_images(data: Data) -> tuple[Row, ...]:
    """Some of the attacks where the last rows of every image are missing."""
    names = (
        "MRAD, CADE",
        "no reconstruction: gradient's norm",
        "no reconstruction: loss",
        "Gaussian, then calibrated",
        "Gaussian, then RMIA",
        "5 neighbours' mean, then calibrated",
    )
    return tuple(
        Row(f"last rows missing: {name}", {"data": data, "pattern": "rows", **_ATTACKS[name]})
        for name in names
    )


@dataclass(frozen=True, slots=True)
class _World:
    """One target and its shadows; records as the attacker would have them, if it had them whole."""

    target: Target
    shadows: tuple[Target, ...]
    candidates: Records
    member: Bool[np.ndarray, " records"]
    own: Records
    """What the attacker knows whole: fills in, and calibrates."""
    pool: Records
    """What the shadows are trained on."""
    rehearsed: Bool[np.ndarray, " pool"]
    """Which of these the first shadow was trained on."""


def measured(
    seed: int,
    size: Size,
    *,
    attack: Mapping[str, Any],
    data: Data,
    fill: Fill = "zero",
    completions: int = 1,
    shadow: bool = False,
    pattern: Pattern = "random",
) -> dict[str, list[float]]:
    """The AUC for each share of missing features.

    Args:
        seed: of everything.
        size: how many shadows.
        attack: its name and settings.
        data: which records.
        fill: of what is missing.
        completions: how many.
        shadow: whether the attacker looks into a shadow model as well.
        pattern: where the known features are.
    """
    how = dict(attack)
    built = catalog.attack(how.pop("name"), **how)
    found = {}
    for column, missing in zip(COLUMNS, MISSING, strict=True):
        known = Known((), 1 - missing, pattern, fill, completions)
        view = _view(seed, size, data, known)
        if shadow:
            view = replace(view, shadow=_rehearsal(seed, size, data, known))
        truth = Membership(_world(seed, size, data).member)
        finding = auditing.run(Challenge(view, truth), built, seed).finding
        if "auc" not in finding.metrics:
            raise NotApplicable(finding.reason)
        found[column] = [finding.metrics["auc"].value]
    return found


@functools.lru_cache(maxsize=96)
def _view(seed: int, size: Size, data: Data, known: Known) -> ModelView:
    world = _world(seed, size, data)
    shown = partial.seen(world.candidates, world.own, None, known, (), seed)
    first, *others = shown.candidates
    assert shown.reference is not None
    phi, *further = (_phi(world.shadows, way) for way in shown.candidates)
    shadows = Shadows(
        phi, np.zeros(phi.shape, np.bool_), _phi(world.shadows, shown.reference), tuple(further)
    )
    return ModelView(
        world.target,
        first,
        shown.reference,
        shadows,
        tuple(others),
        known=shown.known,
        own=world.own,
    )


def _rehearsal(seed: int, size: Size, data: Data, known: Known) -> ShadowModel:
    world = _world(seed, size, data)
    shown = partial.seen(world.pool, world.own, None, known, (), seed + 1)
    return ShadowModel(world.shadows[0], shown.candidates[0], world.rehearsed, shown.known)


@functools.lru_cache(maxsize=16)
def _world(seed: int, size: Size, data: Data) -> _World:
    from leakscope.training.fleet import Fleet

    records = _records(data)
    order = stream(seed, "parts").permutation(len(records))[: 6 * _SIZE]
    candidates, own, pool = (records.take(part) for part in np.split(order, [2 * _SIZE, 4 * _SIZE]))
    member = np.arange(2 * _SIZE) < _SIZE
    count = _SHADOWS[size]
    drawn = stream(seed, "halves of the pool")
    halves = np.stack([drawn.permutation(2 * _SIZE) < _SIZE for _ in range(count)])
    fleet = Fleet(_recipe(data), way="one-by-one", workers=1)
    (target,) = fleet.many(candidates, member[None], [seed])
    shadows = tuple(fleet.many(pool, halves, range(1000, 1000 + count)))
    return _World(target, shadows, candidates, member, own, pool, halves[0])


def _phi(models: tuple[Target, ...], records: Records) -> Float64[np.ndarray, "records models"]:
    columns = [
        signals.compute("scaled_logit", model.predict(records.x), records.y) for model in models
    ]
    return np.stack(columns, axis=1)


@functools.lru_cache(maxsize=1)
def _records(data: Data) -> Records:
    if data == "location30":
        return location_30()
    small = images("fashion_mnist", 14)
    low, high = small.x.min(), small.x.max()
    return Records((small.x.reshape(len(small), -1) - low) / (high - low), small.y)


def _recipe(data: Data) -> Recipe:
    if data == "location30":
        return Recipe(_network(446, 128, 30), lr=0.1, momentum=0.9, epochs=60, batch_size=50)
    return Recipe(_network(196, 256, 64, 10), "adam", lr=1e-3, epochs=150, batch_size=50)


def _network(*widths: int) -> "Callable[[], nn.Module]":
    return functools.partial(_perceptron, widths)


def _perceptron(widths: tuple[int, ...]) -> "nn.Module":
    from torch import nn

    pairs = itertools.pairwise(widths)
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])
