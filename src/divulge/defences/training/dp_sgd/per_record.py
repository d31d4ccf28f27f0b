"""The gradient of each record of a batch, computed for a batch of this record alone.

It is the gradient of every network, however it uses its weights: several times, in functions, tied.
The network never gets two records together, so that none can reach the gradient of another.
"""

import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from divulge.defences.training.dp_sgd.clipping import (
    BatchGradients,
    Factors,
    squared_norms,
)

_KEPT = 2**28
"""Bytes of gradients of single records that are kept at a time."""

_LONGEST = 256
"""Records whose gradients are computed at a time at most."""

Gradients = tuple[torch.Tensor, list[torch.Tensor]]
"""The loss of each record, and its gradients by each trained weight, records first."""

NamedGradients = tuple[dict[str, torch.Tensor], torch.Tensor]
"""The gradients of each record by name, records first, and its loss."""


class PerRecordGradients:
    """Gradients of all records, each kept until it is clipped.

    Args:
        module: the network.
        vectorised: whether PyTorch computes many records at once (``torch.func.vmap``). It cannot
            do so for every network, and knows no hooks of weights; else one record comes after
            another.
        same_draws: with ``vectorised``: whether all records get the random numbers that the first
            one gets, as a comparison needs it; else each draws its own.
    """

    def __init__(self, module: nn.Module, *, vectorised: bool, same_draws: bool = False) -> None:
        self.module = module
        self._vectorised = _record_gradient(module, same_draws=same_draws) if vectorised else None
        self._names = [name for name, p in module.named_parameters() if p.requires_grad]
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.alone = True
        size = sum(p.numel() * p.element_size() for p in self.params)
        self.records_at_a_time: int | None = min(_LONGEST, max(1, _KEPT // max(1, size)))

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> BatchGradients:
        """The gradients of a batch; see `divulge.defences.training.dp_sgd.clipping`."""
        losses, gradients = self.gradients(x.contiguous(), y)
        squares = torch.stack([squared_norms(rows) for rows in gradients]).sum(0)

        def weigh(factors: Factors) -> list[torch.Tensor]:
            left_out = factors == 0
            return [_weighted_sum(rows, factors, left_out) for rows in gradients]

        return BatchGradients(losses, squares, weigh)

    def gradients(self, x: torch.Tensor, y: torch.Tensor) -> Gradients:
        """Each record's own loss and gradients."""
        if self._vectorised is None:
            return self._one_by_one(x, y)
        trained = {
            name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad
        }
        with warnings.catch_warnings():
            # some layers are taken record by record by PyTorch itself, which is slow and right
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            gradients, losses = self._vectorised(trained, x, y)
        return losses, [gradients[name] for name in self._names]

    def _one_by_one(self, x: torch.Tensor, y: torch.Tensor) -> Gradients:
        gradients = [p.new_zeros((len(x), *p.shape)) for p in self.params]
        losses = gradients[0].new_empty(len(x))  # a large one in double precision stays finite
        for k in range(len(x)):
            loss = cross_entropy(self.module(x[k : k + 1]), y[k : k + 1])
            losses[k] = loss.detach()
            parts = torch.autograd.grad(loss, self.params, allow_unused=True)
            for rows, part in zip(gradients, parts, strict=True):
                if part is not None:
                    rows[k] = part
        return losses, gradients


def _record_gradient(module: nn.Module, *, same_draws: bool) -> Callable[..., NamedGradients]:
    """A function of weights and a batch: each record's gradients by name, and its loss."""

    def loss(trained: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = functional_call(module, trained, (x[None],))
        return cross_entropy(logits, y[None])

    randomness = "same" if same_draws else "different"
    function: Callable[..., NamedGradients] = vmap(
        grad_and_value(loss), in_dims=(None, 0, 0), randomness=randomness
    )
    return function


def _weighted_sum(
    gradients: torch.Tensor, factors: Factors, left_out: torch.Tensor
) -> torch.Tensor:
    if left_out.any():  # 0 times what is not finite is not 0
        gradients, factors = gradients[~left_out], factors[~left_out]
    total: torch.Tensor = torch.tensordot(factors.to(gradients.dtype), gradients, 1)
    return total
