"""Federated averaging as one would write it first: one client at a time."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge._util.random import stream
from divulge.core import Records
from divulge.training.recipe import Recipe, Rows

State = dict[str, torch.Tensor]


def fedavg(
    pool: Records, clients: Sequence[Rows], recipe: Recipe, rounds: int, share: float, seed: int
) -> list[tuple[list[int], list[State], State]]:
    """Per round: who took part, what each had in the end, and the average."""
    torch.manual_seed(int(stream(seed, "global model").integers(2**63)))
    weights = copy.deepcopy(recipe.network().state_dict())
    played = []
    for number in range(rounds):
        many = max(1, round(share * len(clients)))
        drawn = stream(seed, "participants", number).choice(len(clients), many, replace=False)
        chosen = sorted(drawn.tolist())
        states = []
        for client in chosen:
            own = int(stream(seed, "local training", number, client).integers(2**31))
            states.append(local(pool, clients[client], recipe, weights, own))
        sizes = [len(clients[client]) for client in chosen]
        weights = {name: mean([one[name] for one in states], sizes) for name in states[0]}
        played.append((chosen, states, weights))
    return played


def mean(tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor, size in zip(tensors, sizes, strict=True):
        total += tensor.double() * size
    average = total / sum(sizes)
    return (average if tensors[0].is_floating_point() else average.round()).to(tensors[0].dtype)


def local(pool: Records, rows: Rows, recipe: Recipe, weights: State, seed: int) -> State:
    torch.manual_seed(seed)
    module = recipe.network()
    module.load_state_dict(weights)
    module.train()
    make: Callable[..., torch.optim.Optimizer] = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
    }[recipe.optimiser]
    optimiser = make(module.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    for _, batch in (step for epoch in recipe.plan(rows, seed) for step in epoch):
        optimiser.zero_grad()
        x, y = torch.tensor(pool.x[batch.numpy()]), torch.tensor(pool.y[batch.numpy()])
        torch.autograd.backward(cross_entropy(module(x), y))
        optimiser.step()
    return copy.deepcopy(module.state_dict())


def blobs(records: int = 600, seed: int = 0) -> Records:
    """Small images of four classes that a network learns in a few steps."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, records)
    stripes = 1.5 * np.eye(8)[2 * y][:, None, :, None]
    return Records((rng.normal(size=(records, 1, 8, 8)) + stripes).astype(np.float32), y)


def plain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))


def normalised() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
    )
