"""Training many models as one computation."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn

from leakscope.training.loop import Job, fresh, step
from leakscope.training.network import Stack, restore
from leakscope.training.pool import Tensors
from leakscope.training.recipe import Recipe


def stacked(recipe: Recipe, data: Tensors, jobs: Sequence[Job]) -> Iterator[nn.Module]:
    """One stack of models for each number of steps that an epoch has."""
    groups = _grouped(len(recipe.batch_edges(len(job.rows))) for job in jobs)
    done: dict[int, nn.Module] = {}
    for members in groups:
        modules = _train_stack(recipe, data, [jobs[k] for k in members])
        done |= zip(members, modules, strict=True)
    return (done[k] for k in range(len(jobs)))


def _train_stack(recipe: Recipe, data: Tensors, jobs: Sequence[Job]) -> list[nn.Module]:
    modules = [fresh(recipe, job.seed).to(data.x.device) for job in jobs]
    stack = Stack(modules)
    optimiser = recipe.over(stack.trained)
    for steps in zip(*(recipe.steps(job.rows, job.seed) for job in jobs), strict=True):
        rows = [batch for _, batch in steps]
        # the last batches of an epoch differ in size: no padding, which batch statistics would see
        for members in _grouped(map(len, rows)):
            together = torch.cat([rows[k] for k in members]).to(data.x.device)
            stack.differentiate(members, *data.batch(together))
        step(optimiser, steps[0][0])  # the rate depends on the number of steps alone
    return [restore(module, stack.of(k)) for k, module in enumerate(modules)]


def _grouped(keys: Iterable[int]) -> list[list[int]]:
    """The positions of equal keys."""
    groups: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return list(groups.values())
