"""Train one network by a recipe, with reproducible randomness."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.training.engine.dense import dense_layers, dense_training_step
from divulge.training.engine.networks import pool_before_relu
from divulge.training.engine.selection import BestEpoch
from divulge.training.losses import Adversary, BatchLoss, LastLayerAdversary, Loss
from divulge.training.recipe import Precision, Recipe, Rows
from divulge.training.tensors import PoolTensors, to_channels_last
from divulge.training.trainers import check_subsets
from divulge.training.weights import restore, state

Step = Callable[[torch.Tensor, float], None]
"""A function that learns the batch with these row numbers at this learning rate."""
StepFactory = Callable[[int], Step]
"""A function from the epoch, from 0, to its step."""


class Job(NamedTuple):
    """One model to train."""

    rows: Rows
    seed: int
    start: Mapping[str, torch.Tensor] | None = None
    """State dictionary that training starts from; the network's own first weights unless given."""


def make_jobs(
    subsets: Bool[np.ndarray, "models records"],
    seeds: Sequence[int],
    start: Mapping[str, torch.Tensor] | None = None,
) -> list[Job]:
    """One job a row of ``subsets``.

    Raises:
        DataError: a subset is empty.
    """
    check_subsets(subsets)
    return [
        Job(np.flatnonzero(subset), int(seed), start)
        for subset, seed in zip(subsets, seeds, strict=True)
    ]


def train_network(
    recipe: Recipe,
    data: PoolTensors,
    job: Job,
    note: Callable[[nn.Module], None] = lambda _: None,
    keep: Callable[[int, dict[str, torch.Tensor]], None] = lambda _, __: None,
    precision: Precision = "float32",
) -> nn.Module:
    """One model, in evaluation mode. The random numbers of the caller are left alone.

    Args:
        recipe: how it is trained.
        data: the pool.
        job: its rows of the pool, and its seed.
        note: is called with the model before the first epoch and after each.
        keep: is called after each epoch with its number, from 1, and the state that the model
            would have if training ended there.
        precision: with ``bfloat16`` PyTorch's autocast computes the loss; weights are float32.
    """
    fit, held_out = recipe.split_rows(job.rows, job.seed)
    with temporary_seed(job.seed, data.x.device), flush_subnormals():
        module = build_network_unseeded(recipe, job).to(data.x.device)
        if data.channels_last:
            to_channels_last(module)
        best = BestEpoch(recipe, data, fit, held_out) if recipe.selects else None
        note(module)
        with _training_steps(recipe, module, data, held_out, precision) as steps:
            for number, epoch in enumerate(recipe.plan(fit, job.seed)):
                module.train()
                step = steps(number)
                for rate, rows in epoch:
                    step(rows.to(data.x.device), rate)
                note(module)
                going = best is None or best.should_continue(module)
                keep(number + 1, best.state if best else state(module))
                if not going:
                    break
    return restore(module, best.state) if best else module.eval()


def train_stages(
    recipe: Recipe, data: PoolTensors, job: Job, epochs: Sequence[int]
) -> list[nn.Module]:
    """One model as it would be if training had ended after each of these epochs, in their order.

    Each is, bit for bit, what `train_network` makes with that epoch as ``stop_after``.

    Args:
        recipe: how it is trained; those of its epochs are run that are asked for.
        data: the pool.
        job: its rows of the pool, and its seed.
        epochs: from 1.
    """
    states: dict[int, dict[str, torch.Tensor]] = {}

    def keep(epoch: int, now: dict[str, torch.Tensor]) -> None:
        states.update(
            {
                later: {name: tensor.clone() for name, tensor in now.items()}
                for later in epochs
                # where patience ends training, it ends there for all later epochs too
                if later == epoch or (later > epoch and recipe.patience is not None)
            }
        )

    train_network(replace(recipe, stop_after=max(epochs)), data, job, keep=keep)
    modules = [build_network(recipe, job).to(data.x.device) for _ in epochs]
    if data.channels_last:
        modules = [to_channels_last(module) for module in modules]
    return [restore(module, states[epoch]) for module, epoch in zip(modules, epochs, strict=True)]


def _training_steps(
    recipe: Recipe, module: nn.Module, data: PoolTensors, held_out: Rows, precision: Precision
) -> AbstractContextManager[StepFactory]:
    simple = recipe.loss is None or isinstance(recipe.loss, LastLayerAdversary)
    # hand-written gradients multiply in the precision of the weights
    layers = dense_layers(module, data) if simple and precision == "float32" else None
    by = (
        partial(_dense_steps, layers=layers)
        if layers
        else partial(_autograd_steps, precision=precision)
    )
    return by(recipe, module, data, torch.from_numpy(held_out).to(data.x.device))


@contextmanager
def _dense_steps(
    recipe: Recipe,
    module: nn.Module,
    data: PoolTensors,
    held_out: torch.Tensor,
    layers: Sequence[nn.Module],
) -> Iterator[StepFactory]:
    loss = recipe.loss
    terms = loss.terms(module, data, held_out) if isinstance(loss, LastLayerAdversary) else None
    with dense_training_step(recipe, module, layers) as learn:

        def steps(epoch: int) -> Step:
            term = terms(epoch) if terms else None
            return lambda rows, rate: learn(*data.batch(rows), rate, term)

        yield steps


@contextmanager
def _autograd_steps(
    recipe: Recipe,
    module: nn.Module,
    data: PoolTensors,
    held_out: torch.Tensor,
    precision: Precision,
) -> Iterator[StepFactory]:
    cast: Callable[[], AbstractContextManager[Any]] = nullcontext
    if precision == "bfloat16":
        cast = partial(torch.autocast, data.x.device.type, torch.bfloat16)
    optimiser = recipe.make_optimiser([p for p in module.parameters() if p.requires_grad])
    losses = batch_losses(recipe, module, data, held_out)

    def steps(epoch: int) -> Step:
        loss = losses(epoch)

        def step(rows: torch.Tensor, rate: float) -> None:
            optimiser.zero_grad()
            with cast():
                value = loss(rows)
            torch.autograd.backward(value)
            step_optimiser(optimiser, rate)

        return step

    with pool_before_relu(module):
        yield steps


def batch_losses(
    recipe: Recipe, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
) -> Callable[[int], BatchLoss]:
    """A function from the epoch, from 0, to the loss of its batches."""
    if isinstance(recipe.loss, Adversary):
        return recipe.loss.against(module, data, held_out)
    plain = plain_loss(recipe)

    def loss(epoch: int, rows: torch.Tensor) -> torch.Tensor:
        x, y = data.batch(rows)
        return plain(module(x), y, epoch)

    return lambda epoch: partial(loss, epoch)


def plain_loss(recipe: Recipe) -> Loss:
    """The loss of a batch, for a recipe without an adversary."""
    # asked once: in every step it would cost more than the loss
    assert not isinstance(recipe.loss, Adversary)
    return recipe.loss or _cross_entropy


def _cross_entropy(logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
    del epoch
    return cross_entropy(logits, y)


def step_optimiser(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the weights by their gradients, at this learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def build_network(recipe: Recipe, job: Job) -> nn.Module:
    """The untrained model of one job, on the CPU."""
    with temporary_seed(job.seed, torch.device("cpu")):
        return build_network_unseeded(recipe, job)


def build_network_unseeded(recipe: Recipe, job: Job) -> nn.Module:
    """The untrained model of one job, drawn from PyTorch's random numbers as they are."""
    module = recipe.network()
    if job.start is not None:
        module.load_state_dict(job.start)
    return module


@contextmanager
def temporary_seed(seed: int, device: torch.device) -> Iterator[None]:
    """PyTorch's random numbers from this seed; afterwards they go on where they were."""
    with torch.random.fork_rng([] if device.type == "cpu" else [device]):
        if device.type == "cpu":  # without a look at what else there may be
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        yield


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """PyTorch on so many threads; afterwards on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def flush_subnormals() -> Iterator[None]:
    """Numbers too small for their exponent (below 1e-38 in float32) are 0; then as before.

    Processors take many times as long for them. Where a model has memorised its records,
    squares of gradients are that small, and Adam divides by their roots: no weight is moved by
    what is lost.
    """
    smallest = torch.tensor(torch.finfo(torch.float32).tiny)
    before = not (smallest / 2).item()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
