"""Processes that work beside this one, and end with it, however it ends.

Little is imported here: what a process imports before it watches its parent delays its end.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from mmap import mmap
from threading import Thread
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
"""What numerical libraries read when they are loaded."""

WATCH_PERIOD = 0.5
"""Seconds between two looks at whether the parent is still there."""


def parallel_calls(
    calls: Iterable[Callable[[], Result]], processes: int
) -> Generator[Result, None, None]:
    """The results of calls in order, from processes that end with this one.

    Processes wait five minutes for the next work. Who needs no further result may close the
    generator: the processes are killed at once, whatever they are at.

    Args:
        calls: each one with what it needs; taken as processes become free.
        processes: their number; -1 is one a core. One is this process itself.
    """
    from joblib import cpu_count, effective_n_jobs

    count = effective_n_jobs(processes)
    if count == 1:
        yield from (call() for call in calls)
        return
    from joblib.externals.loky import get_reusable_executor, wait

    threads = str(max(1, cpu_count() // count))
    executor = get_reusable_executor(
        count,
        timeout=300,
        job_reducers={np.memmap: _send_map},
        initializer=end_with_parent,
        initargs=(os.getpid(),),
        env={name: threads for name in _THREADS if name not in os.environ},
    )
    begun: deque[Any] = deque()
    remaining = iter(calls)
    try:
        while True:
            room = 2 * count - sum(not one.done() for one in begun)
            begun.extend(executor.submit(call) for call in islice(remaining, room))
            if not begun:
                return
            while begun and begun[0].done():
                yield begun.popleft().result()
            wait([one for one in begun if not one.done()], return_when="FIRST_COMPLETED")
    finally:
        if begun:
            # the executor's own thread fails if work is taken away that it has not yet sent
            while any(not one.running() and not one.done() for one in begun):
                time.sleep(0.001)
            executor.shutdown(kill_workers=True)


def _send_map(array: np.memmap) -> tuple[Any, ...]:
    """How a process gets an array that lies in a file: it maps the file, too."""
    owner: object = array.base
    if not isinstance(owner, mmap):  # a part of a map
        return np.asarray(array).__reduce__()  # type: ignore[return-value]
    order = "F" if array.flags.fnc else "C"
    return np.memmap, (array.filename, array.dtype, "r", array.offset, array.shape, order)


def begin_worker(parent: int) -> None:
    """Once in a new process for work on one core: one thread, and no life after the parent's.

    Args:
        parent: as for `end_with_parent`.
    """
    end_with_parent(parent)
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    threadpool_limits(1)


def end_with_parent(parent: int) -> None:
    """In a process that was just started: end it as soon as its parent has ended.

    Args:
        parent: the number of the process that started this one; that process itself goes on.
    """
    if os.getpid() != parent:
        Thread(target=_leave_with_parent, args=(parent,), daemon=True).start()


def _leave_with_parent(parent: int) -> None:
    import psutil

    try:
        process = psutil.Process(parent)
        # on Unix, orphans get another parent; on Windows they keep the number of one that is gone
        while os.getppid() == parent and process.is_running():
            time.sleep(WATCH_PERIOD)
    finally:  # whatever happens to the watch, nobody else would end this process
        os._exit(1)
