"""The slow twin of a fleet: the loop of the PyTorch tutorial, and small networks to put to both."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from divulge._util.random import stream
from divulge.core import Records
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet, Strategy
from divulge.training.recipe import Recipe

WAYS: tuple[Strategy, ...] = ("one-by-one", "processes", "stacked")
SIZES = (24, 25, 31, 33)  # of 8 a batch: even; one left over; other last batches; more steps
SEEDS = (3, 1, 4, 15)
Weights = list[dict[str, torch.Tensor]]


class Viewing(nn.Module):
    """A forward pass that views: it does not take images with channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(128, 3)
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.layer(self.conv(x).relu().view(len(x), -1))
        return answers


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.ReLU(), nn.Linear(8, 3))


def conv1d() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(2), nn.Conv1d(2, 3, 5, stride=4), nn.Flatten(), nn.Linear(45, 3)
    )


def conv2d() -> nn.Module:
    pool = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.Tanh(), nn.AvgPool2d(2))
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), pool, nn.Flatten(), nn.Linear(4, 3))


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))


def layer_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.LayerNorm(8), nn.Linear(8, 3))


def group_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(144, 3))


def dropout() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(24, 3))


def frozen() -> nn.Module:
    module = linear()
    next(module.parameters()).requires_grad_(False)
    return module


def broken() -> nn.Module:
    raise ZeroDivisionError("by design")


def pool_for(network: Callable[[], nn.Module]) -> Records:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    if network is embedding:
        return Records(rng.integers(0, 10, (60, 6)), y)
    return Records(rng.normal(size=(60, 2, 8, 8)).astype(np.float32), y)


def subsets() -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(60) < size for size in SIZES])


def trained(fleet: Fleet, pool: Records | None = None) -> Weights:
    """The state of each model of a fleet."""
    models = fleet.many(pool or pool_for(fleet.recipe.network), subsets(), SEEDS)
    modules = [model.module for model in models if isinstance(model, TorchTarget)]
    assert not any(module.training for module in modules)
    return [module.state_dict() for module in modules]


def by_hand(
    recipe: Recipe, pool: Records, start: Mapping[str, torch.Tensor] | None = None
) -> Weights:
    """What the tutorial does, in the fleet's order of records."""
    momentum = {"momentum": recipe.momentum} if recipe.optimiser == "sgd" else {}
    names = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adamax": "Adamax"}
    make: Any = getattr(torch.optim, names.get(recipe.optimiser, "Adadelta"))
    weights = []
    for subset, seed in zip(subsets(), SEEDS, strict=True):
        rows, held_out = np.flatnonzero(subset), np.empty(0, np.int64)
        if recipe.patience:
            rows, held_out = divided(rows, seed, recipe.held_out)
        x, y = torch.tensor(pool.x[rows]), torch.tensor(pool.y[rows])
        order = torch.Generator().manual_seed(int(stream(seed, "batches").integers(2**63)))
        torch.manual_seed(seed)
        module = recipe.network()
        if start is not None:
            module.load_state_dict(start)
        optimiser = make(
            module.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, **momentum
        )
        ends = [*range(recipe.batch_size, len(y) - 1, recipe.batch_size), len(y)]
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs * len(ends))
        losses: list[float] = []
        states: Weights = []
        for _ in range(recipe.epochs):
            shuffled = torch.randperm(len(y), generator=order)
            for begin, end in zip([0, *ends], ends, strict=False):
                batch = shuffled[begin:end]
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(module(x[batch]), y[batch])
                torch.autograd.backward(loss)
                optimiser.step()
                if recipe.schedule == "cosine":
                    cosine.step()
            states.append({name: t.clone() for name, t in module.state_dict().items()})
            if recipe.patience:
                losses.append(loss_on(module, pool, held_out))
                if len(losses) - 1 - int(np.argmin(losses)) >= recipe.patience:
                    break
        weights.append(states[int(np.argmin(losses))] if losses else states[-1])
    return weights


def divided(rows: np.ndarray, seed: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    shuffled = stream(seed, "held out").permutation(rows)
    size = round(share * len(rows))
    return np.sort(shuffled[size:]), np.sort(shuffled[:size])


def loss_on(module: nn.Module, pool: Records, rows: np.ndarray) -> float:
    module.eval()
    with torch.no_grad():
        logits = module(torch.tensor(pool.x[rows]))
        loss = nn.functional.cross_entropy(logits, torch.tensor(pool.y[rows]))
    module.train()
    return float(loss)


def assert_close(left: Weights, right: Weights) -> None:
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=2e-5)


def brief(network: Callable[[], nn.Module], lr: float = 0.05) -> Recipe:
    return Recipe(network, lr=lr, momentum=0.9, weight_decay=1e-3, epochs=3, batch_size=8)
