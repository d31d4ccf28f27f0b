"""One model of a fleet, trained by itself: what it costs, and the model as such."""

import time
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from divulge._util import atomic
from divulge.core import Target
from divulge.studies.leave_one_out.design import LeaveOneOutDesign
from divulge.training.shadows import train as training

NAME = "alone.json"
_ONE = {"way": "one-by-one", "workers": 1, "jobs": 1}
"""Settings that trainers have for how many processes and threads they start."""


@dataclass(frozen=True, slots=True)
class TrainingCost:
    """What it takes to train one model: ``alone.json``."""

    seconds: float
    """Seconds of one core, or on the clock where the trainer uses an accelerator."""
    epochs: int | None
    """The number of epochs of its recipe; None where it has none. Fewer may have been run."""
    records: int
    """The number of records that it was trained on."""


def train_target(asked: LeaveOneOutDesign) -> tuple[Target, TrainingCost]:
    """The first target once more, in this process and on one thread.

    Raises:
        TargetError: it could not be trained.
    """
    plan = asked.plan
    work = training.prepare_workload(asked.shadows, asked.queries, plan.seed)
    trainer = _single(work.trainer)
    clock = time.process_time if _on_cpu(trainer) else time.perf_counter
    begun = clock()
    (model,) = trainer.many(work.pool, work.subsets[:1], work.seeds[:1])
    seconds = clock() - begun
    epochs = getattr(getattr(trainer, "recipe", None), "epochs", None)
    return model, TrainingCost(seconds, epochs, int(work.subsets[0].sum()))


def measure_training_cost(asked: LeaveOneOutDesign, folder: Path | None) -> TrainingCost:
    """What one model costs; where the folder says it already, nothing is trained.

    Raises:
        TargetError: it could not be trained.
        StoreError: the folder cannot be read or written.
    """
    if folder is None:
        return train_target(asked)[1]
    if not (folder / NAME).exists():
        atomic.write(folder / NAME, atomic.to_json(train_target(asked)[1], TrainingCost).encode())
    return load_training_cost(folder)


def load_training_cost(folder: Path) -> TrainingCost:
    """What one model cost.

    Raises:
        StoreError: nobody measured it, or the file is damaged.
    """
    return atomic.from_json(atomic.read(folder / NAME), TrainingCost, folder / NAME)


def _single(trainer: Any) -> Any:
    if not is_dataclass(trainer):
        return trainer
    names = {field.name for field in fields(trainer)}
    return replace(trainer, **{name: one for name, one in _ONE.items() if name in names})  # type: ignore[type-var]


def _on_cpu(trainer: Any) -> bool:
    return str(getattr(trainer, "device", "cpu")).startswith("cpu")
