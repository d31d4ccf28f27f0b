"""Prepare the pool of records for a fleet: its precision and its memory layout."""

import warnings
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import nn
from torch.nn.modules.conv import _ConvNd

from divulge.core import Records
from divulge.data.encoding import refuse_encoded
from divulge.errors import DataError, SpecError
from divulge.training.weights import state


class PoolTensors(NamedTuple):
    """The pool on a device. Images have their channels last in memory where the network can."""

    x: torch.Tensor
    y: torch.Tensor
    channels_last: bool

    def batch(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Some records, without a copy of the pool."""
        x = self.x.index_select(0, rows)
        # index_select keeps no memory format: the pool is stored in that order of axes instead
        return x.permute(0, 3, 1, 2) if self.channels_last else x, self.y.index_select(0, rows)


class PoolArrays(NamedTuple):
    """The pool as arrays, which processes share."""

    x: Shaped[np.ndarray, "records *features"]
    y: Int64[np.ndarray, " records"]
    channels_last: bool

    @classmethod
    def prepare(cls, pool: Records, network: nn.Module) -> "PoolArrays":
        """The pool in the network's precision, images channels last where it takes them."""
        x, y = cast_to_precision(pool, network)
        channels_last = takes_channels_last(network, x)
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1) if channels_last else x)
        return cls(x, y, channels_last)

    def tensors(self, device: str) -> PoolTensors:
        """The pool as tensors on a device; on the CPU they share the arrays' memory."""
        with warnings.catch_warnings():  # arrays are read-only, and nobody writes to the tensors
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        return PoolTensors(x.to(device), y.to(device), self.channels_last)


def is_cpu(device: str) -> bool:
    """Whether PyTorch's name of a device is that of the CPU.

    Raises:
        SpecError: PyTorch has no such kind of device.
    """
    try:
        return torch.device(device).type == "cpu"
    except RuntimeError as error:
        raise SpecError(f"expected a device of PyTorch, got {device!r}: {error}") from None


def cast_to_precision(
    pool: Records, network: nn.Module
) -> tuple[Shaped[np.ndarray, "records *features"], Int64[np.ndarray, " records"]]:
    """Floating features in the precision of the network, as when a target is asked; labels.

    Raises:
        DataError: the records have true values instead of classes.
    """
    if pool.regression:
        raise DataError(
            "expected classes to train networks on, got true values: for regression pass a "
            "function (x, y, seed) that returns a trained model"
        )
    dtype = next((t.dtype for t in state(network).values() if t.is_floating_point()), None)
    refuse_encoded(pool, "training a network by divulge")
    x = pool.x
    if dtype is not None and x.dtype.kind == "f":
        x = x.astype(torch.empty(0, dtype=dtype).numpy().dtype, copy=False)
    return x, pool.y.astype(np.int64, copy=False)


def takes_channels_last(network: nn.Module, x: Shaped[np.ndarray, "..."]) -> bool:
    """Whether images in that memory format pass; ``view`` in a forward pass may refuse them."""
    if x.ndim != 4 or not any(isinstance(layer, _ConvNd) for layer in network.modules()):
        return False
    images = torch.tensor(x[:2]).to(memory_format=torch.channels_last)
    if images.is_floating_point():  # whole numbers may be meant for an embedding
        images = images.to(next(network.parameters()).dtype)
    try:
        with torch.no_grad():
            to_channels_last(network.eval())(images)
    except RuntimeError:
        return False
    return True


def to_channels_last(module: nn.Module) -> nn.Module:
    """The module, its weights in that memory format."""
    moved: nn.Module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved
