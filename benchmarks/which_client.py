"""Quality: which client of a federation trained on a record, on several data sets."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.networks import dense
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import Assignment, Estimate, FederationView, Records, Trainer
from divulge.federation import local_models
from divulge.metrics import assignment, intervals, membership
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe

SUMMARY = "accuracy of assignment beside the best constant answer"

ATTACKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("nobody", {}),
    ("confidence-rule", {}),
    ("variance-lira", {}),
    ("stacking", {"protocol": "published"}),
    ("stacking", {"protocol": "crossfit"}),
    ("cluster-lira", {}),
)


class Task(NamedTuple):
    """A federation to be replicated."""

    pool: Callable[[np.random.Generator], Records]
    trainer: Callable[[int], Trainer]
    """Function from the number of columns to the clients' trainer."""
    sizes: tuple[int, ...]


def draw_records(load: Callable[[], Records], count: int, rng: np.random.Generator) -> Records:
    """Some records of a data set, in its order."""
    records = load()
    return records.take(np.sort(rng.choice(len(records), count, replace=False)))


def _dense(columns: int, hidden: int, classes: int, epochs: int) -> Trainer:
    recipe = Recipe(
        partial(dense, columns, hidden, classes), "adam", lr=1e-3, epochs=epochs, batch_size=50
    )
    return Fleet(recipe, way="one-by-one", workers=1)


TASKS = {
    "location-30": Task(
        partial(draw_records, data.location_30, 3000),
        lambda columns: _dense(columns, 128, 30, 60),
        (200, 200, 200, 120),
    ),
    "fashion-mnist": Task(
        partial(draw_records, data.fashion_mnist, 3000),
        lambda columns: _dense(columns, 128, 10, 60),
        (200, 200, 200, 120),
    ),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print each attack's mean accuracy over five replicate federations."""
    task = TASKS[name]
    figures: dict[str, list[list[float]]] = {}
    for seed in range(2 if quick else 5):
        rng = stream(seed, "which client", name)
        pool = task.pool(rng)
        columns = int(np.prod(pool.x.shape[1:]))
        game = local_models.simulate_local_models(pool, task.trainer(columns), task.sizes, rng)
        for attack, settings in ATTACKS:
            estimates = measure_attack(game, attack, settings, seed)
            figures.setdefault(label_attack(attack, settings), []).append(
                [e.value for e in estimates]
            )
    view, truth = game.challenge.view, game.challenge.truth
    own = view.collusion.records
    print(
        f"{name}: {seed + 1} federations of {len(task.sizes)} clients, {len(own)} candidates; "
        f"chance {assignment.chance_accuracy(view.collusion, len(task.sizes)):.3f}, "
        f"best constant answer {assignment.best_constant(truth, own).value:.3f}"
    )
    print(f"{'':24}{'accuracy (95 % of the mean)':34}{'recall':>8}{'specificity':>13}")
    for label, rows in figures.items():
        accuracy, recall, specificity = np.mean(rows, axis=0)
        low, high = intervals.student_mean([row[0] for row in rows])
        shown = f"{accuracy:.3f} ({low:.3f} to {high:.3f})"
        print(f"{label:24}{shown:34}{recall:8.3f}{specificity:13.3f}")


def aucs(view: FederationView, truth: Assignment, score: np.ndarray) -> Iterator[float]:
    """For each client under attack, its candidates against those of nobody and of others."""
    unknown = ~view.collusion.records
    for k in range(score.shape[1]):
        if k != view.collusion.client:
            yield membership.auc(score[unknown, k], truth.client[unknown] == k).value


def label_attack(name: str, settings: dict[str, str]) -> str:
    """An attack with its protocol."""
    return " ".join((name, *settings.values()))


def measure_attack(
    game: local_models.AssignmentGame, name: str, settings: dict[str, str], seed: int
) -> list[Estimate]:
    """Accuracy, recall of members, specificity of outsiders."""
    attack = catalog.federation_attack(name, **settings)
    guess = attack(game.challenge.view, stream(seed, "attack", name))
    metrics = (assignment.accuracy, assignment.recall, assignment.specificity)
    return [metric(guess, game.challenge.truth) for metric in metrics]
