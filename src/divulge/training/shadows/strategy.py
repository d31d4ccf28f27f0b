"""Fix a trainer's strategy before any model is trained, and keep it when a run is resumed."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge._util import atomic
from divulge._util.json import JSON
from divulge.core import Records, Trainer
from divulge.training.shadows.workers import LocalWorkers, Workers
from divulge.training.shadows.workload import (
    ShadowWorkload,
)


@runtime_checkable
class ResolvableTrainer(Protocol):
    """A dataclass that can fix what it would else choose anew each time, as a ``Fleet`` can.

    The fields that it fixes have ``identity`` False in their metadata.
    """

    def settled(self, pool: Records, subsets: Bool[np.ndarray, "models records"]) -> Trainer:
        """The same trainer, its choices made."""
        ...

    @property
    def together(self) -> int:
        """How many models are one computation; 1 where each stands for itself."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredStrategy:
    """The content of ``KEY.way.json``: settings that change the speed, but not the models."""

    settings: dict[str, JSON]


def settle(work: ShadowWorkload, workers: Workers) -> Trainer:
    """The trainer of the work, its choices made for these workers.

    Elsewhere than here a worker has one core, of which a trial on all cores here tells nothing: one
    model after another.
    """
    trainer: Any = work.trainer
    if not isinstance(trainer, ResolvableTrainer):
        return work.trainer
    if not isinstance(workers, LocalWorkers) and getattr(trainer, "way", None) == "auto":
        trainer = dataclasses.replace(trainer, way="one-by-one", workers=1)  # type: ignore[type-var]
    settled: Trainer = trainer.settled(work.pool, work.subsets)
    return settled


def resolve_trainer(
    work: ShadowWorkload, missing: list[int], path: Path, workers: Workers
) -> tuple[ShadowWorkload, list[int]]:
    """The work with its trainer settled as it was when these models were begun, and what to train.

    Two ways of training give the same models up to rounding, and one way gives them bit for bit:
    what is resumed must not change it. Models that are one computation are trained together again.

    Args:
        work: what to train.
        missing: numbers of the models still to come.
        path: the file that keeps the choice.
        workers: who trains.

    Raises:
        StoreError: the file is damaged, or cannot be read or written.
    """
    if not missing or not isinstance(work.trainer, ResolvableTrainer):
        return work, missing
    trainer: Any = work.trainer
    raw = atomic.read(path) if path.exists() else None
    if raw is None:
        strategy = _StoredStrategy(_execution_settings(settle(work, workers)))
        atomic.write(path, atomic.to_json(strategy, _StoredStrategy).encode())
    else:
        strategy = atomic.from_json(raw, _StoredStrategy, path)
    trainer = dataclasses.replace(trainer, **strategy.settings)
    work = dataclasses.replace(work, trainer=trainer)
    return work, same_computation(work, missing, range(len(work.seeds)))


def same_computation(
    work: ShadowWorkload, models: Sequence[int], among: Sequence[int]
) -> list[int]:
    """Those models among others that are one computation with some of these."""
    trainer = work.trainer
    together = trainer.together if isinstance(trainer, ResolvableTrainer) else 1
    waves = {k // together for k in models}
    return [k for k in among if k // together in waves]


def _execution_settings(trainer: Any) -> dict[str, JSON]:
    choices = {
        field.name: getattr(trainer, field.name)
        for field in dataclasses.fields(trainer)
        if not field.metadata.get("identity", True)
    }
    # each model is trained by one thread: the same one however many there are
    if choices.get("way") in ("compiled", "processes"):
        del choices["workers"]
    return choices
