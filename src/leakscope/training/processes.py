"""Training in single-threaded processes, one a core."""

import ctypes
import importlib.util
import pickle
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.machinery import PathFinder
from multiprocessing import current_process
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from jaxtyping import Shaped
from torch import nn

from leakscope.training.loop import Job, fresh, train
from leakscope.training.network import restore, state
from leakscope.training.pool import Arrays
from leakscope.training.recipe import Recipe


def in_processes(
    recipe: Recipe, data: Arrays, jobs: Sequence[Job], processes: int
) -> Iterator[nn.Module]:
    """The models in order, as they are there."""
    from joblib import Parallel, delayed

    packed = _packed(recipe)
    parallel = Parallel(n_jobs=min(processes, len(jobs)), return_as="generator", batch_size=1)
    # joblib shares arrays by itself too, but spends a second on waiting for its copy to be let go
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        x, y = _mapped(data.x, Path(folder, "x.npy")), _mapped(data.y, Path(folder, "y.npy"))
        share = delayed(partial(_train_here, packed, Arrays(x, y, data.channels_last)))
        for job, named in zip(jobs, parallel(share(job) for job in jobs), strict=True):
            tensors = {name: torch.from_numpy(array) for name, array in named.items()}
            yield restore(fresh(recipe, job.seed), tensors)


def _mapped(array: Shaped[np.ndarray, "..."], path: Path) -> Shaped[np.ndarray, "..."]:
    """The same array as a file in memory, which processes open instead of getting a copy."""
    np.save(path, array)
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def _packed(recipe: Recipe) -> bytes:
    """The recipe for another process, with the code of a module that it could not import there.

    The Python file beside an ``audit.toml`` is such a module.
    """
    vendored = importlib.util.find_spec("cloudpickle") is None  # by joblib, before its 1.6
    pickler = importlib.import_module("joblib.externals.cloudpickle" if vendored else "cloudpickle")
    module = sys.modules.get(getattr(recipe.network, "__module__", None) or "__main__")
    top = module.__name__.partition(".")[0] if module else "__main__"
    if top == "__main__" or PathFinder.find_spec(top) or top in sys.builtin_module_names:
        return bytes(pickler.dumps(recipe))
    pickler.register_pickle_by_value(module)
    try:
        return bytes(pickler.dumps(recipe))
    finally:
        pickler.unregister_pickle_by_value(module)


def _train_here(packed: bytes, data: Arrays, job: Job) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    _keep_memory()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        recipe = pickle.loads(packed)  # noqa: S301 (what this program has just packed)
        module = train(recipe, data.tensors("cpu"), job)
    finally:
        torch.set_num_threads(threads)  # joblib calls this here when one process is enough
    return {name: tensor.contiguous().numpy() for name, tensor in state(module).items()}


def _keep_memory() -> None:
    """In a worker, let glibc keep what a training step frees, which the next one asks for again.

    Else convolutions spend up to a third of their time on getting pages from the system.
    """
    if current_process().name != "MainProcess" and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt:  # other C libraries have none
            mallopt(-1, 2**30)  # M_TRIM_THRESHOLD of malloc.h
            mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest it takes
