"""Gradients of all records of a batch by the weights of one layer, for the layers known here.

A record's gradient by a layer's weights is a product of what the layer got and of the gradient by
what it gave. Its norm comes in double precision where numbers cancel: what is added up later is the
product itself, so a norm that is too small would let through more than the clipping norm.

References:
    Goodfellow (2015), Efficient per-example gradient computations; Li, Tramèr, Liang and Hashimoto
    (2022), Large language models can be strong differentially private learners, section 4; Bu et
    al. (2023), Differentially private optimization on large model at small cost, section 3: which
    of two ways a layer's norms are computed in, and the sum without a second pass.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import nn
from torch.nn.functional import group_norm, layer_norm, pad

from divulge.defences.training.dp_sgd.clipping import Factors, squared_norms

aten = torch.ops.aten

_KEPT = 2**26
"""Bytes of gradients of single records by a layer that are kept until their norms are known."""

_ROOM = 2**21
"""Bytes of patches of images that are made at a time: they stay in the processor's cache."""

_ROUNDING = 1000.0
"""Rounding errors of the weights' precision that the sum of a record's products is allowed.

Where products of thousands of positions cancel, what rounding leaves of them in the clipped sum can
be longer than their exact sum. This share of the products' lengths is added to the norm: it
outweighs the rounding by far, and is next to nothing where little cancels.
"""


class LayerGradients(NamedTuple):
    """The gradients of all records of a batch by the weights of one layer."""

    squares: Float64[torch.Tensor, " records"]
    """Squared norm of each record's gradient, and of what rounding may add where it is summed."""
    weigh: Callable[[Factors], list[torch.Tensor]]
    """A function from a factor for each record to the sum of the gradients times these, for each
    of the layer's tensors."""


def _with_bias(
    layer: nn.Module, weights: LayerGradients, bias: Float[torch.Tensor, "records outputs"]
) -> LayerGradients:
    """Gradients by weights, and by a bias if the layer has one."""
    if getattr(layer, "bias", None) is None:
        return weights
    squares = weights.squares + squared_norms(bias)
    return LayerGradients(squares, lambda factors: [*weights.weigh(factors), factors @ bias])


def _linear(layer: nn.Linear, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    if got.dim() == 2:
        weights, bias = squared_norms(got), squared_norms(by_given)
        if getattr(layer, "bias", None) is None:
            return LayerGradients(weights * bias, lambda f: [(by_given * f[:, None]).t() @ got])

        def weigh_both(factors: Factors) -> list[torch.Tensor]:
            weighted = by_given * factors[:, None]
            return [weighted.t() @ got, weighted.sum(0)]

        # |a bᵀ|² = |a|² |b|², and the bias adds |b|² (Goodfellow 2015)
        return LayerGradients((weights + 1) * bias, weigh_both)
    a, b = got.flatten(1, -2), by_given.flatten(1, -2)
    squares = _rounding(a, b) + torch.cat([
        _squares_of_products(*some)
        for some in zip(*(torch.split(t, _records_at_a_time(a, b)) for t in (a, b)), strict=True)
    ])  # fmt: skip

    def weigh(factors: Factors) -> list[torch.Tensor]:
        return [(b * factors[:, None, None]).flatten(0, 1).t() @ a.flatten(0, 1)]

    return _with_bias(layer, LayerGradients(squares, weigh), b.sum(1))


def _records_at_a_time(
    a: Float[torch.Tensor, "records positions inputs"],
    b: Float[torch.Tensor, "records positions outputs"],
) -> int:
    inside = a.shape[2] * b.shape[2]
    return max(1, _ROOM // (a.element_size() * (inside + a[0].numel() + a.shape[1] ** 2)))


def _squares_of_products(
    a: Float[torch.Tensor, "records positions inputs"],
    b: Float[torch.Tensor, "records positions outputs"],
) -> Float64[torch.Tensor, " records"]:
    """Squared norm of each record's ``b.T @ a``, the cheaper of two ways."""
    # Bu et al., section 3: inner products of positions are fewer numbers than the gradient itself
    if 2 * a.shape[1] ** 2 < a.shape[2] * b.shape[2]:
        a, b = a.double(), b.double()  # terms of both signs: in single precision their sum may be 0
        return ((a @ a.mT) * (b @ b.mT)).sum((1, 2)).clamp(min=0.0)
    return squared_norms(b.mT @ a)


def _rounding(a: torch.Tensor, b: torch.Tensor) -> Float64[torch.Tensor, " records"]:
    """The square of what rounding may add to each record's sum of products."""
    share = _ROUNDING * torch.finfo(b.dtype).eps
    return squared_norms(a) * squared_norms(b) * share**2


def _convolution(
    layer: nn.Conv1d | nn.Conv2d, got: torch.Tensor, by_given: torch.Tensor
) -> LayerGradients:
    """A convolution multiplies patches of what it got, at each position of what it gives."""
    outputs, inputs = layer.weight.shape[0], layer.weight[0].numel()
    positions = math.prod(by_given.shape[2:])
    size = got.element_size()
    at_a_time = max(1, _ROOM // (size * (inputs * positions + inputs * outputs)))
    # the same choice between positions and weights, once for the layer
    few = 2 * positions**2 < inputs * outputs
    keep = not few and len(got) * inputs * outputs * size <= _KEPT
    squares: list[torch.Tensor] = []
    per_record: list[torch.Tensor] = []
    for some, by_some in zip(*(torch.split(t, at_a_time) for t in (got, by_given)), strict=True):
        a, b = _patches(layer, some), by_some.flatten(2).mT
        if keep:
            per_record.append(b.mT @ a)
            squares.append(squared_norms(per_record[-1]))
        else:
            squares.append(_squares_of_products(a, b) + _rounding(a, b))

    def weigh(factors: Factors) -> list[torch.Tensor]:
        if keep:
            whole = torch.tensordot(factors, torch.cat(per_record), 1)
            order = (outputs, *layer.kernel_size, layer.in_channels)
            return [whole.view(order).movedim(-1, 1).contiguous()]
        weighted = by_given * factors.view(-1, *(1,) * (by_given.dim() - 1))
        ways = layer.stride, layer.padding, layer.dilation, False, [0] * len(layer.stride), 1
        only = [False, True, False]
        return [aten.convolution_backward(weighted, got, layer.weight, None, *ways, only)[1]]

    return _with_bias(layer, LayerGradients(torch.cat(squares), weigh), by_given.flatten(2).sum(2))


def _patches(
    layer: nn.Conv1d | nn.Conv2d, x: torch.Tensor
) -> Float[torch.Tensor, "records positions inputs"]:
    """The part of each record that each position sees, its channels last."""
    assert not isinstance(layer.padding, str)
    edges = [edge for side in reversed(layer.padding) for edge in (side, side)]
    x = pad(x.movedim(1, -1), (0, 0, *edges)).contiguous()
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    many = [(n - r - 1) // s + 1 for n, r, s in zip(x.shape[1:-1], reach, stride, strict=True)]
    steps = x.stride()[1:-1]
    patches = x.as_strided(
        (len(x), *many, *kernel, x.shape[-1]),
        (
            x.stride(0),
            *(a * b for a, b in zip(steps, stride, strict=True)),
            *(a * b for a, b in zip(steps, dilation, strict=True)),
            x.stride(-1),
        ),
    )
    return patches.reshape(len(x), math.prod(many), -1)


def _embedding(layer: nn.Embedding, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    """The row of a word gets the sum of the gradients at all places of the word."""
    words = got.reshape(len(got), -1)
    b = by_given.reshape(*words.shape, -1)
    if layer.padding_idx is not None:
        b = b.masked_fill((words == layer.padding_idx)[..., None], 0.0)
    at_a_time = max(1, _ROOM // (8 * words.shape[1] * (words.shape[1] + b.shape[2])))
    squares = [
        _squares_by_word(*some)
        for some in zip(torch.split(words, at_a_time), torch.split(b, at_a_time), strict=True)
    ]

    def weigh(factors: Factors) -> list[torch.Tensor]:
        weighted = (b * factors[:, None, None]).flatten(0, 1)
        return [torch.zeros_like(layer.weight).index_add_(0, words.flatten(), weighted)]

    return LayerGradients(torch.cat(squares), weigh)


def _squares_by_word(
    words: Int64[torch.Tensor, "records positions"],
    b: Float[torch.Tensor, "records positions outputs"],
) -> Float64[torch.Tensor, " records"]:
    """Squared norm of each record's gradient, and of what rounding may add where it is summed."""
    exact = b.double()
    # places of one word share a row of weights, so their gradients add up before the norm
    same = words[:, :, None] == words[:, None, :]
    squares = ((exact @ exact.mT) * same).sum((1, 2)).clamp(min=0.0)
    lengths: torch.Tensor = torch.linalg.vector_norm(exact, dim=2).sum(1)
    return squares + (_ROUNDING * torch.finfo(b.dtype).eps * lengths).square()


def _group_norm(layer: nn.GroupNorm, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    scaled = by_given * group_norm(got, layer.num_groups, eps=layer.eps)
    own, bias = (t.reshape(*t.shape[:2], -1).sum(2) for t in (scaled, by_given))
    return _with_bias(layer, _small(own), bias)


def _layer_norm(layer: nn.LayerNorm, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    shape = layer.normalized_shape
    scaled = by_given * layer_norm(got, shape, eps=layer.eps)
    own, bias = (t.reshape(len(t), -1, math.prod(shape)).sum(1) for t in (scaled, by_given))
    flat = _with_bias(layer, _small(own), bias)
    return flat._replace(weigh=lambda factors: [t.view(shape) for t in flat.weigh(factors)])


def _small(own: Float[torch.Tensor, "records weights"]) -> LayerGradients:
    """Gradients that are kept, as there are few numbers."""
    return LayerGradients(squared_norms(own), lambda factors: [factors @ own])


LAYER_GRADIENTS: dict[type[nn.Module], Callable[..., LayerGradients]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Embedding: _embedding,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
}
"""By kind of layer: a function of the layer, what it got, and the gradient by what it gave."""


def trained_weights(layer: nn.Module) -> list[nn.Parameter]:
    """The layer's own parameters that are trained."""
    return [p for p in layer.parameters(recurse=False) if p.requires_grad]


def is_known(layer: nn.Module) -> bool:
    """Whether the gradients by the layer's weights can be computed here."""
    if type(layer) not in LAYER_GRADIENTS:
        return False
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        plain = not isinstance(layer.padding, str) and layer.padding_mode == "zeros"
        if layer.groups > 1 or not plain:
            return False
    if isinstance(layer, nn.Embedding):
        renormed = layer.max_norm is not None
        if renormed or layer.scale_grad_by_freq or layer.sparse:
            return False
    return len(trained_weights(layer)) == len(list(layer.parameters(recurse=False)))
