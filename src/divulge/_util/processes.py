"""Processes that work beside this one, and end with it, however it ends.

Little is imported here: what a process imports before it watches its parent delays its end.
"""

import os
import time
from collections.abc import Iterable
from threading import Thread
from typing import Any

WATCH_PERIOD = 0.5
"""Seconds between two looks at whether the parent is still there."""


def parallel_calls(calls: Iterable[Any], processes: int, **settings: Any) -> Any:
    """What joblib's ``Parallel`` makes of these calls, in processes that end with this one.

    Of themselves, processes that joblib starts wait for work for five minutes after a kill.

    Args:
        calls: made by ``joblib.delayed``.
        processes: their number; -1 is one a core.
        settings: of ``joblib.Parallel``.
    """
    from joblib import Parallel

    tied = {"initializer": end_with_parent, "initargs": (os.getpid(),)}
    return Parallel(n_jobs=processes, **settings, **tied)(calls)


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
