"""Train the clients of a round on a Ray cluster, as one process would train them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from divulge.training import cluster
from divulge.training.cluster import RayCluster
from divulge.training.engine.client_training import copy_state, deal
from divulge.training.recipe import RaggedRows

State = dict[str, np.ndarray]
T = TypeVar("T")

TrainClients = Callable[
    [Mapping[str, np.ndarray], Sequence[RaggedRows], Sequence[int]], Iterable[State]
]
"""A function of the weights that all clients start from, the records of each and a seed each."""


class _SomeClients(NamedTuple):
    """Clients of a round that one worker trains."""

    positions: list[int]
    rows: list[RaggedRows]
    seeds: list[int]


class RemoteClientWorkers:
    """Trains clients on a cluster; the states are those of one process, bit for bit.

    Recipe and records go to each machine once, the weights of a round once a round.

    Args:
        cluster: where they are trained.
        make: makes the function that trains them, on each worker; it is sent with all it holds.
    """

    def __init__(self, cluster: RayCluster, make: Callable[[], TrainClients]) -> None:
        self._cluster, self._make, self._key = cluster, make, uuid4().hex
        self._sent: tuple[str, Any] | None = None

    def states(
        self, start: Mapping[str, np.ndarray], rows: Sequence[RaggedRows], seeds: Sequence[int]
    ) -> list[State]:
        """As `divulge.training.ClientWorkers.states`."""
        states = self.each(start, rows, seeds, copy_state)
        # copies: Ray's own arrays hold the memory that all its work shares
        return [{name: np.array(array) for name, array in state.items()} for state in states]

    def each(
        self,
        start: Mapping[str, np.ndarray],
        rows: Sequence[RaggedRows],
        seeds: Sequence[int],
        use: Callable[[int, State], T],
    ) -> list[T]:
        """As `divulge.training.ClientWorkers.each`.

        Raises:
            TargetError: a client could not be trained, or workers died again and again.
        """
        with self._cluster.session() as ray:
            shared = [self._share_maker(ray), *(cluster.share(ray, v) for v in (dict(start), use))]
            chunks = deal(rows, cluster.count_processors(ray))
            items = [
                _SomeClients(some, [rows[k] for k in some], [seeds[k] for k in some])
                for some in chunks
            ]
            do = partial(_train_on_worker, self._key)
            results: dict[int, T] = {}
            for k, made in cluster.collect(ray, cluster.submit(ray, do, shared, items)):
                results |= zip(chunks[k], made, strict=True)
        return [results[k] for k in range(len(rows))]

    def _share_maker(self, ray: Any) -> Any:
        """What makes the training function, in the memory of the cluster of this session."""
        session = ray.get_runtime_context().get_job_id()
        if self._sent is None or self._sent[0] != session:
            self._sent = session, cluster.share(ray, self._make)
        return self._sent[1]


_made: dict[str, TrainClients] = {}
"""On a worker: the function that was used last, by its key."""


def _train_on_worker(
    key: str,
    make: Callable[[], TrainClients],
    start: State,
    use: Callable[[int, State], T],
    clients: _SomeClients,
) -> list[T]:
    if key not in _made:
        _made.clear()
        _made[key] = make()
    states = _made[key](start, clients.rows, clients.seeds)
    return [use(k, state) for k, state in zip(clients.positions, states, strict=True)]
