"""Train shadow models in this process or on a cluster, and fix the trainer's strategy first.

Both kinds of workers return the same rows. A run that is resumed keeps the strategy that it began
with.
"""

import dataclasses
import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge._util.packing import pickle_settings
from divulge._util.processes import parallel_calls
from divulge.core import Records, Target, Trainer
from divulge.errors import DivulgeError
from divulge.training.shadows.workload import (
    ShadowPredictions,
    ShadowWorkload,
    TrainingTask,
    train_batch,
    train_task,
)
from divulge.training.trainers import FunctionTrainer, innermost


@runtime_checkable
class Workers(Protocol):
    """A place where models are trained."""

    def session(self) -> AbstractContextManager[Any]:
        """Within it, workers that were started once are there for all that is trained."""
        ...

    def processors(self) -> int:
        """How many models can be in training at once."""
        ...

    def train(self, work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
        """These models, in any order, each as soon as it is there.

        Raises:
            TargetError: one could not be trained.
        """
        ...

    def train_each(
        self, tasks: "Sequence[TrainingTask]"
    ) -> Generator[tuple[int, ShadowPredictions | DivulgeError]]:
        """One model of each task, in any order, with the position of its task.

        A model that could not be trained is the error instead, and the others are trained. The
        trainers must need one thread, so that models are the same wherever they are trained.
        """
        ...


MIN_SAVED_SECONDS = 5.0
"""Seconds that processes must save before they are started: importing PyTorch takes some."""


def _train_in_processes(
    tasks: Sequence[TrainingTask], processes: int
) -> Generator[ShadowPredictions | DivulgeError]:
    """The models of tasks, in order; joblib shares the arrays of their works."""
    from joblib import delayed

    calls = (
        delayed(_train_in_worker)(
            dataclasses.replace(
                work, trainer=_PackedTrainer(pickle_settings(work.trainer, _code_of(work.trainer)))
            ),
            model,
        )
        for work, model in tasks
    )
    yield from parallel_calls(calls, processes, batch_size=1)


def _code_of(trainer: Any) -> Any:
    """What a trainer calls of the user's: what makes a network, or the class of an estimator."""
    inner = innermost(trainer)
    known = type(getattr(inner, "estimator", inner))
    return getattr(getattr(inner, "recipe", None), "network", known)


@dataclass(frozen=True, slots=True)
class _PackedTrainer:
    """A trainer on its way to another process, with code that could not be imported there."""

    packed: bytes

    def unpack(self) -> Trainer:
        """The trainer."""
        unpacked: Trainer = pickle.loads(self.packed)  # noqa: S301 (this program packed it)
        return unpacked

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """See `divulge.core.Trainer.many`."""
        yield from self.unpack().many(pool, subsets, seeds)


def _train_in_worker(work: ShadowWorkload, model: int) -> ShadowPredictions | DivulgeError:
    assert isinstance(work.trainer, _PackedTrainer)
    trainer = work.trainer.unpack()
    return train_task(TrainingTask(dataclasses.replace(work, trainer=trainer), model))


class LocalWorkers:
    """This process, and whatever processes the trainer starts by itself."""

    def session(self) -> AbstractContextManager[Any]:
        """See `Workers`."""
        return nullcontext()

    def processors(self) -> int:
        """See `Workers`."""
        import joblib

        return int(joblib.cpu_count())

    def train(self, work: ShadowWorkload, models: Sequence[int]) -> Generator[ShadowPredictions]:
        """See `Workers`."""
        if models:
            yield from train_batch(work, models)

    def train_each(
        self, tasks: Sequence[TrainingTask]
    ) -> Generator[tuple[int, ShadowPredictions | DivulgeError]]:
        """See `Workers`; in processes of one thread each, where these save their start."""
        for k, task in enumerate(tasks):
            begun = time.perf_counter()
            yield k, train_task(task)
            took, left = time.perf_counter() - begun, len(tasks) - k - 1
            processes = min(self.processors(), left)
            alone = isinstance(innermost(task.work.trainer), FunctionTrainer)  # as everywhere
            if (
                not alone
                and processes > 1
                and took * left * (1 - 1 / processes) > MIN_SAVED_SECONDS
            ):
                yield from enumerate(_train_in_processes(tasks[k + 1 :], processes), k + 1)
                return
