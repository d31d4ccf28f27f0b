"""Work on several cores, where neighbours in a list share what is costly to prepare."""

import contextlib
import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

import joblib

from divulge._util.processes import begin_worker, worker_death_error
from divulge.training.cluster import RayCluster, collect, count_processors, submit
from divulge_papers import datasets

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many this process may use."""
    return int(joblib.cpu_count())


@runtime_checkable
class AnyCellWorkers(Protocol):
    """Whoever measures pieces of tables."""

    @property
    def processes(self) -> int:
        """How many pieces can be measured at once."""
        ...

    def each(self, do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """See `CellWorkers.each`."""
        ...

    def in_order(
        self, do: Callable[[T], R], items: Sequence[T], allows: Callable[[T], bool]
    ) -> Iterator[R]:
        """See `CellWorkers.in_order`."""
        ...


class CellWorkers:
    """Single-threaded processes, each with a stretch of the work that it begins with.

    One that is done with its own stretch takes from the far end of the longest that is left.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pools: list[ProcessPoolExecutor] = []

    def __enter__(self) -> "CellWorkers":
        context = multiprocessing.get_context("spawn")
        if self._processes > 1:
            self._pools = [
                ProcessPoolExecutor(1, context, initializer=begin_worker, initargs=(os.getpid(),))
                for _ in range(self._processes)
            ]
        return self

    @property
    def processes(self) -> int:
        """How many there are."""
        return self._processes

    def __exit__(self, *error: object) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def each(self, do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results, in the order in which they come.

        Raises:
            DivulgeError: a process died.
        """
        if not self._pools:
            yield from map(do, items)
            return
        count = len(self._pools)
        ends = [len(items) * k // count for k in range(count + 1)]
        stretches = [deque(items[a:b]) for a, b in itertools.pairwise(ends)]

        def choose(worker: int) -> T | None:
            longest = max(stretches, key=len)
            if stretches[worker]:
                return stretches[worker].popleft()
            return longest.pop() if longest else None

        with _alive():
            yield from self._distribute(do, choose)

    def in_order(
        self, do: Callable[[T], R], items: Sequence[T], allows: Callable[[T], bool]
    ) -> Iterator[R]:
        """The results of items that are begun in their order.

        Args:
            do: what is done with an item.
            items: the items.
            allows: whether an item may be begun, asked when it is its turn; otherwise it is left
                out.

        Raises:
            DivulgeError: a process died.
        """
        allowed = filter(allows, items)
        if not self._pools:
            yield from map(do, allowed)
            return
        with _alive():
            yield from self._distribute(do, lambda _: next(allowed, None))

    def _distribute(self, do: Callable[[T], R], choose: Callable[[int], T | None]) -> Iterator[R]:
        """Give each process that is free the item chosen for it, until there is none."""
        running: dict[Future[R], int] = {}
        free = list(range(len(self._pools)))
        while free or running:
            for process in free:
                if (item := choose(process)) is not None:
                    running[self._pools[process].submit(do, item)] = process
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            free = [running.pop(future) for future in finished]
            yield from (future.result() for future in finished)


class RemoteCellWorkers:
    """The workers of a Ray cluster; items are begun in their order, each where there is room.

    Data sets have to be on each machine of the cluster, in the folder that DIVULGE_DATA names
    there, or here if it names none there.
    """

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self._session = contextlib.ExitStack()
        self.processes = 0

    def __enter__(self) -> "RemoteCellWorkers":
        ray = self._session.enter_context(self._cluster.session())
        self.processes = count_processors(ray)
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    def each(self, do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results, in the order in which they come.

        Raises:
            DivulgeError: an item could not be done.
        """
        return self.in_order(do, items, lambda _: True)

    def in_order(
        self, do: Callable[[T], R], items: Sequence[T], allows: Callable[[T], bool]
    ) -> Iterator[R]:
        """As `CellWorkers.in_order`.

        Raises:
            DivulgeError: an item could not be done.
        """
        allowed = filter(allows, items)
        there = partial(_do_with_data, os.environ.get(datasets.VARIABLE), do)
        with self._cluster.session() as ray:
            running = submit(ray, there, (), itertools.islice(allowed, self.processes))
            for _, result in collect(ray, running):
                running |= submit(ray, there, (), itertools.islice(allowed, 1))
                yield result


def _do_with_data(folder: str | None, do: Callable[[T], R], item: T) -> R:
    if folder is not None:
        os.environ.setdefault(datasets.VARIABLE, folder)
    return do(item)


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise worker_death_error() from error
