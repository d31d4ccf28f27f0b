"""Clip each record's gradient and add them up, whatever a record holds.

What is added for a record is a vector whose norm is computed from that very vector, so that the sum
moves by at most the clipping norm when a record is added or removed. A record whose loss or
gradient is not a finite number adds nothing. How many there were is never told: it would be a
figure about single records that no noise covers.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64
from torch import nn

Clipping = Literal["per-record", "ghost"]

Factors = Float[torch.Tensor, " records"]

_MARGIN = 1e-6
"""Added to norms before they are divided by, as Opacus does."""

_SMALL, _LARGE = 1e-12, 1e18
"""Between these, a norm of single precision has lost nothing to overflow or underflow."""


class BatchGradients(NamedTuple):
    """The gradients of all records of a batch by all trained weights."""

    losses: Float[torch.Tensor, " records"]
    squares: Float64[torch.Tensor, " records"]
    """Squared norm of each record's gradient."""
    weigh: Callable[[Factors], list[torch.Tensor]]
    """A function from a factor for each record to the sum of the gradients times these, for each
    trained weight. A record whose factor is 0 is left out, whatever its gradient is."""


@runtime_checkable
class RecordGradients(Protocol):
    """A way to compute the gradients of a batch."""

    params: list[nn.Parameter]
    """The trained weights, in the order of the sums."""
    alone: bool
    """Whether the network gets each record in a batch of its own, not all of them together."""
    records_at_a_time: int | None
    """How many records' gradients fit the memory; None where they are not kept."""

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> BatchGradients:
        """The gradients of the cross-entropy of each record."""
        ...


class UnknownUseError(Exception):
    """A weight is used in a way that its gradients cannot be computed for; the text says which."""


def set_clipped_sum(
    compute: RecordGradients, x: torch.Tensor, y: torch.Tensor, max_grad_norm: float
) -> None:
    """Set ``grad`` of each trained weight to the sum of the batch's clipped gradients."""
    size = compute.records_at_a_time or max(1, len(x))
    for p in compute.params:
        p.grad = None
    for some, labels in zip(torch.split(x, size), torch.split(y, size), strict=True):
        gradients = compute(some, labels)
        sums = gradients.weigh(clip_factors(gradients, max_grad_norm))
        for p, total in zip(compute.params, sums, strict=True):
            p.grad = total if p.grad is None else p.grad.add_(total)


def clip_factors(gradients: BatchGradients, max_grad_norm: float) -> Factors:
    """What each record's gradient is multiplied by: at most 1, and 0 if it is not finite."""
    # algorithm 1, clip gradient: over max(1, norm / C), as a factor of at most 1
    factors = (max_grad_norm / (gradients.squares.sqrt() + _MARGIN)).clamp(max=1.0)
    finite = (gradients.squares + gradients.losses).isfinite()  # neither is minus infinity
    return factors.masked_fill_(~finite, 0.0).to(gradients.losses.dtype)


def squared_norms(rows: torch.Tensor) -> Float64[torch.Tensor, " records"]:
    """The squared norm of each record's numbers, without overflow or underflow of float32."""
    flat = rows.flatten(1)
    norms: torch.Tensor
    if flat.dtype == torch.float64:
        norms = torch.linalg.vector_norm(flat, dim=1)
        return norms.square()
    norms = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float32).double()
    low, high = norms.aminmax()
    if not (low > _SMALL and high < _LARGE):  # not a number is in no range
        off = ~((norms > _SMALL) & (norms < _LARGE))
        # in double precision no square of single precision leaves the range
        norms[off] = torch.linalg.vector_norm(flat[off], dim=1, dtype=torch.float64)
    return norms.square()
