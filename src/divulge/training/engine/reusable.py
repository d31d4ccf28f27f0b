"""Build a network and its optimiser once, and train them again and again from given weights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from divulge.training.engine.dense import dense_layers, dense_training_step
from divulge.training.engine.loop import (
    plain_loss,
    step_optimiser,
    temporary_seed,
)
from divulge.training.engine.networks import pool_before_relu
from divulge.training.recipe import RaggedRows, Recipe, Rows
from divulge.training.tensors import PoolTensors, to_channels_last
from divulge.training.weights import state


class _FlatParameters(NamedTuple):
    """The trained parameters of one type as a single vector, of which they are views.

    An optimiser that works element by element then has one tensor to change, not dozens.
    """

    whole: nn.Parameter
    gradient: torch.Tensor


class ReusableTrainer:
    """A network and its optimiser, built once and trained again and again from given weights.

    For few and small batches building costs more than training.

    Nothing of one training is left for the next: weights and buffers are set anew, and the
    optimiser forgets. What a module keeps elsewhere, such as in a Python attribute, stays.
    """

    def __init__(self, recipe: Recipe, data: PoolTensors) -> None:
        self._recipe, self._data, self._loss = recipe, data, plain_loss(recipe)
        with temporary_seed(0, data.x.device):
            self._module = recipe.network().train()
        if data.channels_last:
            to_channels_last(self._module)
        self._fresh = {name: tensor.clone() for name, tensor in state(self._module).items()}
        self._dense = None if recipe.loss else dense_layers(self._module, data)
        trained = [p for p in self._module.parameters() if p.requires_grad and not self._dense]
        kinds = dict.fromkeys(p.dtype for p in trained)
        self._flats = [
            _flatten_parameters([p for p in trained if p.dtype == kind]) for kind in kinds
        ]
        self._optimiser = (
            recipe.make_optimiser([flat.whole for flat in self._flats]) if trained else None
        )
        self._epoch = 0

    def train(
        self, start: Mapping[str, torch.Tensor], rows: Rows, seed: int
    ) -> dict[str, np.ndarray]:
        """The state dictionary after training on these records, in the network's own memory.

        The next training overwrites it. What ``start`` lacks is fresh.
        """
        with torch.no_grad():
            for name, tensor in state(self._module).items():
                tensor.copy_(start.get(name, self._fresh[name]))
        with temporary_seed(seed, self._data.x.device), self._training_step() as step:
            for number, epoch in enumerate(self._recipe.plan(rows, seed)):
                self._epoch = number
                for rate, batch in epoch:
                    step(*self._data.batch(batch), rate)
        return {name: tensor.numpy() for name, tensor in self._module.state_dict().items()}

    @contextmanager
    def _training_step(self) -> Iterator[Callable[[torch.Tensor, torch.Tensor, float], None]]:
        if self._dense:
            with dense_training_step(self._recipe, self._module, self._dense) as step:
                yield step
        else:
            assert self._optimiser is not None
            self._optimiser.state.clear()
            with pool_before_relu(self._module):
                yield self._step

    def _step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        for flat in self._flats:
            flat.gradient.zero_()
        torch.autograd.backward(self._loss(self._module(x), y, self._epoch))
        assert self._optimiser is not None
        step_optimiser(self._optimiser, rate)


def _flatten_parameters(params: list[nn.Parameter]) -> _FlatParameters:
    """The parameters, made views of one vector; gradients are added up in another one."""
    size = sum(p.numel() for p in params)
    whole = nn.Parameter(torch.empty(size, dtype=params[0].dtype))
    gradient = torch.zeros_like(whole)
    start = 0
    for param in params:
        part = slice(start, start + param.numel())
        view = _view_like(whole.detach()[part], param)
        view.copy_(param.detach())
        param.data, param.grad = view, _view_like(gradient[part], param)
        start = part.stop
    whole.grad = gradient
    return _FlatParameters(whole, gradient)


def _view_like(part: torch.Tensor, param: nn.Parameter) -> torch.Tensor:
    """A piece of a vector in the shape of a parameter, its channels last where they are there."""
    if param.dim() == 4 and param.is_contiguous(memory_format=torch.channels_last):
        n, c, h, w = param.shape
        return part.view(n, h, w, c).permute(0, 3, 1, 2)
    return part.view(param.shape)


class ClientTask(NamedTuple):
    """The records and the seed of one training."""

    rows: RaggedRows
    seed: int


def train_tasks(
    replica: ReusableTrainer, start: Mapping[str, np.ndarray], tasks: Sequence[ClientTask]
) -> Iterator[dict[str, np.ndarray]]:
    """Train one network after another; each state is overwritten by the next."""
    tensors = {name: torch.tensor(array) for name, array in start.items()}
    return (replica.train(tensors, task.rows, task.seed) for task in tasks)
