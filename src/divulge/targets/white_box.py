"""Looking into a PyTorch module: gradients by features and weights, and its last linear layer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, nll_loss

from divulge.core import LastLayer
from divulge.errors import TargetError
from divulge.targets.outputs import Output

Weights = dict[str, torch.Tensor]
"""The parameters of a module by name."""

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
    loss = _sum_losses(module(records), labels, output)
    (slope,) = torch.autograd.grad(loss, records)
    return np.asarray(slope.double().cpu().numpy())


def parameter_gradient(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    output: Output,
    x: Shaped[np.ndarray, "records *features"],
    y: Int[np.ndarray, " records"],
) -> Float[np.ndarray, "records parameters"]:
    """The gradient of each record's own cross-entropy by all weights, one after another."""
    loss, weights = _loss_of_weights(module, output)

    def of_one(weights: Weights, record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return loss(weights, record[None], label[None])

    records = torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype)
    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))
    parts = gradients(weights, records, torch.tensor(y, device=device))
    flat = torch.cat([part.reshape(len(x), -1) for part in parts.values()], dim=1)
    return np.asarray(flat.double().cpu().numpy())


def hessian_product(
    module: nn.Module,
    device: str,
    dtype: torch.dtype,
    output: Output,
    x: Shaped[np.ndarray, "records *features"],
    y: Int[np.ndarray, " records"],
    vector: Float[np.ndarray, " parameters"],
) -> Float[np.ndarray, " parameters"]:
    """The Hessian of the records' summed cross-entropies by all weights, times a vector."""
    loss, weights = _loss_of_weights(module, output)
    records = torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype)
    labels = torch.tensor(y, device=device)
    edges = np.cumsum([weight.numel() for weight in weights.values()])[:-1]
    along = {
        name: torch.tensor(part.reshape(weight.shape), device=device, dtype=weight.dtype)
        for (name, weight), part in zip(weights.items(), np.split(vector, edges), strict=True)
    }

    def slope(these: Weights) -> torch.Tensor:
        gradient = grad(loss)(these, records, labels)
        return torch.stack([(gradient[name] * along[name]).sum() for name in weights]).sum()

    product = grad(slope)(weights)
    flat = torch.cat([product[name].reshape(-1) for name in weights])
    return np.asarray(flat.double().cpu().numpy())


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
    entries: list[torch.Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        entries.append(inputs[0])

    handle = layers[-1].register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            module(torch.tensor(np.ascontiguousarray(x), device=device, dtype=dtype))
    finally:
        handle.remove()
    features = entries[-1].reshape(len(x), -1).double().cpu().numpy()
    return LastLayer(features, layers[-1].weight.detach().double().cpu().numpy())


def _loss_of_weights(
    module: nn.Module, output: Output
) -> tuple[Callable[[Weights, torch.Tensor, torch.Tensor], torch.Tensor], Weights]:
    """The summed cross-entropies of records as a function of the weights, and these."""
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    buffers = dict(module.named_buffers())

    def loss(these: Weights, records: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        answers = functional_call(module, (these, buffers), (records,))
        return _sum_losses(answers, labels, output)

    return loss, weights


def _sum_losses(answers: torch.Tensor, labels: torch.Tensor, output: Output) -> torch.Tensor:
    answers = _one_column_per_class(answers, output)
    if output == "logits":
        return cross_entropy(answers, labels, reduction="sum")
    return nll_loss(answers.clamp_min(_SMALLEST_NORMAL).log(), labels, reduction="sum")


def _one_column_per_class(answers: torch.Tensor, output: Output) -> torch.Tensor:
    """Probabilities or logits; a single column of answers means class 1 of two."""
    if output == "percentages":
        answers = answers / 100
    if answers.ndim == 2 and answers.shape[1] > 1:
        return answers
    flat = answers.reshape(len(answers), 1)
    return torch.cat([torch.zeros_like(flat) if output == "logits" else 1 - flat, flat], dim=1)
