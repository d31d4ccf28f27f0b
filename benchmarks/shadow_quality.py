"""How well each attack does with how many shadows: real data, eight targets, and the null."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from benchmarks import data
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import (
    Estimate,
    Membership,
    MembershipAttack,
    ModelView,
    Need,
    Records,
    Shadows,
    Target,
)
from divulge.errors import NotApplicable
from divulge.metrics import membership, signals

if TYPE_CHECKING:
    from torch import nn

    from divulge.training.recipe import Recipe

SUMMARY = "what attacks find with 1 to 64 shadows, eight targets"

TARGETS = 8
SHADOWS = (1, 2, 4, 16, 64)
METRICS = ("AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")


class Task(NamedTuple):
    """Records, and how a model of them is trained."""

    name: str
    records: Callable[[], Records]
    recipe: "Callable[[], Recipe]"
    pool: int
    """Records, of which each model is trained on a random half."""


class World(NamedTuple):
    """Trained models and their predictions."""

    pool: Records
    reference: Records
    targets: Sequence[Target]
    learned: Bool[np.ndarray, "targets records"]
    """Mask of the records that each target was trained on."""
    shadows: Shadows
    nulls: Sequence[Target]
    """Targets trained on other records."""


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (the flag of the command line)
    """Print one table a data set.

    Raises:
        MissingData: the data is not at hand.
    """
    task = TASKS[name]
    world = _train(task, 8 if quick else max(SHADOWS), 2 if quick else TARGETS, quick=quick)
    print(environment(("divulge", "torch", "scikit-learn")))
    accuracies = [
        [_accuracy(target, world.pool.take(half)) for half in (learned, ~learned)]
        for target, learned in zip(world.targets, world.learned, strict=True)
    ]
    trained, tested = (_across(side) for side in zip(*accuracies, strict=True))
    print(
        f"{task.name}: {len(world.targets)} targets, each on a random half of {len(world.pool):,} "
        f"records; accuracy {trained} on these, {tested} on the other half; "
        f"{len(world.reference):,} reference records; mean over targets [95 % t-interval]\n"
    )
    print("| attack | shadows | " + " | ".join(METRICS) + " | null: AUC intervals over .5 |")
    print("|---|---:|---|---|---|---|")
    for attack in _attacks():
        needs_shadows = Need.SHADOWS in attack.needs
        for count in SHADOWS if needs_shadows else (0,):
            if count <= world.shadows.phi.shape[1]:
                print(_row(world, attack, count), flush=True)


def _row(world: World, attack: MembershipAttack, count: int) -> str:
    view = _view(world, count)
    try:
        rows = [
            _metrics(attack, replace(view, target=target), learned, k)
            for k, (target, learned) in enumerate(zip(world.targets, world.learned, strict=True))
        ]
    except NotApplicable:
        return f"| {attack.name} | {count} | not applicable | | | |"
    cells = [_across([row[metric] for row in rows]) for metric in METRICS]
    covered = [
        0.5 in _auc(attack, replace(view, target=target), learned, k)
        for k, (target, learned) in enumerate(zip(world.nulls, world.learned, strict=True))
    ]
    return f"| {attack.name} | {count} | " + " | ".join(
        [*cells, f"{sum(covered)} of {len(covered)} |"]
    )


def _view(world: World, count: int) -> ModelView:
    shadows = world.shadows
    some = Shadows(
        shadows.phi[:, :count], shadows.member[:, :count], shadows.reference_phi[:, :count]
    )
    return ModelView(world.targets[0], world.pool, world.reference, some if count else None)


def _auc(
    attack: MembershipAttack, view: ModelView, learned: Bool[np.ndarray, " records"], k: int
) -> Estimate:
    guess = attack(view, stream(k, "attack", attack.name))
    return membership.auc(guess.score, Membership(learned).member)


def _metrics(
    attack: MembershipAttack, view: ModelView, learned: Bool[np.ndarray, " records"], k: int
) -> Mapping[str, float]:
    guess = attack(view, stream(k, "attack", attack.name))
    rates = [membership.tpr_at_fpr(guess.score, learned, fpr).value for fpr in (0.01, 0.001)]
    return dict(zip(METRICS, [membership.auc(guess.score, learned).value, *rates], strict=True))


def _across(values: Sequence[float]) -> str:
    """Mean over targets, with an interval for the mean over all such targets."""
    mean = float(np.mean(values))
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{mean:.3f} [{max(0.0, mean - half):.3f}, {min(1.0, mean + half):.3f}]"


def _attacks() -> tuple[MembershipAttack, ...]:
    return (
        catalog.attack("threshold", signal="loss"),
        *(catalog.attack(name) for name in catalog.SHADOW_ATTACKS),
    )


def _train(task: Task, shadows: int, targets: int, *, quick: bool) -> World:
    from divulge.training.fleet import Fleet

    records, recipe = task.records(), task.recipe()
    size = max(2_400, task.pool // 4) if quick else task.pool
    order = np.random.default_rng(0).permutation(len(records))
    reference = min(size // 2, (len(records) - size) // 2)
    pool, ours, other = (
        records.take(part) for part in np.split(order, [size, size + reference])[:3]
    )
    other = other.take(np.arange(min(len(other), size)))
    fleet = Fleet(replace(recipe, epochs=max(1, recipe.epochs // 4)) if quick else recipe)
    halves = np.stack([stream(0, "half", k).random(size) < 0.5 for k in range(targets + shadows)])
    models = fleet.many(pool, halves, range(len(halves)))
    played = [model for _, model in zip(range(targets), models, strict=False)]
    phi, reference_phi = _phi(models, pool, ours)
    elsewhere = np.random.default_rng(1).random((targets, len(other))) < size / 2 / len(other)
    nulls = list(fleet.many(other, elsewhere, range(1000, 1000 + targets)))
    shown = Shadows(phi, halves[targets:].T, reference_phi)
    return World(pool, ours, played, halves[:targets], shown, nulls)


def _phi(models: Iterator[Target], *groups: Records) -> list[Float[np.ndarray, "_ models"]]:
    columns = [
        [
            signals.compute_signal("scaled_logit", model.predict(group.x), group.y)
            for group in groups
        ]
        for model in models
    ]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def _accuracy(target: Target, records: Records) -> float:
    return float((target.predict(records.x).argmax(axis=1) == records.y).mean())


def _perceptron(*sizes: int) -> "nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _small_images() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(32 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *head)


def _colour_images() -> "nn.Module":
    from torch import nn

    first = [nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU()]
    second = [nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()]
    third = [nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU()]
    head = [nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*first, *second, *third, *head)


def _recipe(network: "Callable[[], nn.Module]", epochs: int, lr: float, batch: int) -> "Recipe":
    from divulge.training.recipe import Recipe

    return Recipe(network, lr=lr, momentum=0.9, epochs=epochs, batch_size=batch, schedule="cosine")


TASKS = {
    task.name: task
    for task in (
        Task(
            "location-30",
            data.location_30,
            partial(_recipe, partial(_perceptron, 446, 128, 30), 30, 0.1, 64),
            3_000,
        ),
        Task(
            "retail-100",
            data.retail_100,
            partial(_recipe, partial(_perceptron, 600, 256, 100), 20, 0.1, 100),
            20_000,
        ),
        Task(
            "fashion-mnist",
            data.fashion_mnist,
            partial(_recipe, _small_images, 25, 0.05, 64),
            6_000,
        ),
        Task("cifar-10", data.cifar_10, partial(_recipe, _colour_images, 20, 0.05, 64), 8_000),
    )
}
