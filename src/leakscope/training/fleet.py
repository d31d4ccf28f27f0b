"""Many small PyTorch models, trained fast and reproducibly: the engine of shadow attacks."""

import ctypes
import importlib.util
import pickle
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from multiprocessing import current_process
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from torch import nn
from torch.nn.functional import cross_entropy

from leakscope.core import Records, Target
from leakscope.errors import DataError, LeakscopeError, SpecError, TargetError, did_you_mean
from leakscope.targets.torch import TorchTarget
from leakscope.training.network import Stack, obstacle, restore, state
from leakscope.training.recipe import Recipe, Rows

Way = Literal["auto", "processes", "stacked", "one-by-one"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A recipe, repeated: each model has its own weights, records and batch order, by its seed.

    Whatever the way, the models are the same to floating-point tolerance; within one way, on one
    machine and with one number of threads, bit for bit.

    Args:
        recipe: how one model is trained.
        way: ``processes`` trains in single-threaded processes, one model after another in each;
            ``stacked`` all models as one computation; ``one-by-one`` in this process; ``auto``
            chooses, see `chosen`.
        workers: how many processes; one a core unless given.
        device: where models are trained, as PyTorch names it: ``cpu``, ``cuda``, ``cuda:1``.

    Raises:
        SpecError: there is no such way or device, or there are no workers.
    """

    recipe: Recipe
    way: Way = "auto"
    workers: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.way not in get_args(Way):
            hint = did_you_mean(self.way, get_args(Way))
            raise SpecError(f"expected a known way to train a fleet, got {self.way!r}: {hint}")
        if self.workers is not None and self.workers < 1:
            raise SpecError(f"expected workers from 1, got {self.workers}: leave it out")
        try:
            cpu = torch.device(self.device).type == "cpu"
        except RuntimeError as error:
            raise SpecError(f"expected a device of PyTorch, got {self.device!r}: {error}") from None
        if self.way == "processes" and not cpu:
            raise SpecError(
                f'expected device="cpu" with processes, got {self.device!r}: processes would '
                'queue for one accelerator; use way="auto"'
            )

    @property
    def chosen(self) -> str:
        """The way that will be taken, and why.

        Raises:
            TargetError: the recipe makes no network.
        """
        with _explained():
            return ": ".join(self._choice(_fresh(self.recipe, 0)))

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One trained network a row of ``subsets``, in order, as soon as it is there.

        Raises:
            SpecError: the network cannot be trained in the way that was asked for.
            DataError: a subset is empty.
            TargetError: the recipe makes no network, or one that could not be trained.
        """
        if not subsets.any(axis=1).all():
            raise DataError("expected records in every subset, got an empty one: enlarge the pool")
        jobs = [
            _Job(np.flatnonzero(subset), int(seed))
            for subset, seed in zip(subsets, seeds, strict=True)
        ]
        if jobs:
            with _explained():
                for module in self._trained(pool, jobs):
                    yield TorchTarget(module, "logits")

    def _trained(self, pool: Records, jobs: Sequence["_Job"]) -> Iterator[nn.Module]:
        network = _fresh(self.recipe, jobs[0].seed)
        way, _ = self._choice(network)
        data = _Data.prepare(pool, network)
        if way == "processes":
            return _in_processes(self.recipe, data, jobs, self._processes())
        train = _stacked if way == "stacked" else _one_by_one
        return train(self.recipe, data.tensors(self.device), jobs)

    def _choice(self, network: nn.Module) -> tuple[Way, str]:
        why_not = obstacle(network)
        if self.way == "stacked" and why_not:
            raise SpecError(
                f"expected layers that can be stacked, but {why_not}: "
                'use way="auto", or train without that layer'
            )
        if self.way != "auto":
            return self.way, "as asked for"
        if torch.device(self.device).type != "cpu":
            if why_not:
                return "one-by-one", why_not
            return "stacked", "small models leave an accelerator idle unless computed together"
        processes = self._processes()
        if processes == 1:
            return "one-by-one", "there is one worker, this process"
        return "processes", f"on a CPU {processes} single-threaded ones beat one stack of models"

    def _processes(self) -> int:
        import joblib

        return int(self.workers or joblib.cpu_count())


class _Job(NamedTuple):
    """One model to train."""

    rows: Rows
    seed: int


class _Tensors(NamedTuple):
    """The pool on a device. Images have their channels last in memory where the network can."""

    x: torch.Tensor
    y: torch.Tensor
    channels_last: bool

    def batch(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Some records, without a copy of the pool."""
        x = self.x.index_select(0, rows)
        # index_select keeps no memory format: the pool is stored in that order of axes instead
        return x.permute(0, 3, 1, 2) if self.channels_last else x, self.y.index_select(0, rows)


class _Data(NamedTuple):
    """The pool as arrays, which processes share."""

    x: Shaped[np.ndarray, "records *features"]
    y: Int64[np.ndarray, " records"]
    channels_last: bool

    @classmethod
    def prepare(cls, pool: Records, network: nn.Module) -> "_Data":
        """Floating features in the precision of the network, as when a target is asked."""
        dtype = next((t.dtype for t in state(network).values() if t.is_floating_point()), None)
        x = pool.x
        if dtype is not None and x.dtype.kind == "f":
            x = x.astype(torch.empty(0, dtype=dtype).numpy().dtype, copy=False)
        channels_last = _takes_channels_last(network, x)
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1) if channels_last else x)
        return cls(x, pool.y.astype(np.int64, copy=False), channels_last)

    def tensors(self, device: str) -> _Tensors:
        """The same as tensors; on the CPU they are the same memory."""
        with warnings.catch_warnings():  # arrays are read-only, and nobody writes to the tensors
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        return _Tensors(x.to(device), y.to(device), self.channels_last)


def _takes_channels_last(network: nn.Module, x: Shaped[np.ndarray, "..."]) -> bool:
    """Whether images in that memory format pass; ``view`` in a forward pass may refuse them."""
    if x.ndim != 4:
        return False
    images = torch.tensor(x[:2]).to(memory_format=torch.channels_last)
    try:
        with torch.no_grad():
            _channels_last(network.eval())(images)
    except RuntimeError:
        return False
    return True


def _channels_last(module: nn.Module) -> nn.Module:
    moved: nn.Module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return moved


def _one_by_one(recipe: Recipe, data: _Tensors, jobs: Sequence[_Job]) -> Iterator[nn.Module]:
    return (_train(recipe, data, job) for job in jobs)


def _train(recipe: Recipe, data: _Tensors, job: _Job) -> nn.Module:
    """One model, from scratch. The random numbers of the caller are left alone."""
    with _seeded(job.seed, data.x.device):
        module = recipe.network().to(data.x.device)
        if data.channels_last:
            _channels_last(module)
        module.train()
        optimiser = recipe.over([p for p in module.parameters() if p.requires_grad])
        for rate, rows in recipe.steps(job.rows, job.seed):
            x, y = data.batch(rows.to(data.x.device))
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(module(x), y))
            _step(optimiser, rate)
    return module.eval()


def _in_processes(
    recipe: Recipe, data: _Data, jobs: Sequence[_Job], processes: int
) -> Iterator[nn.Module]:
    from joblib import Parallel, delayed

    packed = _packed(recipe)
    parallel = Parallel(n_jobs=min(processes, len(jobs)), return_as="generator", batch_size=1)
    # joblib shares arrays by itself too, but spends a second on waiting for its copy to be let go
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        x, y = _mapped(data.x, Path(folder, "x.npy")), _mapped(data.y, Path(folder, "y.npy"))
        share = delayed(partial(_train_here, packed, _Data(x, y, data.channels_last)))
        for job, named in zip(jobs, parallel(share(job) for job in jobs), strict=True):
            tensors = {name: torch.from_numpy(array) for name, array in named.items()}
            yield restore(_fresh(recipe, job.seed), tensors)


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


def _train_here(packed: bytes, data: _Data, job: _Job) -> dict[str, np.ndarray]:
    """One model, in a process of its own: what training made of its state."""
    _keep_memory()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        recipe = pickle.loads(packed)  # noqa: S301 (what this program has just packed)
        module = _train(recipe, data.tensors("cpu"), job)
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


def _stacked(recipe: Recipe, data: _Tensors, jobs: Sequence[_Job]) -> Iterator[nn.Module]:
    """One stack of models for each number of steps that an epoch has."""
    groups = _grouped(len(recipe.batch_edges(len(job.rows))) for job in jobs)
    done: dict[int, nn.Module] = {}
    for members in groups:
        modules = _train_stack(recipe, data, [jobs[k] for k in members])
        done |= zip(members, modules, strict=True)
    return (done[k] for k in range(len(jobs)))


def _train_stack(recipe: Recipe, data: _Tensors, jobs: Sequence[_Job]) -> list[nn.Module]:
    modules = [_fresh(recipe, job.seed).to(data.x.device) for job in jobs]
    stack = Stack(modules)
    optimiser = recipe.over(stack.trained)
    for steps in zip(*(recipe.steps(job.rows, job.seed) for job in jobs), strict=True):
        rows = [batch for _, batch in steps]
        # the last batches of an epoch differ in size: no padding, which batch statistics would see
        for members in _grouped(map(len, rows)):
            together = torch.cat([rows[k] for k in members]).to(data.x.device)
            stack.differentiate(members, *data.batch(together))
        _step(optimiser, steps[0][0])  # the rate depends on the number of steps alone
    return [restore(module, stack.of(k)) for k, module in enumerate(modules)]


def _grouped(keys: Iterable[int]) -> list[list[int]]:
    """The positions of equal keys."""
    groups: dict[int, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return list(groups.values())


def _step(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def _fresh(recipe: Recipe, seed: int) -> nn.Module:
    """The untrained model of one seed, on the CPU."""
    with _seeded(seed, torch.device("cpu")):
        return recipe.network()


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng([] if device.type == "cpu" else [device]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _explained() -> Iterator[None]:
    """A failure of the user's network as one of ours."""
    try:
        yield
    except LeakscopeError:
        raise
    except Exception as error:
        raise TargetError(
            f"expected a shadow model to train, got {type(error).__name__}: {error}: "
            "make one network by hand and put a few records to it to see why"
        ) from error
