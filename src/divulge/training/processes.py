"""Training in single-threaded processes, one a core."""

import ctypes
import math
import pickle
import sys
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing import current_process
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped
from torch import nn

from divulge.core import Records
from divulge.training.loop import Job, fresh, threads, train
from divulge.training.network import as_arrays, as_tensors, restore, state
from divulge.training.packing import packed
from divulge.training.pool import Arrays
from divulge.training.recipe import Recipe
from divulge.training.scratch import Scratch


class _Pool(NamedTuple):
    """A pool as files, which processes map into their memory instead of getting a copy."""

    known: "tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]"
    """By its arrays."""
    data: Arrays
    scratch: Scratch
    """Where the files are, which go once the records are gone."""


class _Kept:
    """What a call leaves for the next one, so that many short ones pay once."""

    pool: _Pool | None = None
    at_work: float = -math.inf  # when processes were last; joblib lets them wait for 300 s


def awake() -> bool:
    """Whether processes wait for work."""
    return monotonic() - _Kept.at_work < 240


def in_processes(
    recipe: Recipe, pool: Records, data: Arrays, jobs: Sequence[Job], workers: int
) -> Iterator[nn.Module]:
    """The models in order, as they are there."""
    from joblib import Parallel, delayed

    shared, sent = on_disk(pool, data), packed(recipe, recipe.network)
    # joblib would share arrays by itself too, but waits a second for its copy to be let go
    parallel = Parallel(
        n_jobs=min(workers, len(jobs)), return_as="generator", batch_size=1, max_nbytes=None
    )
    given = [None if job.start is None else as_arrays(job.start) for job in jobs]
    calls = (
        delayed(_train_here)(sent, shared, job._replace(start=None), start)
        for job, start in zip(jobs, given, strict=True)
    )
    for job, named in zip(jobs, parallel(calls), strict=True):
        _Kept.at_work = monotonic()
        yield restore(fresh(recipe, job), as_tensors(named))


def on_disk(pool: Records, data: Arrays) -> Arrays:
    """The same data in files, which stay until another pool comes or this one is gone."""
    last = _Kept.pool
    if last and last.known[0]() is pool.x and last.known[1]() is pool.y and _alike(last.data, data):
        return last.data
    if last:
        last.scratch.remove()
    scratch = Scratch(pool.x)
    x, y = (_mapped(a, scratch.path / f"{k}.npy") for k, a in enumerate((data.x, data.y)))
    known = weakref.ref(pool.x), weakref.ref(pool.y)
    _Kept.pool = _Pool(known, Arrays(x, y, data.channels_last), scratch)
    return _Kept.pool.data


def _alike(one: Arrays, other: Arrays) -> bool:
    """Whether a pool was prepared in the same way; networks differ in precision and layers."""
    return one.x.dtype == other.x.dtype and one.channels_last == other.channels_last


def _mapped(array: Shaped[np.ndarray, "..."], path: Path) -> Shaped[np.ndarray, "..."]:
    np.save(path, array)
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def _train_here(
    sent: bytes, data: Arrays, job: Job, start: dict[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    keep_memory()
    recipe = pickle.loads(sent)  # noqa: S301 (what this program has just packed)
    with threads(1):  # joblib calls this in the caller's process when one process is enough
        started = job if start is None else job._replace(start=as_tensors(start))
        return as_arrays(state(train(recipe, data.tensors("cpu"), started)))


def keep_memory() -> None:
    """In a worker, let glibc keep what a training step frees, which the next one asks for again.

    Else convolutions spend up to a third of their time on getting pages from the system.
    """
    if current_process().name != "MainProcess" and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt:  # other C libraries have none
            mallopt(-1, 2**30)  # M_TRIM_THRESHOLD of malloc.h
            mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest it takes
