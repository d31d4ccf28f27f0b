"""Cascade beside attacks with as many shadow models that are all trained at once."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from benchmarks.shadow_quality.measure import FPRS, folder_of_answers
from benchmarks.shadow_quality.models import SEEDS, Games, Views
from benchmarks.shadow_quality.rows import METRICS
from benchmarks.shadow_quality.tasks import TASKS, Task
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import ModelView, Shadows, Trainer
from divulge.metrics import membership, signals
from divulge.metrics.intervals import Interval, student_mean
from divulge.targets.recorded import TableTarget

SUMMARY = "cascade, and attacks with as many shadows trained at once"

BUDGETS = (8, 16, 32)
"""All models: cascade trains half of them first, and a quarter in each of two rounds."""

OTHERS = ("lira", "rmia", "shadow-stack")


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like all)
    """Print what each attack finds, as means over targets with Student's 95 % intervals.

    Raises:
        MissingData: the data is not at hand.
    """
    task = TASKS[name]
    budgets = BUDGETS[:1] if quick else BUDGETS
    if quick:
        task = task._replace(size=2_000, reference=500)
    with folder_of_answers(task) as folder:
        games = Games(task, max(budgets), folder)
        games.train()
        # targets on one half have most in common: one of each half is measured
        views = list(games.views("online"))[::SEEDS]
        print(f"{task.trained}\n{len(views)} targets, each on another half: mean and interval")
        print(f"models  attack        {'  '.join(f'{metric:22}' for metric in METRICS)}")
        for models in budgets:
            _print_budget(task, games, views, models)


def _print_budget(task: Task, games: Games, views: Sequence[Views], models: int) -> None:
    rows_by_attack: dict[str, list[list[float]]] = {}
    for k, views_of_target in enumerate(views):
        for name in (*OTHERS, "cascade"):
            view = views_of_target.of(models)
            if name == "cascade":
                view = _with_further(task, games, views_of_target, models, k)
            score = catalog.attack(name)(view, stream(k, "attack", name)).score
            rows_by_attack.setdefault(name, []).append(_measure(score, views_of_target.learned))
    for name, rows in rows_by_attack.items():
        _print_row(models, name, np.array(rows))
    _print_row(
        models,
        "cascade less",
        np.array(rows_by_attack["cascade"]) - np.array(rows_by_attack["shadow-stack"]),
    )


def _print_row(models: int, name: str, rows: np.ndarray) -> None:
    cells = (
        f"{mean:6.3f} [{low:.3f}, {high:.3f}]"
        for mean, (low, high) in ((column.mean(), _interval(column)) for column in rows.T)
    )
    print(f"{models:6}  {name:13} {'  '.join(f'{cell:22}' for cell in cells)}", flush=True)


def _interval(column: np.ndarray) -> Interval:
    return student_mean(column.tolist())


def _measure(score: np.ndarray, member: np.ndarray) -> list[float]:
    rates = (membership.tpr_at_fpr(score, member, fpr).value for fpr in FPRS.values())
    return [membership.auc(score, member).value, *rates]


def _with_further(task: Task, games: Games, views: Views, models: int, k: int) -> ModelView:
    """The view with the first half of the models, which can train a quarter at a time."""
    view = views.of(models // 2)
    further = _Further(task.trainer(), games, models // 4, k)
    return ModelView(view.target, view.records, view.reference, view.shadows, conditional=further)


class _Further:
    """Trains further shadows of a task; see `divulge.core.ConditionalShadows`."""

    def __init__(self, trainer: Trainer, games: Games, models: int, seed: int) -> None:
        self._trainer, self._games, self._models, self._seed = trainer, games, models, seed
        self._trained = 0

    def __call__(
        self, inside: Bool[np.ndarray, " records"], outside: Bool[np.ndarray, " records"]
    ) -> Shadows:
        candidates, reference, everyone = self._games.first_pool()
        rng = stream(self._seed, "further shadows", self._trained)
        halves = (rng.random((self._models, len(inside))) < 0.5) | inside
        halves &= ~outside
        seeds = [int(seed) for seed in rng.integers(2**31, size=self._models)]
        self._trained += self._models
        answers = [
            TableTarget.record(model, everyone.x).answers
            for model in self._trainer.many(everyone.take(candidates), halves, seeds)
        ]
        phi = np.stack(
            [signals.compute_signal("scaled_logit", answer, everyone.y) for answer in answers],
            axis=1,
        )
        return Shadows(phi[candidates], halves.T, phi[reference])

    def fewer(self) -> "_Further":
        return self
