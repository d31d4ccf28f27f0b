"""Train many models in native code: one after another in each of some threads."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from threading import Event
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64
from torch import nn

from divulge._util.extras import import_optional
from divulge.training.engine.compiled.layout import NativeLayout, aligned_zeros, native_layout
from divulge.training.engine.loop import Job, build_network, flush_subnormals
from divulge.training.engine.tensors import PoolArrays
from divulge.training.engine.weights import restore
from divulge.training.recipe import Recipe
from divulge.training.selection import BestEpoch

KERNELS = "divulge.training.engine.compiled.kernels"
"""The module with the native code, which needs Numba."""

_OPTIMISERS = {"sgd": 0, "adam": 1, "adamw": 2}
"""Optimisers by the numbers that `kernels.train_epochs` has for them."""

_FEW = 0.25
"""Share of entries that are not zero up to which products skip the zeros. With an eighth, that
takes a third of the time where registers hold sixteen numbers, and less where they hold fewer."""

_SMALL_CHANNELS, _SMALL_WEIGHTS = 32, 1_000_000
"""Channels of convolutions, and weights, up to which native code was faster than PyTorch's kernels
in every measurement; beyond, these have more to do at a time."""

_RECORDS_PER_CALL = 2**15
"""Records that one call of native code learns, which nothing interrupts."""

_BLOCK = 4096
"""Records in which zeros are looked for at a time."""


class _NativePool(NamedTuple):
    """A pool of records as native code reads it."""

    x: Float32[np.ndarray, "records features"]
    y: Int64[np.ndarray, " records"]
    begins: Int64[np.ndarray, " edges"]
    """Where each record's entries begin in the next two; empty where there are many."""
    columns: Int32[np.ndarray, " entries"]
    entries: Float32[np.ndarray, " entries"]


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
        and native_layout(network, _record_shape(data)) is not None
    )


def is_large(network: nn.Module) -> bool:
    """Whether PyTorch's kernels may be faster than native code; then a trial decides."""
    channels = [layer.out_channels for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    weights = sum(p.numel() for p in network.parameters())
    return max(channels, default=0) > _SMALL_CHANNELS or weights > _SMALL_WEIGHTS


def train_in_threads(
    recipe: Recipe, data: PoolArrays, jobs: Sequence[Job], threads: int
) -> Iterator[nn.Module]:
    """The models in order, as soon as they are there.

    Args:
        recipe: of a network that `is_native`.
        data: the pool.
        jobs: the models.
        threads: how many are trained at a time.

    Raises:
        IndexError: the pool has classes that the network has not.
    """
    kernels = load_kernels()
    assert kernels is not None
    stop = Event()
    waiting = deque[Future[nn.Module]]()
    network = build_network(recipe, jobs[0])
    pool, classes = _prepare(data, network), int(_layout(network, data).dense[-1]["real_outputs"])
    if not 0 <= data.y.min() <= data.y.max() < classes:
        raise IndexError(f"classes from 0 to {classes - 1}, got {data.y.min()} to {data.y.max()}")
    with ThreadPoolExecutor(min(threads, len(jobs)), "divulge-training") as executor:
        try:
            for job in jobs:
                # PyTorch's random numbers are of the process: networks are built in this thread
                module = build_network(recipe, job)
                task = _Task(recipe, pool, _layout(module, data), job, data, stop)
                waiting.append(executor.submit(task.train, kernels, module))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            stop.set()
            executor.shutdown(wait=False, cancel_futures=True)


class _Task(NamedTuple):
    """One model to train in a thread."""

    recipe: Recipe
    pool: _NativePool
    layout: NativeLayout
    job: Job
    data: PoolArrays
    stop: Event
    """Set when nobody waits for the model any more."""

    def train(self, kernels: ModuleType, module: nn.Module) -> nn.Module:
        """The module, trained."""
        recipe, layout, pool = self.recipe, self.layout, self.pool
        fit, held_out = recipe.split_rows(self.job.rows, self.job.seed)
        w = layout.pack(module)
        v, moments = aligned_zeros(layout.size), layout.size * (recipe.optimiser != "sgd")
        m, s = aligned_zeros(moments), aligned_zeros(moments)
        if recipe.optimiser != "adamw":
            v += np.float32(recipe.weight_decay) * w
        hyper = np.array([recipe.momentum, recipe.weight_decay, 0.9, 0.999, 1e-8], np.float32)
        edges = np.array([0, *recipe.batch_edges(len(fit)), len(fit)])
        best = None
        if recipe.selects:
            best = BestEpoch(recipe, self.data.tensors("cpu"), fit, held_out)
        at_once = 1 if best else max(1, _RECORDS_PER_CALL // len(fit))
        plan, step = recipe.plan(fit, self.job.seed), 0
        with flush_subnormals():
            while epochs := list(islice(plan, at_once)):
                order = torch.stack([torch.cat([rows for _, rows in epoch]) for epoch in epochs])
                rates = np.array([[rate for rate, _ in epoch] for epoch in epochs], np.float32)
                kernels.train_epochs(
                    order.numpy(), edges, rates, *pool, layout.conv, layout.dense,
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
        return restore(module, best.state) if best else module.eval()


def _record_shape(data: PoolArrays) -> tuple[int, ...]:
    """The shape of one record, channels first."""
    shape = data.x.shape[1:]
    return (shape[-1], *shape[:-1]) if data.channels_last else shape


def _layout(network: nn.Module, data: PoolArrays) -> NativeLayout:
    found = native_layout(network, _record_shape(data))
    assert found is not None
    return found


def _prepare(data: PoolArrays, network: nn.Module) -> _NativePool:
    """The pool, with the entries of its records listed where these are few."""
    x = np.moveaxis(data.x, -1, 1) if data.channels_last else data.x
    flat = np.ascontiguousarray(x).reshape(len(x), -1)
    few = np.count_nonzero(flat) <= _FEW * flat.size
    if not few or _layout(network, data).conv.size:
        none = np.empty(0)
        return _NativePool(
            flat, data.y, none.astype(np.int64), none.astype(np.int32), none.astype(np.float32)
        )
    blocks = [flat[begun : begun + _BLOCK] for begun in range(0, len(flat), _BLOCK)]
    found = [np.nonzero(block) for block in blocks]
    counts = np.concatenate([np.count_nonzero(block, axis=1) for block in blocks])
    return _NativePool(
        flat,
        data.y,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([columns.astype(np.int32) for _, columns in found]),
        np.concatenate([block[place] for block, place in zip(blocks, found, strict=True)]),
    )
