"""Work on several cores, where neighbours in a list share what is costly to prepare."""

import contextlib
import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import joblib

from divulge._util.processes import begin_worker
from divulge.errors import DivulgeError

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many this process may use."""
    return int(joblib.cpu_count())


class CellWorkers:
    """Single-threaded processes, each with a stretch of the work that it begins with.

    One that is done with its own stretch takes from the far end of the longest that is left.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._pools: list[ProcessPoolExecutor] = []

    def __enter__(self) -> "CellWorkers":
        context = multiprocessing.get_context("spawn")
        if self.processes > 1:
            self._pools = [
                ProcessPoolExecutor(1, context, initializer=begin_worker, initargs=(os.getpid(),))
                for _ in range(self.processes)
            ]
        return self

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
        with _alive():
            yield from self._distribute(do, items)

    def _distribute(self, do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        count = len(self._pools)
        ends = [len(items) * k // count for k in range(count + 1)]
        stretches = [deque(items[a:b]) for a, b in itertools.pairwise(ends)]
        running: dict[Future[R], int] = {}
        free = list(range(count))
        while free or running:
            for who in free:
                longest = max(stretches, key=len)
                if stretches[who] or longest:
                    item = stretches[who].popleft() if stretches[who] else longest.pop()
                    running[self._pools[who].submit(do, item)] = who
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            free = [running.pop(future) for future in finished]
            yield from (future.result() for future in finished)


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise DivulgeError(
            "expected each process to finish its work, one died, perhaps for want of memory: "
            "continue with --resume and fewer --processes"
        ) from error
