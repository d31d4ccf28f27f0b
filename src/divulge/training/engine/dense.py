"""Train dense networks by hand-written gradients, without a graph or new memory in a step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import nn

from divulge.training.engine.networks import has_hooks
from divulge.training.losses import TermFunction
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors

aten = torch.ops.aten


class DenseStep(Protocol):
    """A training step: it changes the weights by one batch."""

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, rate: float, term: TermFunction | None = None
    ) -> None:
        """Learn one batch.

        Args:
            x: features of the batch, shape (records, ...).
            y: labels of the batch, shape (records,).
            rate: the learning rate.
            term: a term of the loss beside the cross-entropy, for the last layer alone.
        """
        ...


class _Activation(NamedTuple):
    """An element-wise layer, which overwrites what it is given in both directions."""

    forward: Callable[[torch.Tensor], object]
    backward: Callable[[torch.Tensor, torch.Tensor], object]
    """A function of the gradient by the layer's output and of that output."""


_ACTIVATIONS = {
    nn.ReLU: _Activation(
        torch.relu_, lambda g, out: aten.threshold_backward.grad_input(g, out, 0, grad_input=g)
    ),
    nn.Tanh: _Activation(
        torch.tanh_, lambda g, out: aten.tanh_backward.grad_input(g, out, grad_input=g)
    ),
    nn.Sigmoid: _Activation(
        torch.sigmoid_, lambda g, out: aten.sigmoid_backward.grad_input(g, out, grad_input=g)
    ),
}


def dense_layers(module: nn.Module, data: PoolTensors) -> list[nn.Module] | None:
    """The layers of a network of linear layers and `_ACTIVATIONS` alone; None for any other.

    Subclasses, hooks, frozen or shared weights, and several precisions are all "other".
    """
    layers = list(leaf_layers(module))
    if layers and type(layers[0]) is nn.Flatten and flattens_all_features(layers[0]):
        layers = layers[1:]
    elif data.x.ndim != 2:
        return None
    params = [p for layer in layers for p in layer.parameters()]
    simple = (
        bool(layers)
        and type(layers[0]) is type(layers[-1]) is nn.Linear
        and all(type(layer) is nn.Linear or type(layer) in _ACTIVATIONS for layer in layers)
        and not any(has_hooks(layer) for layer in module.modules())
        and all(p.requires_grad and p.dtype == data.x.dtype for p in params)
        and len({id(p) for p in params}) == len(params)
    )
    return layers if simple else None


def leaf_layers(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of a chain, in order; a module that is no `nn.Sequential` is one layer."""
    if type(module) is nn.Sequential:
        for child in module:
            yield from leaf_layers(child)
    else:
        yield module


def flattens_all_features(layer: nn.Flatten) -> bool:
    """Whether it leaves one axis of features, whatever the shape of a record is."""
    return (layer.start_dim, layer.end_dim) == (1, -1)


@contextmanager
def dense_training_step(
    recipe: Recipe, module: nn.Module, layers: Sequence[nn.Module]
) -> Iterator[DenseStep]:
    """A training step of such a network, for as long as it is entered.

    Meanwhile all weights lie in one piece of memory, where one operation changes them.
    """
    params = list(module.parameters())
    flat = torch.cat([p.detach().flatten() for p in params])
    for p, piece in zip(params, _views_like(flat, params), strict=True):
        p.data = piece
    try:
        yield _ManualBackpropagation(recipe, layers, flat, params).step
    finally:
        for p in params:
            p.data = p.data.clone()


def _views_like(flat: torch.Tensor, params: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parts = torch.split(flat, [p.numel() for p in params])
    return [part.view_as(p) for part, p in zip(parts, params, strict=True)]


class _ManualBackpropagation:
    """A dense network's forward and backward pass, as one step of its optimiser.

    What a layer's gradient is added to depends on the optimiser.

    SGD with momentum adds it to the momentum and SGD without to the weights, as the matrix product
    that makes the gradient can do by itself: C = beta C + alpha A B. Others get it as it is.
    """

    def __init__(
        self,
        recipe: Recipe,
        layers: Sequence[nn.Module],
        flat: torch.Tensor,
        params: Sequence[torch.Tensor],
    ) -> None:
        self._recipe, self._layers, self._flat = recipe, layers, flat
        self._gathered = flat
        self._optimiser = recipe.make_optimiser([flat]) if recipe.optimiser != "sgd" else None
        if recipe.optimiser != "sgd" or recipe.momentum:
            self._gathered = torch.zeros_like(flat)
        if recipe.optimiser != "sgd":
            flat.grad = self._gathered
        pieces = _views_like(self._gathered, params)
        self._goal = {id(p): piece for p, piece in zip(params, pieces, strict=True)}
        self._room: dict[tuple[str, int, int], torch.Tensor] = {}

    @torch.no_grad()
    def step(
        self, x: torch.Tensor, y: torch.Tensor, rate: float, term: TermFunction | None = None
    ) -> None:
        """Learn one batch; see `DenseStep`."""
        x = x.flatten(1)
        inputs = self._forward(x)
        gradient = self._logit_gradient(inputs[-1], y)
        own = gradient
        if term and (added := term(inputs[-1], y)):
            own = torch.add(gradient, added.gradient, alpha=len(x))  # ours is of a sum
        beta, alpha = self._accumulation_factors(rate)
        for k in reversed(range(len(self._layers))):
            layer = self._layers[k]
            if isinstance(layer, nn.Linear):
                below = None
                if k:  # before the weights change, and never for the data
                    below = self._buffer("gradient", k, x, layer.in_features)
                    torch.mm(gradient, layer.weight, out=below)
                self._accumulate_gradient(layer, own, inputs[k], beta, alpha / len(x))
                gradient = gradient if below is None else below
            else:
                _ACTIVATIONS[type(layer)].backward(gradient, inputs[k + 1])
            own = gradient
        self._update_weights(rate)

    def _forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The input of each layer, and the logits."""
        inputs = [x]
        for k, layer in enumerate(self._layers):
            if isinstance(layer, nn.Linear):
                out = self._buffer("output", k, x, layer.out_features)
                if layer.bias is not None:
                    torch.addmm(layer.bias, inputs[-1], layer.weight.t(), out=out)
                else:  # PyTorch's types do not know of bias=False
                    torch.mm(inputs[-1], layer.weight.t(), out=out)  # type: ignore[unreachable]
                inputs.append(out)
            else:
                _ACTIVATIONS[type(layer)].forward(inputs[-1])
                inputs.append(inputs[-1])
        return inputs

    def _logit_gradient(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The gradient of the summed cross-entropy: softmax less one at the label."""
        gradient = self._buffer("softmax", 0, logits, logits.shape[1])
        torch.softmax(logits, 1, out=gradient)
        return gradient.scatter_add_(1, y[:, None], self._constant_buffer(-1.0, logits)[:, None])

    def _accumulation_factors(self, rate: float) -> tuple[float, float]:
        if self._optimiser:
            return 0.0, 1.0
        if self._recipe.momentum:
            return self._recipe.momentum, 1.0
        # w - rate (g + decay w), so that the product that makes g also steps and decays
        return 1.0 - rate * self._recipe.weight_decay, -rate

    def _accumulate_gradient(
        self, layer: nn.Linear, gradient: torch.Tensor, x: torch.Tensor, beta: float, alpha: float
    ) -> None:
        goal = self._goal[id(layer.weight)]
        torch.addmm(goal, gradient.t(), x, beta=beta, alpha=alpha, out=goal)
        if layer.bias is not None:
            goal, ones = self._goal[id(layer.bias)], self._constant_buffer(1.0, x)
            torch.addmv(goal, gradient.t(), ones, beta=beta, alpha=alpha, out=goal)

    def _update_weights(self, rate: float) -> None:
        if self._optimiser:
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            self._optimiser.step()
        elif self._recipe.momentum:
            if self._recipe.weight_decay:
                # PyTorch's order: the decay enters the momentum, not the step alone
                self._gathered.add_(self._flat, alpha=self._recipe.weight_decay)
            self._flat.add_(self._gathered, alpha=-rate)

    def _buffer(self, what: str, k: int, like: torch.Tensor, width: int) -> torch.Tensor:
        """The memory of one intermediate result, the same in every step."""
        key = (what, k, len(like))
        if key not in self._room:
            self._room[key] = like.new_empty(len(like), width)
        return self._room[key]

    def _constant_buffer(self, value: float, like: torch.Tensor) -> torch.Tensor:
        key = (f"all {value}", 0, len(like))
        if key not in self._room:
            self._room[key] = like.new_full((len(like),), value)
        return self._room[key]
