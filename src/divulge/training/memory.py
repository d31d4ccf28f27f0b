"""Estimate how many models fit into memory at once."""

import numpy as np
import psutil
import torch
from torch import nn

from divulge.training.engine.loop import (
    Job,
    build_network,
)
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors
from divulge.training.weights import state

_STATE_COPIES = 6
"""Copies of a model's state in training: weights, gradients, two moments, and scratch for two."""


_ACTIVATION_COPIES = 3
"""Copies of what its layers answer: kept for the gradient, the gradient of it, and scratch."""


def models_that_fit(recipe: Recipe, data: PoolTensors) -> int:
    """How many models can be trained at once in half of the memory that is free.

    One at least. An estimate: what PyTorch takes for itself is not in it, so half.
    """
    module = build_network(recipe, Job(np.arange(1), 0))
    weights = sum(t.numel() * t.element_size() for t in state(module).values())
    answers = _activation_bytes(module, data) * recipe.batch_size
    return max(
        1,
        free_bytes(data.x.device)
        // (2 * (_STATE_COPIES * weights + _ACTIVATION_COPIES * answers + 1)),
    )


def _activation_bytes(module: nn.Module, data: PoolTensors) -> int:
    """Bytes of what all layers answer to one record."""
    sizes: list[int] = []

    def note(_module: nn.Module, _x: object, answer: object) -> None:
        if isinstance(answer, torch.Tensor):
            sizes.append(answer.numel() * answer.element_size())

    for layer in module.modules():
        layer.register_forward_hook(note)
    rows = torch.zeros(2, dtype=torch.int64, device=data.x.device)
    with torch.no_grad():
        module.to(data.x.device).eval()(data.batch(rows)[0])
    return sum(sizes) // 2


def free_bytes(device: torch.device) -> int:
    """Bytes of memory that could be used now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    # counts what the system would give back from its file cache
    return int(psutil.virtual_memory().available)
