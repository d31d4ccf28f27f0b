"""Rebuild unknown features by gradient matching, as Deep Leakage from Gradients does.

Zhu, Liu and Han (2019) look for the input whose gradient of the parameters is a gradient that was
observed. Who attacks a trained model has observed none; but a model that has fitted a record has
next to no gradient at it. So the gradient to be matched is zero here. This adaptation is ours: how
the paper adapted its rival is not known.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from divulge.core import Records
from divulge.errors import TargetError
from divulge.targets.torch import evaluation_mode
from divulge.training.optimisers import without_compiler

STEPS = 100
"""Number of Adam's steps."""


def match_gradients(
    module: nn.Module, records: Records, known: Bool[np.ndarray, "records *features"], rate: float
) -> Records:
    """Rebuild unknown features so that the squared gradient of the parameters is least.

    Args:
        module: the model, which returns logits; all its parameters are those of linear layers.
        records: records with values to begin with where features are unknown.
        known: True for each known feature, which stays.
        rate: rate of Adam's steps.

    Raises:
        TargetError: the model has other parameters.
    """
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    if sum(len(list(part.parameters())) for part in layers) < len(list(module.parameters())):
        raise TargetError("expected a module of linear layers, got others: match no gradients")
    at = torch.tensor(records.x, requires_grad=True)
    y, hidden = torch.tensor(records.y), torch.tensor(~known)
    adam = without_compiler(torch.optim.Adam)([at], lr=rate)
    with evaluation_mode(module):
        for _ in range(STEPS):
            (gradient,) = torch.autograd.grad(squared_gradients(module, layers, at, y).sum(), at)
            at.grad = gradient * hidden
            adam.step()
    return Records(np.where(known, records.x, at.detach().numpy()), records.y)


def squared_gradients(
    module: nn.Module,
    layers: list[nn.Linear],
    x: Float[Tensor, "records *features"],
    y: Int[Tensor, " records"],
) -> Float[Tensor, " records"]:
    """Squared length of each record's gradient of the layers' weights and biases.

    A layer's is |δ|² (|a|² + 1), where a enters it and δ is the gradient by what leaves it.
    """
    activations: list[tuple[Tensor, Tensor]] = []
    hooks = [
        layer.register_forward_hook(
            lambda _layer, inputs, out: activations.append((inputs[0], out))
        )
        for layer in layers
    ]
    try:
        loss = nn.functional.cross_entropy(module(x), y, reduction="sum")
    finally:
        for hook in hooks:
            hook.remove()
    slopes = torch.autograd.grad(loss, [out for _, out in activations], create_graph=True)
    return torch.stack([
        slope.square().sum(1) * (entered.square().sum(1) + 1)
        for (entered, _), slope in zip(activations, slopes, strict=True)
    ]).sum(0)  # fmt: skip
