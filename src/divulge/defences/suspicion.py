"""How suspicious answers are to a frozen discriminator: with little work, and the gradient."""

from typing import NamedTuple

import torch
from torch import nn

from divulge.defences.discriminator import Block, Discriminator, evidence

aten = torch.ops.aten

_Affine = tuple[torch.Tensor, torch.Tensor]
"""What values are multiplied by, and what is then added to them."""


class _Folded(NamedTuple):
    """A block in evaluation mode: there batch normalisation is affine, as weights are."""

    first: _Affine
    """Of each value."""
    linear: tuple[_Affine, ...]
    """The three layers of weights; the last one with the bias of the way round them."""
    around: torch.Tensor


class Suspicion:
    """The mean of -log(1 - D) over records, where D is the chance of "was trained on".

    The same as the discriminator's own answers tell in evaluation mode, to rounding, in half the
    time: this is most of a training step.

    Args:
        discriminator: frozen.
        device: where answers are.
    """

    def __init__(self, discriminator: Discriminator, device: torch.device) -> None:
        with torch.no_grad():
            inside = 1 / discriminator.deviation, -discriminator.mean / discriminator.deviation
            *blocks, last = discriminator.blocks
            self._blocks = []
            for block in blocks:
                assert isinstance(block, Block)
                self._blocks.append(_moved(_folded(block, *inside), device))
                inside = torch.ones(()), torch.zeros(())
            assert isinstance(last, nn.Linear)
            self._last = last.weight.detach().to(device), last.bias.detach().to(device)

    @torch.no_grad()
    def value(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Of these answers to records with these labels; a single number."""
        x = evidence(logits, y).float()
        for block in self._blocks:
            x = _through(block, x)[-1]
        return -_verdict(self._last, x)[:, 0].mean()

    @torch.no_grad()
    def with_gradient(
        self, logits: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, and its gradient by the answers."""
        seen = evidence(logits, y).float()
        x, inner = seen, []
        for block in self._blocks:
            *hidden, x = _through(block, x)
            inner.append(hidden)
        verdict = _verdict(self._last, x)
        gradient = verdict.exp()
        gradient[:, 0] -= 1
        gradient = gradient.div_(len(y)) @ self._last[0]
        for block, hidden in zip(reversed(self._blocks), reversed(inner), strict=True):
            gradient = _back(block, hidden, gradient)
        return -verdict[:, 0].mean(), _by_logits(gradient, seen).to(logits.dtype)


def _folded(block: Block, scale: torch.Tensor, shift: torch.Tensor) -> _Folded:
    """The block, when what it is given is first multiplied by the scale and then shifted."""
    norms = [_affine(layer) for layer in block.layers if isinstance(layer, nn.BatchNorm1d)]
    layers = [layer for layer in block.layers if isinstance(layer, nn.Linear)]
    (factor, addend), *later = norms
    first = factor * scale, factor * shift + addend
    linear = [
        (layer.weight * factor[:, None], layer.bias * factor + addend)
        for layer, (factor, addend) in zip(layers, later, strict=False)
    ]
    around = block.around
    bias = layers[-1].bias + around.bias + (around.weight * shift).sum(dim=1)
    return _Folded(first, (*linear, (layers[-1].weight, bias)), around.weight * scale)


def _affine(norm: nn.BatchNorm1d) -> _Affine:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    factor = norm.weight / torch.sqrt(variance + norm.eps)
    return factor, norm.bias - factor * mean


def _moved(block: _Folded, device: torch.device) -> _Folded:
    def moved(affine: _Affine) -> _Affine:
        return affine[0].detach().to(device), affine[1].detach().to(device)

    linear = tuple(moved(layer) for layer in block.linear)
    return _Folded(moved(block.first), linear, block.around.detach().to(device))


def _through(block: _Folded, x: torch.Tensor) -> list[torch.Tensor]:
    """What enters each of the three layers of weights, and what leaves the block."""
    scale, shift = block.first
    hidden = [torch.addcmul(shift, x, scale).relu_()]
    for weight, bias in block.linear[:-1]:
        hidden.append(torch.addmm(bias, hidden[-1], weight.t()).relu_())
    weight, bias = block.linear[-1]
    return [*hidden, torch.addmm(bias, hidden[-1], weight.t()).addmm_(x, block.around.t())]


def _back(block: _Folded, hidden: list[torch.Tensor], gradient: torch.Tensor) -> torch.Tensor:
    """From the gradient by what leaves the block to that by what entered it."""
    below = gradient
    for (weight, _), out in zip(reversed(block.linear), reversed(hidden), strict=True):
        below = aten.threshold_backward(below @ weight, out, 0)
    return below.mul_(block.first[0]).addmm_(gradient, block.around)


def _verdict(last: _Affine, x: torch.Tensor) -> torch.Tensor:
    """The logarithms of the chances of "was not trained on", and of "was"."""
    return torch.addmm(last[1], x, last[0].t()).log_softmax(dim=1)


def _by_logits(gradient: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """From the gradient by `evidence` to that by the logits, through softmax and cross-entropy."""
    classes = seen.shape[1] // 2
    p, label = seen[:, :classes], seen[:, classes : 2 * classes]
    by_p, by_loss = gradient[:, :classes] * p, gradient[:, -1:]
    return by_p - p * (by_p.sum(dim=1, keepdim=True) - by_loss) - label * by_loss
