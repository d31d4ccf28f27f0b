"""Inspect networks, copy their states, and stack several of them into one computation."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from divulge.errors import TargetError
from divulge.training.losses import Loss


def stacking_obstacle(module: nn.Module) -> str | None:
    """Why copies of this module cannot be trained as one stack; None when they can.

    The reason names the first layer in the way. Randomness that a forward pass draws by itself,
    as ``torch.nn.functional.dropout`` does, is in no layer: PyTorch stops at it when it gets there.

    Examples:
        >>> stacking_obstacle(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
        "layer '1' (Dropout) draws random numbers, which a stack draws in another order"
    """
    for name, layer in module.named_modules():
        why = _layer_obstacle(layer)
        if why:
            return f"layer {name!r} ({type(layer).__name__}) {why}"
    return None


def _layer_obstacle(layer: nn.Module) -> str | None:
    drops = layer.p if isinstance(layer, _DropoutNd) else getattr(layer, "dropout", 0.0)
    if isinstance(drops, float) and drops > 0:
        return "draws random numbers, which a stack draws in another order"
    if isinstance(layer, nn.RNNBase):
        return "is one fused computation, which PyTorch cannot stack"
    if isinstance(layer, _BatchNorm) and layer.track_running_stats and layer.momentum is None:
        return "averages its statistics over a count of steps, which PyTorch cannot stack"
    return None


def as_state(tensors: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """A state dictionary of these arrays, as copies."""
    return {name: torch.tensor(array) for name, array in tensors.items()}


def load_network(network: Callable[[], nn.Module], tensors: Mapping[str, np.ndarray]) -> nn.Module:
    """A network with these weights, in evaluation mode; what is not among them is fresh.

    The random numbers of the caller are left alone.

    Raises:
        TargetError: the network has no place for one of the weights.
    """
    with torch.random.fork_rng([]):
        module = network()
    without_place = module.load_state_dict(as_state(tensors), strict=False).unexpected_keys
    if without_place:
        raise TargetError(
            f"expected a network with the tensor {without_place[0]!r}, it has "
            f"{', '.join(list(module.state_dict())[:20]) or 'no tensors'}: name the function that "
            "made the clients' network"
        )
    return module.eval()


class Stack:
    """The states of several modules of one kind, each tensor with one more axis in front.

    Attributes:
        trainable: the stacked parameters that an optimiser changes.
    """

    def __init__(self, modules: list[nn.Module], loss: Loss) -> None:
        self._params, self._buffers = stack_module_state(modules)
        self.trainable = [p for p in self._params.values() if p.requires_grad]
        self._size = len(modules)
        self._loss = partial(_stacked_loss, deepcopy(modules[0]).train(), loss)

    def of(self, k: int) -> dict[str, torch.Tensor]:
        """The state of one of them."""
        return {name: tensor[k].detach() for name, tensor in (self._params | self._buffers).items()}

    def keep(self, positions: list[int], optimiser: torch.optim.Optimizer) -> None:
        """Go on with some of the models alone, each with what the optimiser knows of it."""
        rows = torch.tensor(positions, device=next(iter(self._params.values())).device)
        for name, p in self._params.items():
            rest = p.detach()[rows].requires_grad_(p.requires_grad)
            if p in optimiser.state:
                optimiser.state[rest] = {
                    key: v[rows] if isinstance(v, torch.Tensor) and v.ndim else v
                    for key, v in optimiser.state.pop(p).items()
                }
            self._params[name] = rest
        self._buffers = {name: b[rows] for name, b in self._buffers.items()}
        self.trainable = [p for p in self._params.values() if p.requires_grad]
        optimiser.param_groups[0]["params"] = self.trainable
        self._size = len(positions)

    def differentiate(
        self, members: list[int], x: torch.Tensor, y: torch.Tensor, epoch: int
    ) -> None:
        """Set the gradients of some models, and update their buffers, each by its own batch.

        Args:
            members: positions of the models in the stack.
            x: features of their batches, which are equally long, one after another.
            y: labels of these batches, in the same order.
            epoch: the number of the epoch, from 0.
        """
        # all of them, as nearly always, are differentiated where they are
        everyone = len(members) == self._size
        chosen = slice(None) if everyone else torch.tensor(members, device=x.device)
        params = {name: p.detach()[chosen] for name, p in self._params.items()}
        buffers = {name: b[chosen] for name, b in self._buffers.items()}
        batches = (t.reshape(len(members), -1, *t.shape[1:]) for t in (x, y))
        gradients = vmap(grad(partial(self._loss, epoch)))(params, buffers, *batches)
        for name, p in self._params.items():
            if p.requires_grad:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                p.grad[chosen] = gradients[name]
        for name, b in self._buffers.items():
            b[chosen] = buffers[name]  # a forward pass changes what it was given, in place


def _stacked_loss(
    module: nn.Module,
    loss: Loss,
    epoch: int,
    params: dict[str, torch.Tensor],
    buffers: dict[str, torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
) -> torch.Tensor:
    return loss(functional_call(module, (params, buffers), (x,)), y, epoch)


_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)


@contextmanager
def pool_before_relu(module: nn.Module) -> Iterator[None]:
    """Within it, max-pooling comes before the ReLU that it follows, which then has less to do.

    ``max(relu(x))`` is ``relu(max(x))``, and its gradient is the same: where the largest value of a
    window is above zero, both give it to the first place that has this value; elsewhere the
    ReLU passes none on.
    """
    pairs = [
        (layers, k)
        for layers in module.modules()
        if type(layers) is nn.Sequential
        for k in range(len(layers) - 1)
        if type(layers[k]) is nn.ReLU and _is_max_pool(layers[k + 1]) and not has_hooks(layers[k])
    ]
    _swap_layers(pairs)
    try:
        yield
    finally:
        _swap_layers(pairs)


def has_hooks(layer: nn.Module) -> bool:
    """Whether somebody else looks at what the layer gets or gives."""
    return any(hooks for name, hooks in vars(layer).items() if name.endswith("_hooks"))


def _is_max_pool(layer: nn.Module) -> bool:
    return type(layer) in _POOLS and not layer.return_indices and not has_hooks(layer)


def _swap_layers(pairs: list[tuple[nn.Sequential, int]]) -> None:
    for layers, k in pairs:
        layers[k], layers[k + 1] = layers[k + 1], layers[k]
