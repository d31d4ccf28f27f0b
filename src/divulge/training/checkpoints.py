"""Train one network and keep what it was during its training: its checkpoints."""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from divulge._util.arguments import Seed, check_arguments
from divulge.core import Records
from divulge.targets.batching import translate_model_errors
from divulge.training.engine.loop import Job, build_network, train_network
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays
from divulge.training.weights import restore, state


class CheckpointedNetwork(NamedTuple):
    """A network, and what it was during its training."""

    model: nn.Module
    """The trained network."""
    checkpoints: tuple[nn.Module, ...]
    """The network before the first epoch and after each but the last, for `divulge.Access`; after
    the last one too where the recipe selects an epoch."""


@check_arguments
def train(
    recipe: Recipe, records: Records, *, seed: Seed = 0, device: str = "cpu"
) -> CheckpointedNetwork:
    """Train one network by a recipe, bit for bit the one that a fleet trains one by one.

    Args:
        recipe: how it is trained.
        records: all are trained on, but for those that the recipe holds out.
        seed: of its first weights and of the order of its records.
        device: where it is trained, as PyTorch names it.

    Raises:
        TargetError: the recipe makes no network, or one that could not be trained.

    Examples:
        >>> from functools import partial
        >>> rng = np.random.default_rng(0)
        >>> records = Records(rng.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2)
        >>> trained = train(Recipe(partial(nn.Linear, 3, 2), epochs=5), records)
        >>> len(trained.checkpoints)
        5
    """
    job, states = Job(np.arange(len(records)), seed), list[dict[str, torch.Tensor]]()

    def keep(module: nn.Module) -> None:
        states.append({name: tensor.cpu().clone() for name, tensor in state(module).items()})

    with translate_model_errors(
        "a network to train", "build it yourself, and run it on a few records to see why"
    ):
        data = PoolArrays.prepare(records, build_network(recipe, job))
        model = train_network(recipe, data.tensors(device), job, keep)
    stages = states if recipe.selects else states[:-1]
    return CheckpointedNetwork(
        model, tuple(restore(build_network(recipe, job), stage) for stage in stages)
    )
