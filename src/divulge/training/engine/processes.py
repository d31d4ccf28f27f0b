"""Training in single-threaded processes, one a core."""

import ctypes
import math
import pickle
import shutil
import sys
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing import current_process
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped
from torch import nn

from divulge._util import atomic
from divulge._util.packing import pickle_settings
from divulge._util.processes import parallel_calls
from divulge.core import Records
from divulge.training.engine.loop import Job, build_network, torch_threads, train_network
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays
from divulge.training.weights import as_arrays, as_tensors, restore, state

# Folders for processes to read from, which go whatever becomes of this one.


class TemporaryFolder:
    """A new folder, which goes with its owner, or with this process, were it killed.

    A process that joblib keeps beside this one, and that outlives it by a moment, removes what is
    left; nothing does if that one is killed as well.
    """

    def __init__(self, owner: Any) -> None:
        from joblib.externals.loky.backend import resource_tracker

        with atomic.translate_os_errors(Path(gettempdir())):
            self.path = Path(mkdtemp(prefix="divulge-"))
        resource_tracker.register(str(self.path), "folder")
        self.remove = weakref.finalize(owner, _remove_folder, self.path)


def _remove_folder(path: Path) -> None:
    from joblib.externals.loky.backend import resource_tracker

    shutil.rmtree(path, ignore_errors=True)
    resource_tracker.unregister(str(path), "folder")


class _PoolFiles(NamedTuple):
    """A pool as files, which processes map into their memory instead of getting a copy."""

    known: "tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]"
    """The arrays of the pool, features and labels, by which it is recognised."""
    data: PoolArrays
    scratch: TemporaryFolder
    """Where the files are, which go once the records are gone."""


class _CallCache:
    """What a call leaves for the next one, so that many short ones pay once."""

    pool: _PoolFiles | None = None
    last_used: float = -math.inf  # when processes were last; joblib lets them wait for 300 s


def has_idle_workers() -> bool:
    """Whether processes wait for work."""
    return monotonic() - _CallCache.last_used < 240


def train_in_processes(
    recipe: Recipe, pool: Records, data: PoolArrays, jobs: Sequence[Job], workers: int
) -> Iterator[nn.Module]:
    """The models in order, as they are there."""
    from joblib import delayed

    shared, sent = share_on_disk(pool, data), pickle_settings(recipe, recipe.network)
    given = [None if job.start is None else as_arrays(job.start) for job in jobs]
    calls = (
        delayed(_train_job_in_worker)(sent, shared, job._replace(start=None), start)
        for job, start in zip(jobs, given, strict=True)
    )
    # joblib would share arrays by itself too, but waits a second for its copy to be let go
    states = parallel_calls(calls, min(workers, len(jobs)), batch_size=1, max_nbytes=None)
    for job, named in zip(jobs, states, strict=True):
        _CallCache.last_used = monotonic()
        yield restore(build_network(recipe, job), as_tensors(named))


def share_on_disk(pool: Records, data: PoolArrays) -> PoolArrays:
    """The same data in files, which stay until another pool comes or this one is gone."""
    last = _CallCache.pool
    if (
        last
        and last.known[0]() is pool.x
        and last.known[1]() is pool.y
        and _same_preparation(last.data, data)
    ):
        return last.data
    if last:
        last.scratch.remove()
    scratch = TemporaryFolder(pool.x)
    x, y = (_memory_map(a, scratch.path / f"{k}.npy") for k, a in enumerate((data.x, data.y)))
    known = weakref.ref(pool.x), weakref.ref(pool.y)
    _CallCache.pool = _PoolFiles(known, PoolArrays(x, y, data.channels_last), scratch)
    return _CallCache.pool.data


def _same_preparation(first: PoolArrays, second: PoolArrays) -> bool:
    """Whether a pool was prepared in the same way; networks differ in precision and layers."""
    return first.x.dtype == second.x.dtype and first.channels_last == second.channels_last


def _memory_map(array: Shaped[np.ndarray, "..."], path: Path) -> Shaped[np.ndarray, "..."]:
    with atomic.translate_os_errors(path):
        np.save(path, array)
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def _train_job_in_worker(
    sent: bytes, data: PoolArrays, job: Job, start: dict[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    keep_freed_memory()
    recipe = pickle.loads(sent)  # noqa: S301 (what this program has just packed)
    with torch_threads(1):  # joblib calls this in the caller's process when one process is enough
        started = job if start is None else job._replace(start=as_tensors(start))
        return as_arrays(state(train_network(recipe, data.tensors("cpu"), started)))


def keep_freed_memory() -> None:
    """In a worker, let glibc keep what a training step frees, which the next one asks for again.

    Else convolutions spend up to a third of their time on getting pages from the system.
    """
    if current_process().name != "MainProcess" and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt:  # other C libraries have none
            mallopt(-1, 2**30)  # M_TRIM_THRESHOLD of malloc.h
            mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest it takes
