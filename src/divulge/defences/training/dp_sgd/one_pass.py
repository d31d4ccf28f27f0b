"""The sum of a batch's gradients, each clipped, by one pass forwards and one backwards.

A record's gradient by a layer's weights is a product of what the layer got and of the gradient by
what it gave. Both are known after one pass: norms and the clipped sum follow from them, without a
second pass, and without keeping the gradient of every record where it is large.

References:
    Goodfellow (2015), Efficient per-example gradient computations; Li, Tramèr, Liang and Hashimoto
    (2022), Large language models can be strong differentially private learners, section 4; Bu et
    al. (2023), Differentially private optimization on large model at small cost, section 3: which
    of two ways a layer's norms are computed in, and the sum without a second pass.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import nn
from torch.nn.functional import cross_entropy, group_norm, layer_norm, pad

aten = torch.ops.aten

_KEPT = 2**26
"""Bytes of gradients of single records by a layer that are kept until their norms are known."""

_ROOM = 2**21
"""Bytes of patches of images that are made at a time: they stay in the processor's cache."""

_MARGIN = 1e-6
"""Added to norms before they are divided by, as Opacus does."""

_TOLERANCE = 1e-3
"""Share of a gradient's norm by which the sum of a trial may differ from PyTorch's."""

Factors = Float[torch.Tensor, " records"]


class LayerGradients(NamedTuple):
    """The gradients of all records of a batch by the weights of one layer."""

    squares: Float[torch.Tensor, " records"]
    """Squared norm of each record's gradient."""
    weigh: Callable[[Factors], list[torch.Tensor]]
    """A function from a factor for each record to the sum of the gradients times these, for each
    of the layer's tensors."""


class OnePassGradients:
    """Sums of clipped gradients of a network of layers that are known here.

    Args:
        module: the network; each of its layers treats each record of a batch by itself.
        max_grad_norm: the norm that each record's gradient is clipped to.
    """

    def __init__(self, module: nn.Module, max_grad_norm: float) -> None:
        self._module, self._norm = module, max_grad_norm
        self._layers = [layer for layer in module.modules() if _trained(layer)]

    @classmethod
    def find(
        cls, module: nn.Module, max_grad_norm: float, x: torch.Tensor, y: torch.Tensor
    ) -> "OnePassGradients | None":
        """These sums, if they are right for a few records; None for other networks.

        A layer that is unknown, shared, called twice, frozen in part, or whose weights are also
        used elsewhere makes the gradients others than PyTorch's.
        """
        found = cls(module, max_grad_norm)
        params = [p for p in module.parameters() if p.requires_grad]
        own = [p for layer in found._layers for p in _trained(layer)]
        if {id(p) for p in own} != {id(p) for p in params} or len(own) != len(params):
            return None
        if not all(_is_known(layer) for layer in found._layers):
            return None
        with torch.random.fork_rng([]):  # dropout draws
            return found if found._agrees(x, y) else None

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Set ``grad`` of each trained parameter to the sum of the batch's clipped gradients."""
        _, layers = self._layer_gradients(x, y)
        norms = torch.stack([one.squares for one in layers]).sum(0).sqrt()
        factors = (self._norm / (norms + _MARGIN)).clamp(max=1.0)
        for layer, gradients in zip(self._layers, layers, strict=True):
            for p, grad in zip(_trained(layer), gradients.weigh(factors), strict=True):
                p.grad = grad

    def _agrees(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        """Whether the gradient of each record is PyTorch's."""
        try:
            losses, layers = self._layer_gradients(x, y, again=True)
        except _UnknownUseError:
            return False
        params = [p for layer in self._layers for p in _trained(layer)]
        squares = torch.stack([one.squares for one in layers]).sum(0)
        for k, chosen in enumerate(torch.eye(len(x), dtype=squares.dtype)):
            right = torch.autograd.grad(losses[k], params, retain_graph=True)
            norm = torch.stack([one.norm() for one in right]).norm()
            ours = [grad for one in layers for grad in one.weigh(chosen)]
            off = torch.stack([(a - b).norm() for a, b in zip(ours, right, strict=True)]).norm()
            margin = _TOLERANCE * norm + _MARGIN
            if not (off <= margin and abs(squares[k].sqrt() - norm) <= margin):
                return False
        return True

    def _layer_gradients(
        self, x: torch.Tensor, y: torch.Tensor, *, again: bool = False
    ) -> tuple[Float[torch.Tensor, " records"], list[LayerGradients]]:
        """The loss of each record, to be differentiated again or not, and the gradients."""
        with self._noting() as notes:
            losses = cross_entropy(self._module(x), y, reduction="none")
        if any(note.given._version != note.version or len(note.got) != len(x) for note in notes):
            # overwritten since, or with another axis in front: what is known is not of this layer
            raise _UnknownUseError
        given = torch.autograd.grad(
            losses.sum(), [note.given for note in notes], retain_graph=again
        )
        with torch.no_grad():
            return losses, [
                _GRADIENTS[type(layer)](layer, note.got, one)
                for layer, note, one in zip(self._layers, notes, given, strict=True)
            ]

    @contextmanager
    def _noting(self) -> Iterator[list["_Note"]]:
        """Within it, what each layer got and gave is noted; afterwards, in the order of layers."""
        notes: dict[nn.Module, _Note] = {}
        ordered: list[_Note] = []

        def note(layer: nn.Module, got: tuple[torch.Tensor, ...], given: torch.Tensor) -> None:
            if layer in notes or len(got) != 1:
                raise _UnknownUseError
            notes[layer] = _Note(got[0].detach(), given, given._version)

        hooks = [layer.register_forward_hook(note) for layer in self._layers]
        try:
            yield ordered
            if len(notes) < len(self._layers):
                raise _UnknownUseError
            ordered += [notes[layer] for layer in self._layers]
        finally:
            for hook in hooks:
                hook.remove()


class _Note(NamedTuple):
    """What a layer got and gave."""

    got: torch.Tensor
    given: torch.Tensor
    version: int
    """How often what it gave had been overwritten."""


class _UnknownUseError(Exception):
    """A layer is used in a way that its gradients cannot be computed for here."""


def _trained(layer: nn.Module) -> list[nn.Parameter]:
    """The layer's own parameters that are trained."""
    return [p for p in layer.parameters(recurse=False) if p.requires_grad]


def _is_known(layer: nn.Module) -> bool:
    whole = len(_trained(layer)) == len(list(layer.parameters(recurse=False)))
    plain = not isinstance(layer, nn.Conv1d | nn.Conv2d) or (
        layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    )
    return whole and plain and type(layer) in _GRADIENTS


def _with_bias(
    layer: nn.Module, weights: LayerGradients, bias: Float[torch.Tensor, "records outputs"]
) -> LayerGradients:
    """Gradients by weights, and by a bias if the layer has one."""
    if getattr(layer, "bias", None) is None:
        return weights
    squares = weights.squares + bias.square().sum(1)
    return LayerGradients(squares, lambda factors: [*weights.weigh(factors), factors @ bias])


def _linear(layer: nn.Linear, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    if got.dim() == 2:
        squares = got.square().sum(1) * by_given.square().sum(1)
        weights = LayerGradients(squares, lambda f: [(by_given * f[:, None]).t() @ got])
        return _with_bias(layer, weights, by_given)
    a, b = got.flatten(1, -2), by_given.flatten(1, -2)
    squares = torch.cat([
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
) -> Float[torch.Tensor, " records"]:
    """Squared norm of each record's ``b.T @ a``, the cheaper of two ways."""
    if 2 * a.shape[1] ** 2 < a.shape[2] * b.shape[2]:
        return ((a @ a.mT) * (b @ b.mT)).sum((1, 2))
    return (b.mT @ a).square().sum((1, 2))


def _convolution(
    layer: nn.Conv1d | nn.Conv2d, got: torch.Tensor, by_given: torch.Tensor
) -> LayerGradients:
    """A convolution multiplies patches of what it got, at each position of what it gives."""
    outputs, inputs = layer.weight.shape[0], layer.weight[0].numel()
    positions = math.prod(by_given.shape[2:])
    size = got.element_size()
    at_a_time = max(1, _ROOM // (size * (inputs * positions + inputs * outputs)))
    few = 2 * positions**2 < inputs * outputs
    keep = not few and len(got) * inputs * outputs * size <= _KEPT
    squares, kept = [], []
    for some, by_some in zip(*(torch.split(t, at_a_time) for t in (got, by_given)), strict=True):
        a, b = _patches(layer, some), by_some.flatten(2).mT
        if keep:
            kept.append(b.mT @ a)
            squares.append(kept[-1].square().sum((1, 2)))
        else:
            squares.append(_squares_of_products(a, b))

    def weigh(factors: Factors) -> list[torch.Tensor]:
        if keep:
            whole = torch.tensordot(factors, torch.cat(kept), 1)
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
    edges = [edge for one in reversed(layer.padding) for edge in (one, one)]
    x = pad(x.movedim(1, -1), (0, 0, *edges)).contiguous()
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    many = [(n - r - 1) // s + 1 for n, r, s in zip(x.shape[1:-1], reach, stride, strict=True)]
    steps = x.stride()[1:-1]
    seen = x.as_strided(
        (len(x), *many, *kernel, x.shape[-1]),
        (
            x.stride(0),
            *(a * b for a, b in zip(steps, stride, strict=True)),
            *(a * b for a, b in zip(steps, dilation, strict=True)),
            x.stride(-1),
        ),
    )
    return seen.reshape(len(x), math.prod(many), -1)


def _group_norm(layer: nn.GroupNorm, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    scaled = by_given * group_norm(got, layer.num_groups, eps=layer.eps)
    own, bias = (t.reshape(*t.shape[:2], -1).sum(2) for t in (scaled, by_given))
    return _with_bias(layer, _small(own), bias)


def _layer_norm(layer: nn.LayerNorm, got: torch.Tensor, by_given: torch.Tensor) -> LayerGradients:
    shape = layer.normalized_shape
    scaled = by_given * layer_norm(got, shape, eps=layer.eps)
    own, bias = (t.reshape(len(t), -1, math.prod(shape)).sum(1) for t in (scaled, by_given))
    found = _with_bias(layer, _small(own), bias)
    return found._replace(weigh=lambda factors: [t.view(shape) for t in found.weigh(factors)])


def _small(own: Float[torch.Tensor, "records weights"]) -> LayerGradients:
    """Gradients that are kept, as there are few numbers."""
    return LayerGradients(own.square().sum(1), lambda factors: [factors @ own])


_GRADIENTS: dict[type[nn.Module], Callable[..., LayerGradients]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
}
"""By kind of layer: a function of the layer, what it got, and the gradient by what it gave."""
