"""One network that is trained again and again, each time from a given start."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from divulge.training.chain import by_hand, dense_layers
from divulge.training.loop import apply, plain_loss, seeded
from divulge.training.network import state
from divulge.training.pool import Tensors, with_channels_last
from divulge.training.recipe import Recipe, Rows
from divulge.training.rewrite import pooled_first


class _Flat(NamedTuple):
    """The trained parameters of one type as a single vector, of which they are views.

    An optimiser that works element by element then has one tensor to change, not dozens.
    """

    whole: nn.Parameter
    gradient: torch.Tensor


class Replica:
    """Built once, because for few and small batches building costs more than training.

    Nothing of one training is left for the next: weights and buffers are set anew, and the
    optimiser forgets. What a module keeps elsewhere, such as in a Python attribute, stays.
    """

    def __init__(self, recipe: Recipe, data: Tensors) -> None:
        self._recipe, self._data, self._loss = recipe, data, plain_loss(recipe)
        with seeded(0, data.x.device):
            self._module = recipe.network().train()
        if data.channels_last:
            with_channels_last(self._module)
        self._fresh = {name: tensor.clone() for name, tensor in state(self._module).items()}
        self._dense = None if recipe.loss else dense_layers(self._module, data)
        trained = [p for p in self._module.parameters() if p.requires_grad and not self._dense]
        kinds = dict.fromkeys(p.dtype for p in trained)
        self._flats = [_flattened([p for p in trained if p.dtype == kind]) for kind in kinds]
        self._optimiser = recipe.over([flat.whole for flat in self._flats]) if trained else None
        self._epoch = 0

    def trained(
        self, start: Mapping[str, torch.Tensor], rows: Rows, seed: int
    ) -> dict[str, np.ndarray]:
        """The state dictionary after training on these records; what ``start`` lacks is fresh."""
        with torch.no_grad():
            for name, tensor in state(self._module).items():
                tensor.copy_(start.get(name, self._fresh[name]))
        with seeded(seed, self._data.x.device), self._stepping() as step:
            for number, epoch in enumerate(self._recipe.plan(rows, seed)):
                self._epoch = number
                for rate, batch in epoch:
                    step(*self._data.batch(batch), rate)
        named = self._module.state_dict().items()
        return {name: np.array(tensor.detach().numpy(), order="C") for name, tensor in named}

    @contextmanager
    def _stepping(self) -> Iterator[Callable[[torch.Tensor, torch.Tensor, float], None]]:
        if self._dense:
            with by_hand(self._recipe, self._module, self._dense) as step:
                yield step
        else:
            assert self._optimiser is not None
            self._optimiser.state.clear()
            with pooled_first(self._module):
                yield self._step

    def _step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        for flat in self._flats:
            flat.gradient.zero_()
        torch.autograd.backward(self._loss(self._module(x), y, self._epoch))
        assert self._optimiser is not None
        apply(self._optimiser, rate)


def _flattened(params: list[nn.Parameter]) -> _Flat:
    """The parameters, made views of one vector; gradients are added up in another one."""
    size = sum(p.numel() for p in params)
    whole = nn.Parameter(torch.empty(size, dtype=params[0].dtype))
    gradient = torch.zeros_like(whole)
    start = 0
    for param in params:
        part = slice(start, start + param.numel())
        view = _like(whole.detach()[part], param)
        view.copy_(param.detach())
        param.data, param.grad = view, _like(gradient[part], param)
        start = part.stop
    whole.grad = gradient
    return _Flat(whole, gradient)


def _like(part: torch.Tensor, param: nn.Parameter) -> torch.Tensor:
    """A piece of a vector in the shape of a parameter, its channels last where they are there."""
    if param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last):
        n, c, h, w = param.shape
        return part.view(n, h, w, c).permute(0, 3, 1, 2)
    return part.view(param.shape)
