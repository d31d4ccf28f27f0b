"""What a watched model and its optimiser hold, and whether it is the same."""

from typing import Any

import numpy as np
import torch
from torch import nn

from divulge.errors import SpecError


def divisor_of(optimiser: Any) -> float:
    """What an optimiser of Opacus divides the sum of clipped gradients by, in this step."""
    if optimiser.loss_reduction == "sum":
        return 1.0
    return float(optimiser.expected_batch_size * optimiser.accumulated_iterations)


def refuse_other_weights(module: nn.Module, optimiser: Any) -> None:
    """Refuse an optimiser that holds weights from before they were replaced in the model."""
    own = {id(p) for p in module.parameters()}
    changed = [p for group in optimiser.param_groups for p in group["params"]]
    others = sum(id(p) not in own for p in changed)
    if others:
        raise SpecError(
            f"expected an optimiser of the model's own weights, but {others:,} of the "
            f"{len(changed):,} tensors that it changes are not in the model: move the model to its "
            "device and add adapters before the optimiser is made, or the model stays as it is"
        )


def place_of(module: nn.Module) -> np.ndarray:
    """Two sums a parameter, which change with every step."""
    with torch.no_grad():
        weights = [p.detach().double() for p in module.parameters()]
        sums = [weight.sum() for weight in weights] + [(weight**2).sum() for weight in weights]
        return torch.stack([total.cpu() for total in sums]).numpy()


def shapes_of(module: nn.Module) -> dict[str, Any]:
    """The shape of each weight and buffer, by name."""
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def first_difference(expected: dict[str, Any], actual: dict[str, Any]) -> str:
    """The first tensor of another shape, in words."""
    name = next(n for n in {**expected, **actual} if expected.get(n) != actual.get(n))
    return f"{name}: {actual.get(name, 'none')} for {expected.get(name, 'none')}"
