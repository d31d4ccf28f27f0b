"""Quality: what the span of a client's update says of its records, beside other attacks."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.networks import dense
from benchmarks.recorded_rounds import figures_of, mean_with_interval
from benchmarks.which_client import draw_records
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import Records
from divulge.defences.updates.local_dp import LocalNoise
from divulge.federation import local_models
from divulge.training.recipe import Recipe

SUMMARY = "projres beside fedmia and sia, under local steps, clipping and noise"

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "projres": ("projres", {}),
    "Avg-Cosine": ("fedmia", {"others": False}),
    "FedMIA-II": ("fedmia", {}),
    "sia": ("sia", {}),
}

POOLS: dict[str, tuple[Callable[[], Records], int, int]] = {
    "location-30": (data.location_30, 446, 30),
    "fashion-mnist": (data.fashion_mnist, 784, 10),
}


class Setting(NamedTuple):
    """One way to run the federation."""

    rounds: int = 1
    epochs: int = 1
    size: int = 60
    """Records of a client."""
    hidden: int = 128
    epsilon: float | None = None
    """Of one message, at δ = 1e-5 and norms of 1; None sends updates as they are."""


SETTINGS: dict[str, Setting] = {
    "1 round, 1 epoch, 60 records": Setting(),
    "1 round, 5 epochs, 60 records": Setting(epochs=5),
    "10 rounds, 5 epochs, 60 records": Setting(rounds=10, epochs=5),
    "1 round, 5 epochs, 200 records": Setting(epochs=5, size=200),
    "10 rounds, 5 epochs, 200 records": Setting(rounds=10, epochs=5, size=200),
    "1 round, 5 epochs, 60 records, 16 hidden units": Setting(epochs=5, hidden=16),
    "the second, clipped, ε = 1e7": Setting(epochs=5, epsilon=1e7),
    "the second, clipped, ε = 1e5": Setting(epochs=5, epsilon=1e5),
    "the second, clipped, ε = 1e4": Setting(epochs=5, epsilon=1e4),
}


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over federations of four clients, with Student's intervals.

    Raises:
        MissingData: the data is not there.
    """
    print("| federation | attack | named | accuracy | AUC | TPR at 1 % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label, setting in SETTINGS.items():
        rows_by_attack: dict[str, list[tuple[float, ...]]] = {attack: [] for attack in ATTACKS}
        for seed in range(2 if quick else 3):
            for attack, row in _measure(name, setting, seed):
                rows_by_attack[attack].append(row)
        for attack, rows in rows_by_attack.items():
            cells = " | ".join(map(mean_with_interval, zip(*rows, strict=True)))
            print(f"| {label} | {attack} | {cells} |", flush=True)


def _measure(name: str, setting: Setting, seed: int) -> list[tuple[str, tuple[float, ...]]]:
    load, columns, classes = POOLS[name]
    rng = stream(seed, "projected updates", name)
    pool = draw_records(load, 2000, rng)
    recipe = Recipe(
        partial(dense, columns, setting.hidden, classes),
        "sgd",
        lr=0.1,
        epochs=setting.epochs,
        batch_size=20,
    )
    noise = None if setting.epsilon is None else LocalNoise(setting.epsilon, 1e-5, 1.0)
    game = local_models.simulate_federated_models(
        pool, recipe, (setting.size,) * 4, setting.rounds, rng, defence=noise
    ).challenge
    rows = []
    for label, (attack, settings) in ATTACKS.items():
        built = catalog.federation_attack(attack, **settings)
        guess = built(game.view, np.random.default_rng(0))
        rows.append((label, figures_of(guess, game.truth, game.view.collusion)))
    return rows
