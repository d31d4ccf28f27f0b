"""Compute what the clients of a round send: their trained weights, or their gradients."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import Guarantee, LocalTraining, PrivateTrainer, Records, Tensors
from divulge.errors import SpecError
from divulge.targets.batching import translate_model_errors
from divulge.training.recipe import RaggedRows, Recipe

if TYPE_CHECKING:
    import torch

_REMEDY = "build the network yourself, and run it on a few records to see why"


@runtime_checkable
class LocalTrainer(Protocol):
    """Trains the clients of a round, all from the same weights, as a ``Fleet`` does."""

    def networks(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        start: "Mapping[str, torch.Tensor] | None" = None,
    ) -> Iterator[Any]:
        """Train one module for each row of ``subsets``, and yield them in order.

        Args:
            pool: records of all clients.
            subsets: which records of the pool each client holds, one row a client.
            seeds: one seed a client, for its own randomness.
            start: state dictionary that every client starts from.
        """
        ...


def initial_state(recipe: Recipe, seed: int) -> dict[str, np.ndarray]:
    """State dictionary of the untrained network that a seed gives."""
    import torch

    with torch.random.fork_rng([]), translate_model_errors("the recipe to make a network", _REMEDY):
        torch.manual_seed(int(stream(seed, "global model").integers(2**63)))
        return state_arrays(recipe.network())


def state_arrays(module: "torch.nn.Module") -> dict[str, np.ndarray]:
    """State dictionary of a module as arrays, which is what a federation sends."""
    return {name: t.detach().cpu().numpy() for name, t in module.state_dict().items()}


ClientTraining = Callable[
    [Tensors, Sequence[RaggedRows], Sequence[int]], Iterable[dict[str, np.ndarray]]
]
"""Function of global weights, each client's records and seeds to each client's new tensors."""


def train_clients(
    trainer: LocalTrainer,
    pool: Records,
    whole: Tensors,
    sent: Tensors,
    rows: Sequence[RaggedRows],
    seeds: Sequence[int],
) -> Iterator[dict[str, np.ndarray]]:
    """Train each client's network with the user's trainer, and yield their state dictionaries.

    Args:
        trainer: trainer of the clients' networks.
        pool: records of all clients.
        whole: state dictionary that supplies the tensors which ``sent`` lacks.
        sent: global weights by name of the tensor.
        rows: positions of each client's records in the pool.
        seeds: one seed a client.
    """
    subsets = np.zeros((len(rows), len(pool)), np.bool_)
    for subset, mine in zip(subsets, rows, strict=True):
        subset[mine] = True
    from divulge.training.engine.networks import as_state

    start = as_state(dict(whole) | dict(sent))
    return (state_arrays(module) for module in trainer.networks(pool, subsets, seeds, start))


def as_sent(sent: Tensors, trained: Tensors, *, change: bool) -> dict[str, np.ndarray]:
    """What a client sends, before any defence: its tensors, or their ``change``."""
    if change:
        with np.errstate(over="ignore", invalid="ignore"):  # the defence deals with it
            return {name: trained[name] - array for name, array in sent.items()}
    return {name: trained[name] for name in sent}


def describe_training(recipe: Recipe, *, gradients: bool) -> LocalTraining:
    """What the server knows of local training; of a gradient it is one step of SGD."""
    if gradients:
        return LocalTraining("sgd", recipe.lr, 0.0, 0.0, 1)
    return LocalTraining(
        recipe.optimiser,
        recipe.lr,
        recipe.momentum,
        recipe.weight_decay,
        recipe.epochs,
        recipe.batch_size,
    )


def promised_guarantee(trainer: object, records: int, rounds: int) -> Guarantee | None:
    """Privacy guarantee of a trainer for a client with so many records; None if it has none."""
    return trainer.guarantee(records, rounds) if isinstance(trainer, PrivateTrainer) else None


def compute_gradients(
    recipe: Recipe, pool: Records, sent: Tensors, rows: Sequence[RaggedRows], seeds: Sequence[int]
) -> Iterator[dict[str, np.ndarray]]:
    """The gradient of each client's mean loss over all its records (FedSGD).

    Raises:
        SpecError: the network has buffers, which no gradient changes.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from divulge.training.engine.loop import temporary_seed, torch_threads
    from divulge.training.engine.networks import load_network

    module = load_network(recipe.network, sent).train()
    if buffers := [name for name, _ in module.named_buffers()]:
        raise SpecError(
            f'expected a network without buffers for rule = "fedsgd", got {buffers[0]!r}: use '
            '"fedavg", or a layer such as GroupNorm instead of BatchNorm'
        )
    dtype = next(module.parameters()).dtype
    for mine, seed in zip(rows, seeds, strict=True):
        module.zero_grad()
        with (
            temporary_seed(seed, torch.device("cpu")),
            torch_threads(1),
            translate_model_errors("a gradient", _REMEDY),
        ):
            for part in np.split(mine, range(recipe.batch_size, len(mine), recipe.batch_size)):
                x, y = torch.tensor(pool.x[part]), torch.tensor(pool.y[part])
                answers = module(x.to(dtype) if x.is_floating_point() else x)
                torch.autograd.backward(cross_entropy(answers, y, reduction="sum") / len(mine))
        weights = dict(module.named_parameters(remove_duplicate=False))
        yield {
            name: np.zeros_like(array) if (grad := weights[name].grad) is None else grad.numpy()
            for name, array in sent.items()
        }


def make_learner(
    recipe: Recipe, pool: Records, trainer: LocalTrainer | None, seed: int, *, gradients: bool
) -> Callable[[], ClientTraining]:
    """What makes, in one process, the function by which clients compute what they send.

    Args:
        recipe: local training of a client.
        pool: records of all clients.
        trainer: trainer of the clients, in place of plain training by the recipe.
        seed: seed of the federation.
        gradients: whether clients send gradients, and train nothing.
    """
    if gradients:
        return partial(partial, compute_gradients, recipe, pool)
    if trainer is not None:
        return partial(partial, train_clients, trainer, pool, initial_state(recipe, seed))
    return partial(_train_one_by_one, recipe, pool)


def _train_one_by_one(recipe: Recipe, pool: Records) -> ClientTraining:
    from divulge.training.engine.client_training import ClientWorkers

    return ClientWorkers(recipe, pool, 1).one_by_one
