"""Try the ways to clip a network's gradients, and choose the first that agrees with PyTorch."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dp_sgd.clipping import (
    BatchGradients,
    Clipping,
    RecordGradients,
    UnknownUseError,
    clip_factors,
)
from divulge.defences.training.dp_sgd.network_check import trial_weights
from divulge.defences.training.dp_sgd.one_pass import OnePassGradients
from divulge.defences.training.dp_sgd.per_record import PerRecordGradients
from divulge.training.engine.loop import temporary_seed

_TOLERANCE = 1e-3
"""Share of a gradient's norm by which it may differ from PyTorch's, in single precision."""

_SPARE = 0.05
"""Share by which a norm may exceed PyTorch's: less than the clipping norm is let through then."""

Way = Literal["one pass", "vectorised", "one by one"]


class ClippingWay(NamedTuple):
    """How the gradients of one kind of network are computed and clipped."""

    way: Way
    reason: str = ""
    """Why it is not the way that was set; empty where it is."""

    @property
    def note(self) -> str:
        """What a user has to know; empty where gradients are clipped as was set."""
        if not self.reason:
            return ""
        what = "per-record clipping"
        if self.way == "one by one":
            what += ", one record at a time"
        return f"{what}, since {self.reason}"

    def gradients(self, module: nn.Module) -> RecordGradients:
        """The way, for a network of this kind."""
        if self.way == "one pass":
            return OnePassGradients(module)
        return PerRecordGradients(module, vectorised=self.way == "vectorised")


def choose_way(network: nn.Module, x: torch.Tensor, clipping: Clipping) -> ClippingWay:
    """The first way whose gradients, norms and clipped sum are those of PyTorch's autograd.

    Args:
        network: the network, in training mode; its weights are as before at the end.
        x: records that it takes.
        clipping: what was set; with ``ghost``, gradients come in one pass where that is right.
    """
    with temporary_seed(0, torch.device("cpu")):
        y = torch.arange(len(x)) % network(x).shape[1]
    ways: list[tuple[Way, Callable[[], RecordGradients]]] = [
        # the same draws for all records, as the comparison gives them to each by itself
        ("vectorised", lambda: PerRecordGradients(network, vectorised=True, same_draws=True))
    ]
    if clipping == "ghost":
        ways.insert(0, ("one pass", lambda: OnePassGradients(network)))
    reasons: list[str] = []
    for way, make in ways:
        reason = _obstacle(way, make, network, x, y)
        if reason is None:
            return ClippingWay(way, "; ".join(reasons))
        reasons.append(reason)
    return ClippingWay("one by one", "; ".join(reasons))


_WORDS: dict[Way, str] = {"one pass": "in one pass", "vectorised": "for many records at once"}


def _obstacle(
    way: Way,
    make: Callable[[], RecordGradients],
    network: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
) -> str | None:
    """Why this way is wrong for the network; None where it is right."""
    compared = 0
    try:
        compute = make()
        for _ in trial_weights(network):
            truth = _autograd(network, compute, x, y)
            if not all(bool(t.isfinite().all()) for record in truth for t in record):
                continue  # these weights say nothing
            with temporary_seed(1, torch.device("cpu")):
                gradients = compute(x, y)
            wrong = _first_difference(gradients, truth)
            if wrong is not None:
                name = next(n for n, p in network.named_parameters() if p is compute.params[wrong])
                return f"weight {name!r} has another gradient in PyTorch's autograd"
            compared += 1
    except UnknownUseError as error:
        return str(error)
    except Exception as error:  # what PyTorch cannot do this way, it can in another
        line = str(error).strip().partition("\n")[0]
        return (
            f"its gradients cannot be computed {_WORDS[way]} ({type(error).__name__}: {line:.100})"
        )
    return None if compared else "the network's gradients at random weights are not finite"


def _autograd(
    network: nn.Module, compute: RecordGradients, x: torch.Tensor, y: torch.Tensor
) -> list[list[torch.Tensor]]:
    """PyTorch's own gradient of each record by each weight."""

    def differentiate(loss: torch.Tensor) -> list[torch.Tensor]:
        parts: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
            loss, compute.params, retain_graph=True, allow_unused=True
        )
        pairs = zip(parts, compute.params, strict=True)
        return [torch.zeros_like(p) if part is None else part for part, p in pairs]

    if not compute.alone:
        with temporary_seed(1, torch.device("cpu")):
            losses = cross_entropy(network(x), y, reduction="none")
        return [differentiate(loss) for loss in losses]
    truth = []
    for k in range(len(x)):
        with temporary_seed(1, torch.device("cpu")):
            truth.append(differentiate(cross_entropy(network(x[k : k + 1]), y[k : k + 1])))
    return truth


def _first_difference(gradients: BatchGradients, truth: list[list[torch.Tensor]]) -> int | None:
    """The number of the first weight whose gradient, norm or clipped sum is another."""
    norms = torch.stack(
        [torch.stack([t.double().norm() for t in record]).norm() for record in truth]
    )
    wholes = list(zip(torch.eye(len(truth)), truth, strict=True))
    # at the median norm half of the records are clipped, and half are not
    cut = float(norms.median())
    factors = clip_factors(gradients, cut) if cut > 0 else torch.ones(len(truth))
    sums = [
        sum(factor * t for factor, t in zip(factors, parts, strict=True))
        for parts in zip(*truth, strict=True)
    ]
    for chosen, right in [*wholes, (factors, sums)]:
        ours = gradients.weigh(chosen.to(gradients.losses.dtype))
        whole = torch.stack([t.double().norm() for t in right]).norm()
        for number, (a, b) in enumerate(zip(ours, right, strict=True)):
            share = max(_TOLERANCE, 10 * torch.finfo(b.dtype).eps)
            margin = share * b.double().norm() + share / 100 * whole
            if not (a.double() - b.double()).norm() <= margin:
                return number
    # a norm that is too small lets through more than the clipping norm; one too large only less
    low, high = (1 - _TOLERANCE) * norms, (1 + _SPARE) * norms + _TOLERANCE * norms.max()
    lengths = gradients.squares.sqrt()
    return None if bool(((lengths >= low) & (lengths <= high)).all()) else 0
