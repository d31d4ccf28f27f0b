"""What is kept of each gradient: some entries, and directions in which no record has any."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from divulge.canaries.entries import EntrySample, Places
from divulge.canaries.gradients import CanaryGradients, Tensors
from divulge.canaries.steps import Step, StepNoise
from divulge.errors import TargetError

_SUMS = 512
"""Largest number of directions without gradients that are kept."""


class GradientDirections:
    """Entries of all parts of a network, and sums over classes in which no record has a gradient.

    Args:
        gradients: the canaries and the network.
        seed: draws the entries; the same one for a training that continues.
    """

    def __init__(self, gradients: CanaryGradients, seed: int) -> None:
        try:
            heads = gradients.sums_to_zero()
        except TargetError:  # as where a network takes single records alone
            heads = []
        self._shapes = {
            name: p.shape
            for name, p in gradients.network.named_parameters()
            if name in gradients.trained
        }
        self._heads = [name for name in heads if name in self._shapes]
        rng = np.random.default_rng(seed)
        self._sample = EntrySample({name: self._size(name) for name in self._shapes}, rng)
        columns = sum(self._size(name) for name in self._heads)
        self._columns = rng.permutation(columns)[:_SUMS]

    def watcher(self) -> StepNoise:
        """What holds steps against each other."""
        return StepNoise(self._sample.parts, len(self._columns))

    def step(self, direction: Tensors, deviation: float | None) -> Step:
        """What is kept of one noisy gradient; NaN where there is no gradient.

        Args:
            direction: one tensor a trained parameter.
            deviation: the stated standard deviation of its noise, None where it is not known.
        """

        def read(name: str, places: Places) -> np.ndarray | None:
            if name not in direction:
                return None
            flat = self._flat(name, direction[name])
            return flat[torch.from_numpy(places).to(flat.device)].double().cpu().numpy()

        sums, reach = self._sum(direction)
        return Step(self._sample.take(read), sums, reach, deviation)

    def _size(self, name: str) -> int:
        shape = self._shapes[name]
        return shape[1:].numel() if name in self._heads else shape.numel()

    def _flat(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The entries of a parameter; of a head what two classes differ by, beside the sums."""
        return (((tensor[0] - tensor[1]) / 2**0.5) if name in self._heads else tensor).flatten()

    def _sum(self, direction: Tensors) -> tuple[Float64[np.ndarray, " sums"], float]:
        there = [direction[name] for name in self._heads if name in direction]
        if len(there) < len(self._heads) or not there:
            return np.full(len(self._columns), np.nan), 0.0
        each = [head.sum(dim=0, dtype=torch.float64).flatten() / len(head) ** 0.5 for head in there]
        sums = torch.cat(each)
        squares = sum(float(head.norm()) ** 2 for head in there)
        reach = (squares / sum(head.numel() for head in there)) ** 0.5
        return sums.cpu().numpy()[self._columns], reach


def noise_scale(optimiser: Any) -> float:
    """The standard deviation of the noise on a sum of gradients, as Opacus' optimiser says it.

    0 where it says none, as where others add the noise.
    """
    scale = float(optimiser.noise_multiplier) * float(optimiser.max_grad_norm)
    return scale / int(getattr(optimiser, "world_size", 1))
