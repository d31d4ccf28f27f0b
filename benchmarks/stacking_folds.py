"""Quality and cost: stacking's `crossfit` with two folds, three and five."""

import time
from collections.abc import Sequence
from functools import partial
from unittest.mock import Mock, patch

import numpy as np

from benchmarks.timing import environment
from benchmarks.which_client import TASKS, Task, aucs
from divulge._util.random import stream
from divulge.attacks.assignment.stacking import attack
from divulge.federation import local_models
from divulge.metrics import intervals

SUMMARY = "AUC and CPU seconds of stacking with two, three and five folds"

FOLDS = (2, 3, 5)


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over federations, and the paired differences to five folds.

    Raises:
        MissingData: the records are not at hand.
    """
    aucs_by_folds: dict[int, list[float]] = {folds: [] for folds in FOLDS}
    took = dict.fromkeys(FOLDS, 0.0)
    for seed in range(2 if quick else 12):
        game = _draw_federation(TASKS[name], stream(seed, "stacking folds", name)).challenge
        for folds in FOLDS:
            begun = time.process_time()
            with patch.object(attack, "_choose_folds", Mock(return_value=folds)):
                guess = attack.Stacking()(game.view, stream(seed, "stacking"))
            took[folds] += time.process_time() - begun
            assert guess.score is not None
            each = aucs(game.view, game.truth, guess.score)
            aucs_by_folds[folds].append(float(np.mean([*each])))
    print(f"{name}: {seed + 1} federations; {environment(('divulge', 'scikit-learn', 'torch'))}")
    print("| folds | CPU s each | AUC, mean over clients | less that of five folds |")
    print("|---:|---:|---|---|")
    for folds in FOLDS:
        less = np.subtract(aucs_by_folds[folds], aucs_by_folds[FOLDS[-1]]).tolist()
        cells = f"{_mean(aucs_by_folds[folds])} | {_mean(less)}"
        print(f"| {folds} | {took[folds] / (seed + 1):.2f} | {cells} |")


def _mean(values: Sequence[float]) -> str:
    low, high = intervals.student_mean(values)
    return f"{np.mean(values):.4f} [{low:.4f}, {high:.4f}]"


def _draw_federation(task: Task, rng: np.random.Generator) -> local_models.AssignmentGame:
    pool = task.pool(rng)
    trainer = task.trainer(int(np.prod(pool.x.shape[1:])))
    return local_models.simulate_local_models(pool, trainer, task.sizes, rng)


PARTS = {f"stacking-folds-{name}": partial(run, name=name) for name in TASKS}
