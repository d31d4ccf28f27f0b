"""Build the networks of DAP's tables, and store trained ones so that a kill costs one at most."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from divulge._util import atomic
from divulge._util.digest import digest
from divulge.training.weights import state


class MixedPrecisionNetwork(nn.Module):
    """Multiplies in bfloat16 and adds in float32, as GPUs do; weights and logits are float32.

    A processor that cannot multiply in bfloat16 would emulate it, ten times as slowly as it
    multiplies in float32, which it does instead.
    """

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        *features, last = layers
        self.features, self.last = nn.Sequential(*features), last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=multiplies_bfloat16()):
            features = self.features(x)
        logits: torch.Tensor = self.last(features.float())
        return logits


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16, as far as PyTorch says so."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # older versions have no such function
    has = ask() if ask else {}
    return bool(has.get("avx512_bf16") or has.get("amx_bf16"))


@dataclass(frozen=True, slots=True)
class ClassifierNetwork:
    """Makes the network of all rows: a perceptron, a convolutional or a linear network."""

    channels: int
    """Number of channels of an image; 0 for features."""
    inputs: int
    """Length of a flattened record."""
    width: int
    """Number of hidden units, or of channels of the first convolution."""
    classes: int
    linear: bool

    def __call__(self) -> nn.Module:
        """Make the untrained network."""
        if self.linear:
            return nn.Sequential(nn.Flatten(), nn.Linear(self.inputs, self.classes))
        width = self.width
        if not self.channels:
            first = nn.Linear(self.inputs, width)
            return nn.Sequential(first, nn.ReLU(), nn.Linear(width, self.classes))
        layers: list[nn.Module] = []
        for inside, outside in ((self.channels, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        last = nn.Linear(4 * width, self.classes)
        return MixedPrecisionNetwork(nn.Sequential(*layers[:-1], *pooled, last))


class TrainedNetwork(NamedTuple):
    """A trained network, and the CPU seconds that its training took."""

    module: nn.Module
    seconds: float

    @classmethod
    def measure(cls, train: Callable[[], nn.Module]) -> "TrainedNetwork":
        """Train a network, and measure the CPU seconds of it."""
        begun = process_time()
        return cls(train(), process_time() - begun)


@dataclass(frozen=True, slots=True)
class NetworkStore:
    """Keeps trained networks as files.

    Args:
        folder: folder of the files; without one nothing is kept.
        about: text that names all else that the networks of this store depend on.
    """

    folder: Path | None
    about: str

    def get(
        self, about: str, make: Callable[[], nn.Module], train: Callable[[], nn.Module]
    ) -> TrainedNetwork:
        """Read a network if it is there, otherwise train and keep it.

        Args:
            about: text that names the network among those of this store.
            make: function that makes an untrained network of the same kind.
            train: function that trains the network.

        Raises:
            StoreError: its file cannot be written, or is damaged.
        """
        if self.folder is None:
            return TrainedNetwork.measure(train)
        path = self.folder / f"{digest(f'{self.about} {about}')}.npz"
        if path.exists():
            return _read_network(path, make())
        trained = TrainedNetwork.measure(train)
        with atomic.translate_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        flat = torch.cat([tensor.flatten().double() for tensor in state(trained.module).values()])
        atomic.write_arrays(path, {"state": flat.numpy(), "seconds": np.array([trained.seconds])})
        return trained


def _read_network(path: Path, module: nn.Module) -> TrainedNetwork:
    arrays = atomic.read_arrays(path, "state", "seconds")
    tensors = list(state(module).values())
    flat = torch.from_numpy(arrays["state"])
    if len(flat) != sum(tensor.numel() for tensor in tensors) or len(arrays["seconds"]) != 1:
        raise atomic.damaged_file_error(path, ValueError("it holds another network"))
    pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
    with torch.no_grad():
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.view_as(tensor))
    return TrainedNetwork(module.eval(), float(arrays["seconds"][0]))
