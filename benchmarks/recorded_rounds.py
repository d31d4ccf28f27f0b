"""Quality: which client of a federation on images trained on a record, by recorded rounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from torch import nn

from benchmarks import data
from benchmarks.networks import dense
from benchmarks.which_client import draw_records
from divulge._util.digest import digest
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import Assignment, Collusion, Records, RoundSignals
from divulge.core.rounds import RecordedUpdates
from divulge.federation import local_models
from divulge.metrics import assignment, intervals, membership
from divulge.training.recipe import Recipe

SUMMARY = "which client trained on an image, from the updates of ten rounds"

LAST = {"others": False, "rounds": "last"}

ATTACKS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "nobody": ("nobody", {}),
    "variance-lira, last models": ("variance-lira", {}),
    "cluster-lira, last models": ("cluster-lira", {}),
    "sia, last models": ("sia", {}),
    "Blackbox-Loss": ("fedmia", {"measurement": "loss", **LAST}),
    "Loss-Series": ("fedmia", {"measurement": "loss", "others": False}),
    "Grad-Cosine": ("fedmia", LAST),
    "Avg-Cosine": ("fedmia", {"others": False}),
    "Grad-Diff": ("fedmia", {"measurement": "difference", **LAST}),
    "Grad-Norm": ("fedmia", {"measurement": "norm", **LAST}),
    "FedMIA-I": ("fedmia", {"measurement": "loss"}),
    "FedMIA-II": ("fedmia", {}),
}

PAIRED = (("FedMIA-II", "Avg-Cosine"), ("FedMIA-I", "Loss-Series"))


@dataclass
class AskedOnce:
    """Updates that answer the same question twice without being asked again."""

    updates: RecordedUpdates
    answers: dict[str, tuple[RoundSignals, ...]] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients."""
        return self.updates.clients

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """What each round says about these records."""
        key = digest("", records.x, records.y)
        if key not in self.answers:
            self.answers[key] = self.updates.signals(records)
        return self.answers[key]

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """What no update of each round spans."""
        return self.updates.residuals(records, layer)


class Images(NamedTuple):
    """Images, and the network that clients train on them."""

    load: Callable[[], Records]
    network: Callable[[], nn.Module]


def convolutions() -> nn.Module:
    """Two convolutions on colour images of 32 pixels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 8 * 8, 10),
    )  # fmt: skip


TASKS = {
    "fashion-mnist": Images(data.fashion_mnist, partial(dense, 784, 64, 10)),
    "cifar-10": Images(data.cifar_10, convolutions),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over five federations of four clients, with Student's intervals.

    Raises:
        MissingData: the images are not there.
    """
    images = TASKS[name]
    recipe = Recipe(images.network, "sgd", lr=0.1, epochs=5, batch_size=20)
    rows_by_label: dict[str, list[tuple[float, ...]]] = {label: [] for label in ATTACKS}
    for seed in range(2 if quick else 5):
        rng = stream(seed, "recorded rounds", name)
        pool = draw_records(images.load, 2000, rng)
        sizes, rounds = (200, 200, 200, 120), 2 if quick else 10
        game = local_models.simulate_federated_models(pool, recipe, sizes, rounds, rng).challenge
        known = game.view.collusion
        assert game.view.updates is not None
        view = replace(game.view, updates=AskedOnce(game.view.updates))
        for label, (attack, settings) in ATTACKS.items():
            built = catalog.federation_attack(attack, **settings)
            guess = built(view, stream(seed, "attack", label))
            rows_by_label[label].append(figures_of(guess, game.truth, known))
    print(
        f"{name}: {seed + 1} federations, {rounds} rounds, {len(known.records)} candidates; best "
        f"constant answer {assignment.best_constant(game.truth, known.records).value:.3f}"
    )
    print("| attack | named | accuracy | AUC | TPR at 1 % |\n| --- | --- | --- | --- | --- |")
    for label, rows in rows_by_label.items():
        print(f"| {label} | {' | '.join(map(mean_with_interval, zip(*rows, strict=True)))} |")
    for first, second in PAIRED:
        apart = [
            a[2] - b[2] for a, b in zip(rows_by_label[first], rows_by_label[second], strict=True)
        ]
        print(f"AUC of {first} less {second}: {mean_with_interval(apart)}")


def mean_with_interval(figures: Any) -> str:
    """The mean over replications, with Student's 95 % interval."""
    low, high = intervals.student_mean(list(figures))
    return f"{np.mean(figures):.3f} ({low:.3f} to {high:.3f})"


def figures_of(guess: Assignment, truth: Assignment, known: Collusion) -> tuple[float, ...]:
    """Share of members whose client has the highest score; accuracy; AUC and TPR over pairs."""
    nothing = np.zeros((len(truth.client), known.colluder + 1))
    score = nothing if guess.score is None else guess.score
    hidden = ~known.records & (truth.client >= 0)
    shown, owner = score[hidden][:, : known.colluder], truth.client[hidden]
    best = shown == shown.max(axis=1, keepdims=True)
    named = (best / best.sum(axis=1, keepdims=True))[np.arange(len(owner)), owner].mean()
    scored = assignment.pairs(Assignment(guess.client, score), truth, known)
    return (
        float(named),
        assignment.accuracy(guess, truth).value,
        membership.auc(*scored).value,
        membership.tpr_at_fpr(*scored, 0.01).value,
    )
