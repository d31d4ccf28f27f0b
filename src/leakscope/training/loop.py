"""One model's training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakscope.training.pool import Tensors, with_channels_last
from leakscope.training.recipe import Recipe, Rows


class Job(NamedTuple):
    """One model to train."""

    rows: Rows
    seed: int


def one_by_one(recipe: Recipe, data: Tensors, jobs: Sequence[Job]) -> Iterator[nn.Module]:
    """One model after another, in this process."""
    return (train(recipe, data, job) for job in jobs)


def train(recipe: Recipe, data: Tensors, job: Job) -> nn.Module:
    """One model, from scratch. The random numbers of the caller are left alone."""
    with seeded(job.seed, data.x.device):
        module = recipe.network().to(data.x.device)
        if data.channels_last:
            with_channels_last(module)
        module.train()
        optimiser = recipe.over([p for p in module.parameters() if p.requires_grad])
        for rate, rows in recipe.steps(job.rows, job.seed):
            x, y = data.batch(rows.to(data.x.device))
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(module(x), y))
            step(optimiser, rate)
    return module.eval()


def step(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """One step at this learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def fresh(recipe: Recipe, seed: int) -> nn.Module:
    """The untrained model of one seed, on the CPU."""
    with seeded(seed, torch.device("cpu")):
        return recipe.network()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """PyTorch's random numbers from this seed; afterwards they go on where they were."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device]):
        torch.manual_seed(seed)
        yield
