"""Decaf against federations whose users hold the mixes of the paper's tables."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from leakscope import auditing, catalog
from leakscope.attacks.decaf_levels import Step
from leakscope.core import Proportions, Records, UpdateView
from leakscope.errors import NotApplicable
from leakscope.experiments.data import Name, images
from leakscope.experiments.table import Row, Size
from leakscope.federation import Federation, exact, simulate
from leakscope.metrics import composition
from leakscope.randomness import stream
from leakscope.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

TEN = (
    (12, 12, 12, 12, 12, 12, 12, 12, 12, 12),
    (8, 12, 10, 9, 16, 19, 7, 12, 15, 12),
    (18, 19, 9, 6, 18, 15, 16, 8, 5, 6),
    (16, 4, 3, 22, 12, 16, 7, 2, 10, 28),
    (6, 22, 0, 10, 12, 15, 30, 10, 8, 7),
    (8, 13, 18, 6, 20, 0, 15, 10, 30, 0),
    (20, 9, 16, 0, 9, 30, 0, 0, 32, 4),
    (0, 0, 40, 6, 0, 0, 32, 4, 0, 38),
    (0, 0, 0, 50, 0, 10, 0, 0, 0, 60),
    (0, 0, 0, 0, 0, 0, 0, 120, 0, 0),
)
"""Mixes of the users of tables III, IV, XIV and XV, in parts of 120."""

MNIST = (0.1849, 0.0790, 0.0510)
"""The paper's mean L1, L2 and L∞ over the users of table III."""

COLUMNS = ("L1", "L2", "L∞", "null classes right")
LARGEST = {"L1": 2.0, "L2": 2**0.5}
"""Of distances between two sets of shares."""

PUBLISHED_RULE = {"name": "decaf", "faithful": True}
BEST = {"name": "decaf", "level": "refined", "clients": 120}
ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "the paper's method": PUBLISHED_RULE,
    "leakscope, refined": BEST,
    "leakscope, biases": {"name": "decaf", "level": "bias"},
    "uniform over detected classes": {"name": "label-counts", "method": "uniform"},
    "iLRG": {"name": "label-counts", "method": "ilrg"},
    "random guess": {"name": "label-counts", "method": "random"},
}

_OPEN = (
    "the third round alone is attacked; pixels are from 0 to 1, of which the paper says nothing; "
    "optimiser settings that it leaves open are PyTorch's defaults, with batches of 64 and one "
    "local epoch."
)

DIFFERS: Mapping[Size, str] = {
    "small": "images averaged to about a quarter of their pixels, a smaller network, one seed, "
    f"virtual clients at half of their default number; {_OPEN}",
    "medium": "whole images and the paper's kinds of layers with channels of ours, two seeds, "
    f"virtual clients at half of their default number; {_OPEN}",
    "full": "whole images and the paper's kinds of layers with channels of ours, five seeds, "
    f"virtual clients at half of their default number; {_OPEN}",
}

SEEDS: Mapping[Size, int] = {"small": 1, "medium": 2, "full": 5}

_RATES = {"adadelta": 1.0, "sgd": 0.1}


def rows(published: Sequence[float], **federation: Any) -> tuple[Row, ...]:
    """The rows of one table: every attack, under the paper's optimiser and under plain SGD.

    Args:
        published: the paper's mean L1, L2 and L∞ over users; its null classes are all right.
        federation: what `measured` is told of data, users and records.
    """
    paper = dict(zip(COLUMNS, (*published, 1.0), strict=True))
    return tuple(
        Row(
            f"{name}, {optimiser}",
            {"attack": dict(attack), "optimiser": optimiser, **federation},
            paper if (optimiser, name) == ("adadelta", "the paper's method") else {},
        )
        for optimiser in _RATES
        for name, attack in ATTACKS.items()
        if (optimiser, name) != ("adadelta", "leakscope, biases")  # sgd's alone
    )


def ablation(step: Step, published: Sequence[float]) -> tuple[Row, ...]:
    """The published method without a step and with it, against the users of table III.

    Args:
        step: that is left out.
        published: the paper's mean L1, L2 and L∞ over users without it.
    """
    without = PUBLISHED_RULE | {"without": step}
    shown = {f"without {step}": without, "the paper's method": PUBLISHED_RULE}
    papers = {f"without {step}": published, "the paper's method": MNIST}
    return tuple(
        Row(
            f"{name}, {optimiser}",
            {
                "attack": attack,
                "optimiser": optimiser,
                "data": "mnist",
                "users": TEN,
                "records": 1200,
            },
            dict(zip(COLUMNS[:3], papers[name], strict=True)) if optimiser == "adadelta" else {},
        )
        for optimiser in _RATES
        for name, attack in shown.items()
    )


def measured(
    seed: int,
    size: Size,
    *,
    attack: Mapping[str, Any],
    optimiser: str,
    data: Name,
    users: Sequence[Sequence[float]],
    records: int,
    auxiliary: int = 100,
    number: int = 2,
) -> dict[str, list[float]]:
    """Distances of the guesses about each user, by one round's updates.

    Args:
        seed: of everything.
        size: of images and network.
        attack: its name and settings.
        optimiser: of local training.
        data: which images.
        users: for each the parts of its classes, in any unit.
        records: how many each user holds.
        auxiliary: how many of each class the attacker owns, where so many are left.
        number: of the round that is attacked, from 0.
    """
    how = dict(attack)
    built = catalog.update_attack(how.pop("name"), **how)
    counts = _counts(users, records)
    told = tuple(map(tuple, counts.tolist()))
    views = _views(seed, size, optimiser, data, told, auxiliary, number + 1)
    cut = [replace(view, rounds=(view.rounds[number],)) for view in views]
    truths = [Proportions.of(row) for row in counts]
    finding, guesses = auditing.run_on_clients(
        cut, functools.partial(composition.measure, truths=truths), built, seed
    )
    if guesses is None:
        raise NotApplicable(finding.reason)
    pairs = list(zip(guesses, truths, strict=True))
    each = [composition.distance(guess, truth) for guess, truth in pairs]
    right = [float((guess.null == truth.null).mean()) for guess, truth in pairs]
    names = ("l1", "l2", "linf")
    found = {column: [one[n] for one in each] for column, n in zip(COLUMNS, names, strict=False)}
    return found | {COLUMNS[3]: right}


@functools.lru_cache(maxsize=2)
def _views(
    seed: int,
    size: Size,
    optimiser: str,
    name: Name,
    counts: tuple[tuple[int, ...], ...],
    auxiliary: int,
    rounds: int,
) -> list[UpdateView]:
    pool = _images(name, size)
    clients = exact(pool, np.array(counts), seed)
    left = np.setdiff1d(np.arange(len(pool)), np.concatenate(clients))
    rng = stream(seed, "auxiliary records")
    own = [rng.permutation(left[pool.y[left] == k])[:auxiliary] for k in range(len(counts[0]))]
    reference = pool.take(np.sort(np.concatenate(own)))
    modules = {"cifar10": 3, "ham10000": 3, "fer2013": 4}.get(name, 0)
    network = _network(pool.x.shape[1:], len(counts[0]), 0 if size == "small" else modules, size)
    recipe = Recipe(
        network,
        optimiser,  # type: ignore[arg-type]
        lr=_RATES[optimiser],
        epochs=1,
        batch_size=64,
    )
    transcript = simulate(Federation(pool, clients, recipe, seed=seed), rounds)
    return [transcript.view(str(k), network, reference) for k in range(len(counts))]


@functools.lru_cache(maxsize=1)
def _images(name: Name, size: Size) -> Records:
    small = {"cifar10": 16, "fer2013": 16}.get(name, 14)
    return images(name, small if size == "small" else None)


def _counts(users: Sequence[Sequence[float]], records: int) -> Int[np.ndarray, "users classes"]:
    parts = np.array(users, np.float64)
    counts: np.ndarray = np.rint(parts / parts.sum(axis=1, keepdims=True) * records)
    return counts.astype(np.int64)


def _network(
    shape: Sequence[int], classes: int, modules: int, size: Size
) -> "Callable[[], nn.Module]":
    """Two convolutions and a pooling, or so many modules of both; then two dense layers."""
    wide = (8, 16, 64) if size == "small" else (32, 64, 128)
    return functools.partial(_built, tuple(shape), classes, modules, wide)


def _built(
    shape: tuple[int, ...], classes: int, modules: int, wide: tuple[int, int, int]
) -> "nn.Module":
    import torch
    from torch import nn

    channels = shape[0]
    layers: list[nn.Module] = []
    for k in range(modules or 2):
        more = wide[min(k, 1)]
        layers += [nn.Conv2d(channels, more, 3, padding=1 if modules else 0), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if modules or k == 1 else []
        channels = more
    body = nn.Sequential(*layers, nn.Flatten())
    inputs = body(torch.zeros(1, *shape)).shape[1]
    head = (nn.Linear(inputs, wide[2]), nn.ReLU(), nn.Linear(wide[2], classes))
    return nn.Sequential(*body, *head)
