"""Looking into a PyTorch module: gradients by features, and its last linear layer."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import nn
from torch.nn.functional import cross_entropy, nll_loss

from divulge.core import LastLayer
from divulge.errors import TargetError
from divulge.targets.outputs import Output

_SMALLEST_NORMAL = 1e-38  # float32's smallest normal number: log p has a gradient down to it


def input_gradient(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    output: Output,
    x: Shaped[np.ndarray, "records *features"],
    y: Int[np.ndarray, " records"],
) -> Float[np.ndarray, "records *features"]:
    """The gradient of each record's own cross-entropy by its features.

    One pass forth and one back for all records: their losses are added up, and no record's answer
    depends on another one in evaluation mode.
    """
    records = torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype, requires_grad=True)
    labels = torch.tensor(y, device=device)
    answers = _one_column_per_class(module(records), output)
    if output == "logits":
        loss = cross_entropy(answers, labels, reduction="sum")
    else:
        loss = nll_loss(answers.clamp_min(_SMALLEST_NORMAL).log(), labels, reduction="sum")
    (found,) = torch.autograd.grad(loss, records)
    return np.asarray(found.double().cpu().numpy())


def read_last_layer(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    x: Shaped[np.ndarray, "records *features"],
) -> LastLayer:
    """What enters the linear layer that stands last in the module, and its weights.

    Raises:
        TargetError: there is no linear layer.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise TargetError(
            f"expected a module with a linear layer, got {type(module).__name__}: use an attack "
            "that reads its answers alone"
        )
    seen: list[torch.Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0])

    handle = layers[-1].register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            module(torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype))
    finally:
        handle.remove()
    features = seen[-1].reshape(len(x), -1).double().cpu().numpy()
    return LastLayer(features, layers[-1].weight.detach().double().cpu().numpy())


def _one_column_per_class(answers: torch.Tensor, output: Output) -> torch.Tensor:
    """A single column of answers means class 1 of two."""
    if answers.ndim == 2 and answers.shape[1] > 1:
        return answers
    one = answers.reshape(len(answers), 1)
    return torch.cat([torch.zeros_like(one) if output == "logits" else 1 - one, one], dim=1)
