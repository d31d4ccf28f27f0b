"""Compute DAP's loss: the cross-entropy and what a frozen discriminator adds, by its gradient.

The discriminator's part changes the last layer alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.defences.training.dap.discriminator import (
    Discriminator,
    DiscriminatorBlock,
    Samples,
    evidence,
)
from divulge.errors import TargetError
from divulge.training.engine.tensors import PoolTensors
from divulge.training.losses import BatchLoss, LastLayerTerm, TermFunction

aten = torch.ops.aten


_Affine = tuple[torch.Tensor, torch.Tensor]
"""A factor that values are multiplied by, and an addend that they then get."""


class _FoldedBlock(NamedTuple):
    """A block in evaluation mode: there batch normalisation is affine, as weights are."""

    first: _Affine
    """The factor and the addend of each value before the first ReLU."""
    linear: tuple[_Affine, ...]
    """Weights and biases of the three layers; the last bias includes that of the way round."""
    around: torch.Tensor
    """The weights of the linear way round the three layers."""


class DiscriminatorLoss:
    """The mean of -log(1 - D) over records, where D is the chance of "was trained on".

    The same as the discriminator's own answers tell in evaluation mode, to rounding, in half the
    time: this is most of a training step.

    Args:
        discriminator: the frozen discriminator.
        device: the device of the logits.
    """

    def __init__(self, discriminator: Discriminator, device: torch.device) -> None:
        with torch.no_grad():
            inside = 1 / discriminator.deviation, -discriminator.mean / discriminator.deviation
            *blocks, last = discriminator.blocks
            self._blocks = []
            for block in blocks:
                assert isinstance(block, DiscriminatorBlock)
                self._blocks.append(_move_block(_fold_block(block, *inside), device))
                inside = torch.ones(()), torch.zeros(())
            assert isinstance(last, nn.Linear)
            self._last = last.weight.detach().to(device), last.bias.detach().to(device)

    @torch.no_grad()
    def value(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The mean loss of these logits with these labels, a single number."""
        x = evidence(logits, y).float()
        for block in self._blocks:
            x = _forward(block, x)[-1]
        return -_log_membership(self._last, x)[:, 0].mean()

    @torch.no_grad()
    def with_gradient(
        self, logits: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean loss, and its gradient by the logits."""
        seen = evidence(logits, y).float()
        x, inner = seen, []
        for block in self._blocks:
            *hidden, x = _forward(block, x)
            inner.append(hidden)
        verdict = _log_membership(self._last, x)
        gradient = verdict.exp()
        gradient[:, 0] -= 1
        gradient = gradient.div_(len(y)) @ self._last[0]
        for block, hidden in zip(reversed(self._blocks), reversed(inner), strict=True):
            gradient = _backward(block, hidden, gradient)
        return -verdict[:, 0].mean(), _logit_gradient(gradient, seen).to(logits.dtype)


def _fold_block(
    block: DiscriminatorBlock, scale: torch.Tensor, shift: torch.Tensor
) -> _FoldedBlock:
    """The block, when what it is given is first multiplied by the scale and then shifted."""
    norms = [_fold_batch_norm(layer) for layer in block.layers if isinstance(layer, nn.BatchNorm1d)]
    layers = [layer for layer in block.layers if isinstance(layer, nn.Linear)]
    (factor, addend), *later = norms
    first = factor * scale, factor * shift + addend
    linear = [
        (layer.weight * factor[:, None], layer.bias * factor + addend)
        for layer, (factor, addend) in zip(layers, later, strict=False)
    ]
    around = block.around
    bias = layers[-1].bias + around.bias + (around.weight * shift).sum(dim=1)
    return _FoldedBlock(first, (*linear, (layers[-1].weight, bias)), around.weight * scale)


def _fold_batch_norm(norm: nn.BatchNorm1d) -> _Affine:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    factor = norm.weight / torch.sqrt(variance + norm.eps)
    return factor, norm.bias - factor * mean


def _move_block(block: _FoldedBlock, device: torch.device) -> _FoldedBlock:
    def move_affine(affine: _Affine) -> _Affine:
        return affine[0].detach().to(device), affine[1].detach().to(device)

    linear = tuple(move_affine(layer) for layer in block.linear)
    return _FoldedBlock(move_affine(block.first), linear, block.around.detach().to(device))


def _forward(block: _FoldedBlock, x: torch.Tensor) -> list[torch.Tensor]:
    """What enters each of the three layers of weights, and what leaves the block."""
    scale, shift = block.first
    hidden = [torch.addcmul(shift, x, scale).relu_()]
    for weight, bias in block.linear[:-1]:
        hidden.append(torch.addmm(bias, hidden[-1], weight.t()).relu_())
    weight, bias = block.linear[-1]
    return [*hidden, torch.addmm(bias, hidden[-1], weight.t()).addmm_(x, block.around.t())]


def _backward(
    block: _FoldedBlock, hidden: list[torch.Tensor], gradient: torch.Tensor
) -> torch.Tensor:
    """From the gradient by what leaves the block to that by what entered it."""
    below = gradient
    for (weight, _), out in zip(reversed(block.linear), reversed(hidden), strict=True):
        below = aten.threshold_backward(below @ weight, out, 0)
    return below.mul_(block.first[0]).addmm_(gradient, block.around)


def _log_membership(last: _Affine, x: torch.Tensor) -> torch.Tensor:
    """The logarithms of the chances of "was not trained on", and of "was"."""
    return torch.addmm(last[1], x, last[0].t()).log_softmax(dim=1)


def _logit_gradient(gradient: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """From the gradient by `evidence` to that by the logits, through softmax and cross-entropy."""
    classes = seen.shape[1] // 2
    p, label = seen[:, :classes], seen[:, classes : 2 * classes]
    by_p, by_loss = gradient[:, :classes] * p, gradient[:, -1:]
    return by_p - p * (by_p.sum(dim=1, keepdim=True) - by_loss) - label * by_loss


@dataclass(frozen=True, slots=True)
class DiscriminatorAdversary:
    """DAP's loss: the cross-entropy, and for the last layer the discriminator's loss besides."""

    discriminator: Discriminator
    r: float
    samples: Samples

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """A game of its own: the discriminator stays, the balance β is found in each epoch.

        Raises:
            TargetError: the model does not end in a linear layer.
        """
        last = _LastLinear(module)
        last.check(data, held_out)
        terms = self.terms(module, data, held_out)

        def epoch_loss(epoch: int) -> BatchLoss:
            term = terms(epoch)

            def loss(rows: torch.Tensor) -> torch.Tensor:
                x, y = data.batch(rows)
                logits, features = last.answers(x)
                total = cross_entropy(logits, y)
                found = term(logits.detach(), y)
                if found:  # its value, and its gradient for the last layer alone
                    again = (last.layer(features.detach()) * found.gradient).sum()
                    total = total + found.value + again - again.detach()
                return total

            return loss

        return epoch_loss

    def terms(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], TermFunction]:
        """What the game adds to the cross-entropy."""
        suspicion = DiscriminatorLoss(self.discriminator, data.x.device)
        beta = 1.0

        def balance_losses() -> float:
            """The balance β of eq. 3."""
            with _inference_mode(module):
                x, y = data.batch(held_out)
                logits = module(x)
                kept = self._shown_records(logits, y)
                if not kept.any():
                    return beta
                ours, its = cross_entropy(logits, y), suspicion.value(logits[kept], y[kept])
                return self.r * float(ours) / max(float(its), 1e-6)

        def epoch_term(epoch: int) -> TermFunction:
            nonlocal beta
            beta = balance_losses() if epoch else 1.0

            def term(logits: torch.Tensor, y: torch.Tensor) -> LastLayerTerm | None:
                kept = self._shown_records(logits, y)
                if not beta or not kept.any():
                    return None
                value, gradient = suspicion.with_gradient(logits[kept], y[kept])
                everyone = torch.zeros_like(logits)
                everyone[kept] = gradient * beta
                return LastLayerTerm(beta * value, everyone)

            return term

        return epoch_term

    def _shown_records(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Which records the discriminator is shown."""
        return (logits.argmax(dim=1) != y) | (self.samples == "all")


class _LastLinear:
    """The last linear layer of a module, and what enters it."""

    def __init__(self, module: nn.Module) -> None:
        layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
        if not layers:
            raise _last_layer_error(module)
        self.layer, self._module = layers[-1], module

    def answers(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of a batch, and the features that the layer made them from."""
        seen: list[torch.Tensor] = []

        def keep(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
            seen.append(inputs[0])

        handle = self.layer.register_forward_pre_hook(keep)
        try:
            logits = self._module(x)
        finally:
            handle.remove()
        return logits, seen[-1]

    def check(self, data: PoolTensors, rows: torch.Tensor) -> None:
        """Refuse a module whose logits are not what this layer makes.

        Raises:
            TargetError: they are not.
        """
        with _inference_mode(self._module):
            logits, features = self.answers(data.batch(rows[:2])[0])
            again = self.layer(features)
        if again.shape != logits.shape or not torch.allclose(again, logits, rtol=1e-3, atol=1e-5):
            raise _last_layer_error(self._module)


@contextmanager
def _inference_mode(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, without gradients; afterwards as before."""
    mode = module.training
    try:
        with torch.no_grad():
            module.eval()
            yield
    finally:
        module.train(mode)


def _last_layer_error(module: nn.Module) -> TargetError:
    return TargetError(
        f"expected a network whose logits come from its last linear layer, got "
        f"{type(module).__name__}: DAP changes that layer for privacy, and no other"
    )
