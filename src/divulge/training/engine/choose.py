"""Choose the fastest strategy to train a fleet on a CPU, by a short trial of each.

Here is also the one function that trains by any of the strategies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from torch import nn

from divulge.core import Records
from divulge.training.engine.loop import Job, build_network, torch_threads, train_network
from divulge.training.engine.native import find_native, load_native
from divulge.training.engine.processes import has_idle_workers, train_in_processes
from divulge.training.engine.stacked import train_stacked
from divulge.training.losses import Adversary
from divulge.training.recipe import Precision, Recipe
from divulge.training.tensors import PoolArrays

ConcreteStrategy = Literal["compiled", "processes", "stacked", "one-by-one"]


class TrainingSetup(NamedTuple):
    """The recipe, the records and the device, which all models of a fleet share."""

    recipe: Recipe
    pool: Records
    data: PoolArrays
    device: str
    models_at_once: int
    """How many models may be in memory at once."""
    precision: Precision = "float32"
    """In which native code, or a loop on an accelerator, multiplies."""


def train_models(
    work: TrainingSetup, way: ConcreteStrategy, workers: int, jobs: Sequence[Job]
) -> Iterator[nn.Module]:
    """The models in order, as soon as they are there."""
    if way == "compiled":
        native = load_native()
        yield from native.train_in_threads(work.recipe, work.data, jobs, workers, work.precision)
        return
    tensors = work.data.tensors(work.device)
    if way == "one-by-one":
        for job in jobs:
            with torch_threads(workers):
                module = train_network(work.recipe, tensors, job, precision=work.precision)
            yield module
        return
    for first in range(0, len(jobs), work.models_at_once):
        some = jobs[first : first + work.models_at_once]
        if way == "processes":
            yield from train_in_processes(work.recipe, work.pool, work.data, some, workers)
        else:
            with torch_threads(workers):
                modules = train_stacked(work.recipe, tensors, some)
            yield from modules


_TRIAL_SECONDS = 0.15
"""Seconds for which a strategy is timed, twice; or one step where that takes longer."""

_MIN_WORK_SECONDS = 1.0
"""Seconds of work from which on a trial pays."""

_MIN_SAVED_SECONDS = 5.0
"""Seconds that processes must save before they are started: importing PyTorch takes some."""

_OVERHEAD_SECONDS = 0.005
"""Seconds a step under which overhead weighs, which is all that a stack saves a CPU."""

_TRIAL_STACK_SIZE = 8
"""Models in the stack that is tried."""


class StrategyChoice(NamedTuple):
    """A strategy, its number of processes or threads, and the reason for it."""

    way: ConcreteStrategy
    workers: int
    why: str


def choose_fastest(
    work: TrainingSetup,
    jobs: Sequence[Job],
    processes: int,
    threads: int,
    *,
    stackable: bool,
    native: bool = False,
) -> StrategyChoice:
    """Time a training step in each way that may pay.

    Args:
        work: the recipe, records and device of all models.
        jobs: the models to train.
        processes: the largest number of processes.
        threads: the largest number of threads for strategies that stay in this process.
        stackable: whether the network can be trained in a stack.
        native: whether native code can train the network, if it can be loaded.
    """
    steps = sum(
        work.recipe.steps(len(work.recipe.split_rows(job.rows, job.seed)[0])) for job in jobs
    )
    _time_training(work, "one-by-one", 1, jobs[:1], 1)  # fills caches, gets memory from the system
    whole = steps * _time_training(work, "one-by-one", 1, jobs[:1], 1)
    if whole < _MIN_WORK_SECONDS:
        return StrategyChoice("one-by-one", 1, f"{whole:.1g} s of work are too little to share")
    code = find_native() if native else None
    native = code is not None and code.load_kernels() is not None
    if code and native and not code.is_large(build_network(work.recipe, jobs[0])):
        return StrategyChoice("compiled", processes, "native code is faster for small networks")
    times: dict[tuple[ConcreteStrategy, int], float] = {}
    times["one-by-one", 1] = alone = _seconds_per_step(work, "one-by-one", 1, jobs[:1])
    if threads > 1:
        times["one-by-one", threads] = _seconds_per_step(work, "one-by-one", threads, jobs[:1])
    if stackable and len(jobs) > 1 and alone < _OVERHEAD_SECONDS:
        times["stacked", threads] = _seconds_per_step(
            work, "stacked", threads, jobs[:_TRIAL_STACK_SIZE]
        )
    together = min(processes, len(jobs))
    if native:
        times["compiled", processes] = _seconds_per_step(
            work, "compiled", processes, jobs[:together]
        )
    if together > 1 and (
        has_idle_workers() or steps * alone * (1 - 1 / together) > _MIN_SAVED_SECONDS
    ):
        # long enough that handing out the work, done once a model, does not count as its steps
        many = max(1, min(2000, int(2 * _TRIAL_SECONDS / alone)))
        few = jobs[:together]
        _time_training(work, "processes", processes, few, 1)
        took = _time_training(work, "processes", processes, few, many)
        times["processes", processes] = took / many / len(few)
    way, count = min(times, key=times.__getitem__)
    each = ", ".join(
        f"{_describe_strategy(*key)} {1e3 * times[key]:.3g} ms" for key in sorted(times)
    )
    return StrategyChoice(way, count, f"for one step of one model {each}")


def _describe_strategy(way: ConcreteStrategy, workers: int) -> str:
    return f"{way} ({workers})"


def _seconds_per_step(
    work: TrainingSetup, way: ConcreteStrategy, workers: int, jobs: Sequence[Job]
) -> float:
    """Seconds that a step of one model takes, where as many as these are trained."""
    _time_training(work, way, workers, jobs, 1)
    once = _time_training(work, way, workers, jobs, 1)
    steps = max(1, min(100, int(_TRIAL_SECONDS / once)))
    # the better of two: other programs disturb
    runs = (
        [_time_training(work, way, workers, jobs, steps) for _ in range(2)] if steps > 1 else [once]
    )
    return min(runs) / steps / len(jobs)


def _time_training(
    work: TrainingSetup, way: ConcreteStrategy, workers: int, jobs: Sequence[Job], steps: int
) -> float:
    """How long so many steps of these models take, with what comes before and after."""
    # an adversary needs records held out; nobody else's step does
    select = work.recipe.selects if isinstance(work.recipe.loss, Adversary) else None
    recipe = replace(work.recipe, epochs=1, patience=None, select=select)
    cut = [
        job._replace(rows=np.resize(job.rows, steps * min(recipe.batch_size, len(job.rows))))
        for job in jobs
    ]
    begun = perf_counter()
    for _ in train_models(work._replace(recipe=recipe), way, workers, cut):
        pass
    return perf_counter() - begun
