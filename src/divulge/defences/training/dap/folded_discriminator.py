"""A frozen discriminator's loss and gradient: batch normalisation is folded into the weights."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import softplus

from divulge.defences.training.dap.discriminator import (
    Discriminator,
    DiscriminatorBlock,
    evidence,
)

aten = torch.ops.aten


_Affine = tuple[torch.Tensor, torch.Tensor]
"""A factor that values are multiplied by, and an addend that they then get."""


class _LayerWeights(NamedTuple):
    """Weights in both memory layouts: a product with few records takes twice as long in the other.

    Forward passes multiply by ``inputs_first``, backward passes by ``outputs_first``.
    """

    outputs_first: torch.Tensor
    inputs_first: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def lay_out(
        cls, weight: torch.Tensor, bias: torch.Tensor, device: torch.device
    ) -> "_LayerWeights":
        """The layer with these weights, shape (outputs, inputs), on a device."""
        moved = weight.detach().to(device)
        return cls(moved.contiguous(), moved.t().contiguous(), bias.detach().to(device))


class _FoldedBlock(NamedTuple):
    """A block in evaluation mode: there batch normalisation is affine, as weights are."""

    first: _Affine
    """The factor and the addend of each value before the first ReLU."""
    inner: tuple[_LayerWeights, _LayerWeights]
    """The first two layers of weights."""
    last: _LayerWeights
    """The third layer; its bias includes that of the way round."""
    around: _LayerWeights
    """The linear way round the three layers, without a bias."""


class DiscriminatorLoss:
    """The loss -log(1 - D) of records, where D is the chance of "was trained on".

    The same as the discriminator's own answers tell in evaluation mode, to rounding, in a quarter
    of the time: this is most of a training step. What the last block and the layer behind it do
    beside ReLUs is linear, and only the difference of the two logits counts: so the last weights
    of all shrink to two vectors.

    Args:
        discriminator: the frozen discriminator.
        device: the device of the logits.
    """

    @torch.no_grad()
    def __init__(self, discriminator: Discriminator, device: torch.device) -> None:
        inside = 1 / discriminator.deviation, -discriminator.mean / discriminator.deviation
        *blocks, verdict = discriminator.blocks
        self._blocks = []
        for block in blocks:
            assert isinstance(block, DiscriminatorBlock)
            self._blocks.append(_fold_block(block, *inside, device))
            inside = torch.ones(()), torch.zeros(())
        assert isinstance(verdict, nn.Linear)
        *_, last = self._blocks
        # two logits under softmax are one: their difference is the log odds of D
        way = (verdict.weight[1] - verdict.weight[0]).to(device)
        self._by_hidden = last.last.inputs_first @ way
        self._by_input = last.around.inputs_first @ way
        self._addend = last.last.bias @ way + (verdict.bias[1] - verdict.bias[0]).to(device)

    @torch.no_grad()
    def losses(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of each record with these logits and this label, shape (records,)."""
        # -log(1 - D) at log odds z is softplus(z): no logarithm of what rounds to zero
        return softplus(self._forward(evidence(logits, y).float())[0])

    @torch.no_grad()
    def with_gradients(
        self, logits: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of each record, and its gradient by the record's logits."""
        inputs = evidence(logits, y).float()
        suspicion, hidden = self._forward(inputs)
        # derivative of softplus
        slope = suspicion.sigmoid()
        by_hidden, by_input = slope.outer(self._by_hidden), slope.outer(self._by_input)
        for k in reversed(range(len(self._blocks))):
            gradient = _backward(self._blocks[k], hidden[k], by_hidden, by_input)
            if k:
                below = self._blocks[k - 1]
                by_hidden = gradient @ below.last.outputs_first
                by_input = gradient @ below.around.outputs_first
        return softplus(suspicion), _logit_gradient(gradient, inputs, y).to(logits.dtype)

    def _forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
        """The logit of D, and what enters the layers of each block."""
        hidden = []
        *blocks, last = self._blocks
        for block in blocks:
            hidden.append(_hidden_layers(block, x))
            x = torch.addmm(block.last.bias, x, block.around.inputs_first)
            x.addmm_(hidden[-1][-1], block.last.inputs_first)
        hidden.append(_hidden_layers(last, x))
        suspicion = torch.mv(x, self._by_input).addmv_(hidden[-1][-1], self._by_hidden)
        return suspicion.add_(self._addend), hidden


def _fold_block(
    block: DiscriminatorBlock, scale: torch.Tensor, shift: torch.Tensor, device: torch.device
) -> _FoldedBlock:
    """The block, when what it is given is first multiplied by the scale and then shifted."""
    norms = [_fold_batch_norm(layer) for layer in block.layers if isinstance(layer, nn.BatchNorm1d)]
    layers = [layer for layer in block.layers if isinstance(layer, nn.Linear)]
    (factor, addend), *later = norms
    first = (factor * scale).to(device), (factor * shift + addend).to(device)
    lower, upper = (
        _LayerWeights.lay_out(layer.weight * factor[:, None], layer.bias * factor + addend, device)
        for layer, (factor, addend) in zip(layers, later, strict=False)
    )
    around, last = block.around, layers[-1]
    bias = last.bias + around.bias + (around.weight * shift).sum(dim=1)
    return _FoldedBlock(
        first,
        (lower, upper),
        _LayerWeights.lay_out(last.weight, bias, device),
        _LayerWeights.lay_out(around.weight * scale, torch.zeros(()), device),
    )


def _fold_batch_norm(norm: nn.BatchNorm1d) -> _Affine:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    # in evaluation mode normalisation is x · factor + addend, with fixed statistics
    factor = norm.weight / torch.sqrt(variance + norm.eps)
    return factor, norm.bias - factor * mean


def _hidden_layers(block: _FoldedBlock, x: torch.Tensor) -> list[torch.Tensor]:
    """What enters each of the three layers of weights."""
    scale, shift = block.first
    hidden = [torch.addcmul(shift, x, scale).relu_()]
    for layer in block.inner:
        hidden.append(torch.addmm(layer.bias, hidden[-1], layer.inputs_first).relu_())
    return hidden


def _backward(
    block: _FoldedBlock,
    hidden: list[torch.Tensor],
    by_hidden: torch.Tensor,
    by_input: torch.Tensor,
) -> torch.Tensor:
    """The gradient by what enters a block.

    Args:
        block: the block.
        hidden: what enters its layers.
        by_hidden: the gradient by what enters the last of them.
        by_input: the gradient by what enters the block, as far as it goes round the layers.
    """
    *before, last = hidden
    below = aten.threshold_backward(by_hidden, last, 0)
    for layer, out in zip(reversed(block.inner), reversed(before), strict=True):
        below = aten.threshold_backward(below @ layer.outputs_first, out, 0)
    return by_input.addcmul_(below, block.first[0])


def _logit_gradient(gradient: torch.Tensor, inputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """From the gradient by `evidence` to that by the logits, through softmax and cross-entropy."""
    classes = inputs.shape[1] // 2
    p, by_loss = inputs[:, :classes], gradient[:, -1:]
    by_p = gradient[:, :classes] * p
    # softmax: dL/dz = p ⊙ (g - Σ g p); the loss's own part is (p - label) by_loss
    rest = by_loss - by_p.sum(dim=1, keepdim=True)
    return by_p.addcmul_(p, rest).scatter_add_(1, y[:, None], -by_loss)
