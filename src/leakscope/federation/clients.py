"""What the clients of a round compute from the weights that they were sent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from leakscope.core import Records, Tensors
from leakscope.errors import SpecError
from leakscope.federation.partition import Held
from leakscope.randomness import stream
from leakscope.targets.asking import guarded
from leakscope.training.recipe import Recipe

if TYPE_CHECKING:
    import torch

_REMEDY = "make one network by hand and put a few records to it to see why"


@runtime_checkable
class LocalTrainer(Protocol):
    """How the clients of a round train, all of them from the same weights: a ``Fleet`` does."""

    def networks(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
        start: "Mapping[str, torch.Tensor] | None" = None,
    ) -> Iterator[Any]:
        """One trained module a row of ``subsets``, in order.

        Args:
            pool: all records.
            subsets: which of them each client holds.
            seeds: one a client, for its own randomness.
            start: the state dictionary from which each of them sets out.
        """
        ...


def initial(recipe: Recipe, seed: int) -> dict[str, np.ndarray]:
    """The state of an untrained network of this seed."""
    import torch

    with torch.random.fork_rng([]), guarded("the recipe to make a network", _REMEDY):
        torch.manual_seed(int(stream(seed, "global model").integers(2**63)))
        return state(recipe.network())


def state(module: "torch.nn.Module") -> dict[str, np.ndarray]:
    """What a federation sends of a module: its state dictionary."""
    return {name: t.detach().cpu().numpy() for name, t in module.state_dict().items()}


def module_of(recipe: Recipe, tensors: Tensors) -> "torch.nn.Module":
    """The network with these weights, in evaluation mode; what is not among them is fresh."""
    import torch

    with torch.random.fork_rng([]):
        module = recipe.network()
    module.load_state_dict(as_state(tensors), strict=False)
    return module.eval()


def as_state(tensors: Tensors) -> "dict[str, torch.Tensor]":
    """A state dictionary of these arrays, as copies."""
    import torch

    return {name: torch.tensor(array) for name, array in tensors.items()}


def trained(
    trainer: LocalTrainer,
    pool: Records,
    rows: Sequence[Held],
    seeds: Sequence[int],
    sent: Tensors,
) -> Iterator[dict[str, np.ndarray]]:
    """The weights of each client after its local training (FedAvg)."""
    subsets = np.zeros((len(rows), len(pool)), np.bool_)
    for subset, mine in zip(subsets, rows, strict=True):
        subset[mine] = True
    for module in trainer.networks(pool, subsets, seeds, as_state(sent)):
        after = state(module)
        yield {name: after[name] for name in sent}


def gradients(
    recipe: Recipe, pool: Records, rows: Sequence[Held], seeds: Sequence[int], sent: Tensors
) -> Iterator[dict[str, np.ndarray]]:
    """The gradient of each client's mean loss over all its records (FedSGD).

    Raises:
        SpecError: the network has buffers, which no gradient changes.
    """
    import torch
    from torch.nn.functional import cross_entropy

    module = module_of(recipe, sent).train()
    if buffers := [name for name, _ in module.named_buffers()]:
        raise SpecError(
            f'expected a network without buffers for rule = "fedsgd", got {buffers[0]!r}: use '
            '"fedavg", or a layer such as GroupNorm in the place of BatchNorm'
        )
    dtype = next(module.parameters()).dtype
    for mine, seed in zip(rows, seeds, strict=True):
        module.zero_grad()
        with torch.random.fork_rng([]), guarded("a client to compute its gradient", _REMEDY):
            torch.manual_seed(seed)
            for part in np.split(mine, range(recipe.batch_size, len(mine), recipe.batch_size)):
                x, y = torch.tensor(pool.x[part]), torch.tensor(pool.y[part])
                answers = module(x.to(dtype) if x.is_floating_point() else x)
                torch.autograd.backward(cross_entropy(answers, y, reduction="sum") / len(mine))
        weights = dict(module.named_parameters(remove_duplicate=False))
        yield {
            name: np.zeros_like(array) if (grad := weights[name].grad) is None else grad.numpy()
            for name, array in sent.items()
        }


class OneByOne:
    """One client after another, in this process."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def networks(self, pool, subsets, seeds, start=None):  # type: ignore[no-untyped-def]
        import torch
        from torch.nn.functional import cross_entropy

        from leakscope.training.fleet import _Data, _seeded, _step

        recipe = self._recipe
        with torch.random.fork_rng([]):
            data = _Data.prepare(pool, recipe.network()).tensors("cpu")
        for subset, seed in zip(subsets, seeds, strict=True):
            rows = np.flatnonzero(subset)
            with _seeded(seed, data.x.device):
                module = recipe.network()
                if start is not None:
                    module.load_state_dict(start, strict=False)
                if data.channels_last:
                    module.to(memory_format=torch.channels_last)
                module.train()
                optimiser = recipe.over([p for p in module.parameters() if p.requires_grad])
                for rate, batch in recipe.steps(rows, seed):
                    x, y = data.batch(batch)
                    optimiser.zero_grad()
                    torch.autograd.backward(cross_entropy(module(x), y))
                    _step(optimiser, rate)
            yield module.eval()
