"""Train many models in native code: one after another in each of some threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from itertools import islice
from threading import Event
from types import ModuleType
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from divulge._util.extras import import_optional
from divulge.training.engine.loop import Job, build_network, flush_subnormals
from divulge.training.engine.selection import BestEpoch
from divulge.training.recipe import Precision, RaggedRows, Recipe
from divulge.training.tensors import PoolArrays
from divulge.training.weights import as_arrays, restore
from divulge_fast.layout import NativeLayout, aligned_zeros, native_layout
from divulge_fast.pool import NativePool, has_few_entries, prepare_pool, record_shape

S = TypeVar("S")
T = TypeVar("T")

KERNELS = "divulge_fast.kernels"
"""The module with the native code, which needs Numba."""

_OPTIMISERS = {"sgd": 0, "adam": 1, "adamw": 2}
"""Optimisers by the numbers that `kernels.train_epochs` has for them."""

_SMALL_CHANNELS, _SMALL_WEIGHTS = 32, 1_000_000
"""Channels of convolutions, and weights, up to which native code was faster than PyTorch's kernels
in every measurement; beyond, these have more to do at a time."""

_RECORDS_PER_CALL = 2**15
"""Records that one call of native code learns, which nothing interrupts."""


@cache
def load_kernels() -> ModuleType | None:
    """The native code; None where Numba is not installed, or does not work here."""
    return import_optional(KERNELS)


def is_native(recipe: Recipe, network: nn.Module, data: PoolArrays) -> bool:
    """Whether native code can train this network by this recipe, if Numba is installed."""
    return (
        recipe.loss is None
        and recipe.optimiser in _OPTIMISERS
        and data.x.dtype == np.float32
        and native_layout(network, record_shape(data)) is not None
    )


def bfloat16_obstacle(recipe: Recipe, network: nn.Module, data: PoolArrays) -> str | None:
    """Why native code, which is installed, should not train in bfloat16; None where it can."""
    kernels, layout = load_kernels(), native_layout(network, record_shape(data))
    if not is_native(recipe, network, data) or layout is None or layout.conv.size:
        return "it is not a dense network that native code can train"
    assert kernels is not None
    if not kernels.HAS_BFLOAT16:
        return "this processor has no AVX512-BF16"
    if has_few_entries(data.x):
        return "most entries of the records are zero, and skipping them is faster"
    return None


def is_large(network: nn.Module) -> bool:
    """Whether PyTorch's kernels may be faster than native code; then a trial decides."""
    channels = [layer.out_channels for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    weights = sum(p.numel() for p in network.parameters())
    return max(channels, default=0) > _SMALL_CHANNELS or weights > _SMALL_WEIGHTS


def train_in_threads(
    recipe: Recipe,
    data: PoolArrays,
    jobs: Sequence[Job],
    threads: int,
    precision: Precision = "float32",
) -> Iterator[nn.Module]:
    """The models in order, as soon as they are there.

    Args:
        recipe: of a network that `is_native`.
        data: the pool.
        jobs: the models.
        threads: how many are trained at a time.
        precision: with ``bfloat16`` there is no `bfloat16_obstacle`.

    Raises:
        IndexError: the pool has classes that the network has not.
    """
    network = build_network(recipe, jobs[0])
    native = _Native.prepare(recipe, data, network, precision)

    def train(task: tuple[Job, nn.Module]) -> nn.Module:
        job, module = task
        fit, held_out = recipe.split_rows(job.rows, job.seed)
        if not recipe.selects:
            native.train(module, fit, job.seed)
            return module.eval()
        best = BestEpoch(recipe, data.tensors("cpu"), fit, held_out)
        native.train(module, fit, job.seed, best)
        return restore(module, best.state)

    # PyTorch's random numbers are of the process: networks are built in this thread
    tasks = ((job, build_network(recipe, job)) for job in jobs)
    yield from _map_in_threads(train, tasks, min(threads, len(jobs)), native.stop)


class NativeClients:
    """Trains one network from given weights, again and again, in threads.

    Args:
        recipe: of a network that `is_native`.
        data: the pool.
        network: as the recipe makes it; weights that a training is not given are as in this one.
    """

    def __init__(self, recipe: Recipe, data: PoolArrays, network: nn.Module) -> None:
        self._recipe, self._data, self._fresh = recipe, data, network
        self._native: _Native | None = None

    def states(
        self,
        start: Mapping[str, np.ndarray],
        tasks: Sequence[tuple[RaggedRows, int]],
        threads: int,
    ) -> Iterator[dict[str, np.ndarray]]:
        """The state dictionaries after each training, in order, as soon as they are there.

        Args:
            start: the state dictionary from which each of them sets out.
            tasks: the rows and the seed of each training.
            threads: how many are trained at a time.

        Raises:
            IndexError: the pool has classes that the network has not.
        """
        if self._native is None:
            self._native = _Native.prepare(self._recipe, self._data, self._fresh)
        native, begun = self._native._replace(stop=Event()), deepcopy(self._fresh)
        with torch.no_grad():
            for name, tensor in begun.state_dict().items():
                if name in start:
                    tensor.copy_(torch.from_numpy(np.array(start[name])))

        def train(task: tuple[RaggedRows, int]) -> dict[str, np.ndarray]:
            rows, seed = task
            module = deepcopy(begun)
            native.train(module, rows, seed)
            return as_arrays(module.state_dict())

        yield from _map_in_threads(train, tasks, min(threads, len(tasks)), native.stop)


def _map_in_threads(
    do: Callable[[S], T], items: Iterable[S], threads: int, stop: Event
) -> Iterator[T]:
    """What a function makes of items, in order; some are done in advance.

    Args:
        do: the function.
        items: what it is called with, each made in this thread.
        threads: how many calls run at a time; with one all run in this thread.
        stop: is set when nobody waits any more.
    """
    if threads < 2:
        yield from map(do, items)
        return
    waiting = deque[Future[T]]()
    with ThreadPoolExecutor(threads, "divulge-training") as executor:
        try:
            for item in items:
                waiting.append(executor.submit(do, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            stop.set()
            executor.shutdown(wait=False, cancel_futures=True)


class _Native(NamedTuple):
    """A recipe and its records, ready for native code."""

    kernels: ModuleType
    recipe: Recipe
    pool: NativePool
    layout: NativeLayout
    stop: Event
    """Set when nobody waits for models any more."""

    @classmethod
    def prepare(
        cls,
        recipe: Recipe,
        data: PoolArrays,
        network: nn.Module,
        precision: Precision = "float32",
    ) -> "_Native":
        """Lay out the network and the pool.

        Raises:
            IndexError: the pool has classes that the network has not.
        """
        kernels, layout = load_kernels(), native_layout(network, record_shape(data))
        assert kernels is not None
        assert layout is not None
        classes = int(layout.dense[-1]["real_outputs"])
        if not 0 <= data.y.min() <= data.y.max() < classes:
            raise IndexError(
                f"classes from 0 to {classes - 1}, got {data.y.min()} to {data.y.max()}"
            )
        return cls(kernels, recipe, prepare_pool(data, layout, precision), layout, Event())

    def train(
        self, module: nn.Module, rows: RaggedRows, seed: int, best: BestEpoch | None = None
    ) -> None:
        """Train a module on these rows; with ``best`` until that says that it is enough."""
        recipe, layout = self.recipe, self.layout
        w = layout.pack(module)
        v, moments = aligned_zeros(layout.size), layout.size * (recipe.optimiser != "sgd")
        m, s = aligned_zeros(moments), aligned_zeros(moments)
        if recipe.optimiser != "adamw":
            v += np.float32(recipe.weight_decay) * w
        hyper = np.array([recipe.momentum, recipe.weight_decay, 0.9, 0.999, 1e-8], np.float32)
        edges = np.array([0, *recipe.batch_edges(len(rows)), len(rows)])
        at_once = 1 if best else max(1, _RECORDS_PER_CALL // max(1, len(rows)))
        plan, step = recipe.plan(rows, seed), 0
        with flush_subnormals():
            while epochs := list(islice(plan, at_once)):
                order = torch.stack([torch.cat([batch for _, batch in epoch]) for epoch in epochs])
                rates = np.array([[rate for rate, _ in epoch] for epoch in epochs], np.float32)
                self.kernels.train_epochs(
                    order.numpy(), edges, rates, *self.pool, layout.conv, layout.dense,
                    w, v, m, s, _OPTIMISERS[recipe.optimiser], hyper, step,
                )  # fmt: skip
                step += rates.size
                if best:
                    layout.unpack(w, module)
                    if not best.should_continue(module):
                        break
                if self.stop.is_set():
                    break
        layout.unpack(w, module)
