"""One model of a fleet, trained by itself: what it costs, and the model as such."""

import time
from pathlib import Path
from typing import Any

from divulge.core import Target
from divulge.studies.compare.variant import (
    COST,
    TrainingCost,
    load_training_cost,
    store_training_cost,
)
from divulge.studies.leave_one_out.design import LeaveOneOutDesign
from divulge.training.shadows import train as training
from divulge.training.trainers import use_one_thread


def train_target(question: LeaveOneOutDesign) -> tuple[Target, TrainingCost]:
    """The first target once more, in this process and on one thread.

    Raises:
        TargetError: it could not be trained.
    """
    work = training.prepare_workload(question.shadows, question.queries, question.head.seed)
    trainer = use_one_thread(work.trainer)
    clock = time.process_time if _on_cpu(trainer) else time.perf_counter
    begun = clock()
    (model,) = trainer.many(work.pool, work.subsets[:1], work.seeds[:1])
    seconds = clock() - begun
    epochs = getattr(getattr(trainer, "recipe", None), "epochs", None)
    return model, TrainingCost(seconds, epochs, int(work.subsets[0].sum()))


def measure_training_cost(question: LeaveOneOutDesign, folder: Path | None) -> TrainingCost:
    """What one model costs; where the folder says it already, nothing is trained.

    Raises:
        TargetError: it could not be trained.
        StoreError: the folder cannot be read or written.
    """
    if folder is None:
        return train_target(question)[1]
    if not (folder / COST).exists():
        store_training_cost(folder, train_target(question)[1])
    return load_training_cost(folder)


def _on_cpu(trainer: Any) -> bool:
    return str(getattr(trainer, "device", "cpu")).startswith("cpu")
