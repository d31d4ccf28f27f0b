"""Read and overwrite the weights of a module."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    """All that training changes, by name: parameters, and buffers, saved with the module or not."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


def restore(module: nn.Module, tensors: dict[str, torch.Tensor]) -> nn.Module:
    """The module, in evaluation mode, with its `state` overwritten."""
    with torch.no_grad():
        for name, tensor in state(module).items():
            tensor.copy_(tensors[name])
    return module.eval()


def as_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Tensors by name as arrays, for another process."""
    return {name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()}


def as_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Arrays by name, as from `as_arrays`, as tensors in the same memory."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
