"""Trains virtual clients: on this machine, on a cluster, or by the DP-SGD of real clients."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from divulge.core import Records, Tensors
from divulge.training.cluster import RayCluster
from divulge.training.recipe import RaggedRows, Recipe

if TYPE_CHECKING:
    from divulge.training.engine.remote_clients import TrainClients

T = TypeVar("T")


def make_client_workers(
    recipe: Recipe,
    pool: Records,
    private: tuple[float, float] | None = None,
    cluster: RayCluster | None = None,
) -> Any:
    """What trains clients of this recipe on records of this pool.

    Args:
        recipe: by which clients train.
        pool: records that they hold.
        private: noise multiplier and clipping norm of the DP-SGD by which they train.
        cluster: where they are trained; on this machine unless given.
    """
    from divulge.training.engine.client_training import ClientWorkers
    from divulge.training.engine.remote_clients import RemoteClientWorkers

    if cluster is not None:
        return RemoteClientWorkers(cluster, partial(_train_one_by_one, recipe, pool, private))
    if private is None:
        return ClientWorkers(recipe, pool)
    return _PrivateClientWorkers(recipe, pool, private)


def _train_one_by_one(
    recipe: Recipe, pool: Records, private: tuple[float, float] | None
) -> "TrainClients":
    """What trains virtual clients in one process."""
    from divulge.training.engine.client_training import ClientWorkers

    if private is None:
        return ClientWorkers(recipe, pool, 1).one_by_one
    return _PrivateClientWorkers(recipe, pool, private).one_by_one


class _PrivateClientWorkers:
    """Trains as `divulge.training.ClientWorkers` does, but by DP-SGD."""

    def __init__(self, recipe: Recipe, pool: Records, private: tuple[float, float]) -> None:
        from divulge.defences.training.dp_sgd.trainer import DPSGD

        noise, norm = private
        # the promise is not asked for, so δ is of no account
        self._trainer = DPSGD(recipe, 1e-5, noise_multiplier=noise, max_grad_norm=norm, jobs=1)
        self._pool = pool

    def each(
        self,
        start: Tensors,
        rows: Sequence[RaggedRows],
        seeds: Sequence[int],
        use: Callable[[int, dict[str, np.ndarray]], T],
    ) -> list[T]:
        """What a function makes of each network's state after its training."""
        return [use(k, state) for k, state in enumerate(self.one_by_one(start, rows, seeds))]

    def one_by_one(
        self, start: Tensors, rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> Iterator[dict[str, np.ndarray]]:
        """The state dictionary of each network after its training."""
        from divulge.training.weights import as_arrays, as_tensors

        first = as_tensors(start)
        for mine, seed in zip(rows, seeds, strict=True):
            own, every = self._pool.take(mine), np.ones((1, len(mine)), np.bool_)
            (network,) = self._trainer.networks(own, every, [seed], first)
            yield as_arrays(network.state_dict())
