"""Whether many shadows that are trained half as long find more than few whole ones."""

from dataclasses import replace

import numpy as np

from benchmarks.shadow_quality import rows
from benchmarks.shadow_quality.compare import mean_of_these
from benchmarks.shadow_quality.measure import folder_of_answers, row_of_attack
from benchmarks.shadow_quality.models import SEEDS, Games
from benchmarks.shadow_quality.rows import METRICS, MODES
from benchmarks.shadow_quality.tasks import TASKS, Task
from divulge.attacks import catalog
from divulge.core import Trainer
from divulge.training.fleet import Fleet
from divulge.training.trainers import EstimatorTrainer

SUMMARY = "shadow-stack with 4 shadows, and with 8 that are trained half as long, less lira with 16"

TARGETS = ("location-30", "transfer", "forest", "mnist", "retail-100")

WHOLE, HALF = 4, 8


def run(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Print the differences on each target, with intervals over its halves.

    Raises:
        MissingData: the data is not at hand.
    """
    for name in TARGETS[: 1 if quick else None]:
        _compare(TASKS[name])


def _compare(task: Task) -> None:
    stored = rows.read(rows.STORED / f"{task.name}.jsonl")
    assert stored is not None
    with folder_of_answers(task) as folder:
        games = Games(task, HALF, folder, seeds=1)
        games.train()
        whole = {mode: list(games.views(mode)) for mode in MODES}
        games = games.with_shadows("half", task._replace(trainer=lambda: _halve_training(task)))
        games.train()
        half = {mode: list(games.views(mode)) for mode in MODES}
    for mode in MODES:
        lira = next(row for row in stored.rows if row.key == (task.name, mode, 16, "lira"))
        for views, count, label in ((whole, WHOLE, "whole"), (half, HALF, "half-trained")):
            row = row_of_attack(catalog.attack("shadow-stack"), views[mode], count)
            leads = [
                np.subtract(row.values[metric], lira.values[metric][::SEEDS]) for metric in METRICS
            ]
            print(task.name, mode, count, label, *map(_cell, leads), flush=True)


def _halve_training(task: Task) -> Trainer:
    """Half of the epochs, or of the trees."""
    trainer = task.trainer()
    if isinstance(trainer, Fleet):
        recipe = trainer.recipe
        return replace(trainer, recipe=replace(recipe, epochs=recipe.epochs // 2))
    assert isinstance(trainer, EstimatorTrainer)
    trees = trainer.estimator.get_params()["n_estimators"]
    trainer.estimator.set_params(n_estimators=trees // 2)
    return trainer


def _cell(leads: np.ndarray) -> str:
    """The mean with its 95 % t-interval over the halves of one target."""
    low, high = mean_of_these([leads.tolist()])
    return f"{np.mean(leads):+.3f} [{low:+.3f}, {high:+.3f}]"
