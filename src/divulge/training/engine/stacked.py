"""Train many models as one computation."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from divulge.training.engine.loop import (
    Job,
    build_network,
    flush_subnormals,
    plain_loss,
    step_optimiser,
)
from divulge.training.engine.networks import Stack
from divulge.training.engine.selection import BestEpoch
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors
from divulge.training.weights import restore


def train_stacked(recipe: Recipe, data: PoolTensors, jobs: Sequence[Job]) -> list[nn.Module]:
    """The models in order: one stack for each number of steps that an epoch has."""
    fits = [recipe.split_rows(job.rows, job.seed)[0] for job in jobs]
    done: dict[int, nn.Module] = {}
    for members in _group_positions(recipe.steps(len(fit)) for fit in fits):
        modules = _train_stack(recipe, data, [jobs[k] for k in members])
        done |= zip(members, modules, strict=True)
    return [done[k] for k in range(len(jobs))]


@flush_subnormals()
def _train_stack(recipe: Recipe, data: PoolTensors, jobs: Sequence[Job]) -> list[nn.Module]:
    parts = [recipe.split_rows(job.rows, job.seed) for job in jobs]
    modules = [build_network(recipe, job).to(data.x.device) for job in jobs]
    stack = Stack(modules, plain_loss(recipe))
    optimiser = recipe.make_optimiser(stack.trainable)
    best = [BestEpoch(recipe, data, *part) for part in parts] if recipe.selects else []
    plans = (recipe.plan(fit, job.seed) for (fit, _), job in zip(parts, jobs, strict=True))
    going = list(range(len(jobs)))
    for number, epochs in enumerate(zip(*plans, strict=True)):
        for steps in zip(*(epochs[k] for k in going), strict=True):
            _step_stack(stack, data, [rows for _, rows in steps], number)
            step_optimiser(optimiser, steps[0][0])  # the rate depends on the number of steps alone
        if best:
            hopeful = [
                position
                for position, k in enumerate(going)
                if best[k].should_continue(restore(modules[k], stack.of(position)))
            ]
            if not hopeful:
                break
            if len(hopeful) < len(going):
                stack.keep(hopeful, optimiser)
                going = [going[position] for position in hopeful]
    final = [b.state for b in best] or [stack.of(k) for k in going]
    return [restore(module, state) for module, state in zip(modules, final, strict=True)]


def _step_stack(
    stack: Stack, data: PoolTensors, batches: Sequence[torch.Tensor], epoch: int
) -> None:
    # the last batches of an epoch differ in size: no padding, which batch statistics would see
    for members in _group_positions(map(len, batches)):
        together = torch.cat([batches[k] for k in members]).to(data.x.device)
        stack.differentiate(members, *data.batch(together), epoch)


def _group_positions(keys: Iterable[int]) -> list[list[int]]:
    """The positions of equal keys."""
    groups: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return list(groups.values())
