"""Processes that work beside this one, and end with it, however it ends.

Little is imported here: what a process imports before it watches its parent delays its end.
"""

import os
import time
import warnings
from collections.abc import Generator, Iterable
from concurrent.futures.process import BrokenProcessPool
from threading import Thread
from typing import Any

from divulge._util.streams import guard_streams
from divulge.errors import DivulgeError

WATCH_PERIOD = 0.5
"""Seconds between two looks at whether the parent is still there."""


def parallel_calls(calls: Iterable[Any], processes: int, **settings: Any) -> Generator[Any]:
    """The results of calls in order, from processes that end with this one.

    Of themselves, processes that joblib starts wait for work for five minutes after a kill. Who
    needs no further result may close the generator: what was not begun is cancelled.

    Args:
        calls: made by ``joblib.delayed``.
        processes: their number; -1 is one a core.
        settings: of ``joblib.Parallel``.

    Raises:
        DivulgeError: a process died.
    """
    from joblib import Parallel

    tied = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    results = Parallel(n_jobs=processes, return_as="generator", **settings, **tied)(calls)
    try:
        for result in results:  # noqa: UP028 (it would close joblib's where it may still warn)
            yield result
    except BrokenProcessPool as error:
        raise worker_death_error() from error
    finally:
        with warnings.catch_warnings():
            # joblib warns of what it cancels, which the caller wants
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            results.close()


def worker_death_error() -> DivulgeError:
    """The error to raise when a process that worked for this one died."""
    return DivulgeError(
        "expected each process to finish its work, one died, perhaps for want of memory: what was "
        "finished is kept; continue with --resume, and with fewer processes or more memory"
    )


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

    What cannot be printed there, by code of users for example, is lost, as in the parent.

    Args:
        parent: the number of the process that started this one; that process itself goes on.
    """
    if os.getpid() != parent:
        guard_streams()
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
