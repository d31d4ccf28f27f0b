"""Measure what Decaf's figures show of gradients, and what its steps cost."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.attacks.composition.decaf.attack import Decaf
from divulge.attacks.composition.decaf.published import ClassBases, decompose
from divulge.attacks.shared.observed_round import ObservedRound, null_classes
from divulge.core import UpdateView
from divulge.federation import server
from divulge.training.engine.client_training import ClientWorkers
from divulge_papers.attempts import RowResult
from divulge_papers.papers.decaf.study import LazyFederation, find_federation, read_setting
from divulge_papers.papers.decaf.tables import ATTACKED, OTHERS, ROUNDS, SECONDS, THERE, UNATTACKED
from divulge_papers.table import Size

_TRAININGS = 10
"""Number of trainings on some classes alone."""


def measure_accuracy(
    seed: int, size: Size, *, attack: Settings, number: int, **federation: Any
) -> RowResult:
    """Measure the model's accuracy after a round, with and without an attack after every round.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        attack: settings of Decaf.
        number: number of the last round, from 0.
        federation: settings of the federation; see `FederationSetting`.
    """
    setting = read_setting(seed, size, federation)
    attacked = LazyFederation(setting)
    attack_settings = {name: value for name, value in attack.items() if name != "name"}
    for k in range(number + 1):
        Decaf(**attack_settings).many(_views(attacked, k), stream(seed, "attack"))  # type: ignore[arg-type]
    hits = {UNATTACKED: find_federation(setting).hits(number), ATTACKED: attacked.hits(number)}
    return RowResult(hits)


def measure_seconds(seed: int, size: Size, *, task: str, **federation: Any) -> RowResult:
    """Measure the CPU seconds of a task, one value a user.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        task: ``aggregation``, ``training``, ``null``, ``bases``, ``descent``, ``nnls``, or
            ``refined``, whose seconds are shared out among all users.
        federation: settings of the federation; see `FederationSetting`.
    """
    played = find_federation(read_setting(seed, size, federation))
    views = _views(played, ROUNDS[size])
    (attacked_round,) = views[0].rounds
    stage = ObservedRound.of(attacked_round, views[0])

    def train(k: int) -> object:
        workers = ClientWorkers(stage.recipe, played.pool, 1)
        return workers.states(attacked_round.sent, [played.clients[k]], [k])

    def bases(k: int) -> Float64[np.ndarray, "bases classes inputs"]:
        there = np.flatnonzero(~null_classes(stage.observe_client(views[k].victim).weight))
        fresh = ClassBases(stage, seed)
        alone = [fresh.of(stage.reference.y == c, int(c)) for c in there]
        return np.array([*alone, fresh.of(np.isin(stage.reference.y, there), *there.tolist())])

    def decomposition(k: int, solver: Any) -> object:
        return decompose(changes[k], known[k], solver)

    changes = [stage.observe_client(view.victim).weight for view in views]
    known = [bases(k) for k in range(len(views))] if task in ("descent", "nnls") else []
    tasks: dict[str, Callable[[int], object]] = {
        "aggregation": lambda _: server.average(attacked_round.received.values()),
        "training": train,
        "null": lambda k: null_classes(changes[k]),
        "bases": bases,
        "descent": lambda k: decomposition(k, "descent"),
        "nnls": lambda k: decomposition(k, "nnls"),
    }
    if task == "refined":
        together = _seconds(lambda: Decaf(level="refined").many(views, stream(seed, "attack")))
        return RowResult({SECONDS: [together / len(views)] * len(views)})
    each = [_seconds(lambda k=k: tasks[task](k)) for k in range(len(views))]  # type: ignore[misc]
    return RowResult({SECONDS: each})


def measure_signs(
    seed: int,
    size: Size,
    *,
    classes: int = 1,
    layer: str = "last",
    threshold: float = 0.0,
    **federation: Any,
) -> RowResult:
    """Measure the share of weights of each class that grow in trainings on some classes alone.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        classes: number of classes of a training, on the attacker's records of them.
        layer: ``last``, or ``convolution`` for the last of these, whose weights are cut into as
            many blocks as there are classes.
        threshold: weights that change by no more, in units of the learning rate, do not count.
        federation: settings of the federation; see `FederationSetting`.
    """
    played = find_federation(read_setting(seed, size, federation))
    (view, *_) = _views(played, ROUNDS[size])
    stage = ObservedRound.of(view.rounds[0], view)
    sets = list(itertools.combinations(range(stage.classes), classes))
    chosen = stream(seed, "classes").permutation(len(sets))[:_TRAININGS]
    rows = [np.flatnonzero(np.isin(stage.reference.y, sets[k])) for k in chosen]
    convolutions = [name for name, a in stage.round.sent.items() if a.ndim == 4]
    name = stage.layer.weight if layer == "last" else convolutions[-1]
    values: dict[str, list[float]] = {THERE: [], OTHERS: []}
    client_workers = ClientWorkers(stage.recipe, stage.reference, 1)
    changes = stage.train_on(client_workers, rows, range(len(rows)))
    for k, change in zip(chosen, changes, strict=True):
        grew = change[name].ravel() / stage.recipe.lr > threshold
        shares = np.array([part.mean() for part in np.array_split(grew, stage.classes)])
        there = np.isin(np.arange(stage.classes), sets[k])
        values[THERE].append(float(shares[there].mean()))
        values[OTHERS].append(float(shares[~there].mean()))
    return RowResult(values)


def _views(played: LazyFederation, number: int) -> list[UpdateView]:
    rounds = (played.round(number),)
    users = range(len(played.clients))
    return [UpdateView(str(k), rounds, played.network, played.reference) for k in users]


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
