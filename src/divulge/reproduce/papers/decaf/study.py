"""Decaf against federations whose users hold the mixes of the paper's tables."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.audits import attempt
from divulge.core import Proportions, Records, Round, UpdateView
from divulge.errors import NotApplicable
from divulge.federation import Federation, exact
from divulge.metrics import composition
from divulge.reproduce.data import Name, images
from divulge.reproduce.papers.decaf.networks import Kind, Network
from divulge.reproduce.papers.decaf.tables import COLUMNS, RATES, ROUNDS, TEN
from divulge.reproduce.table import Size
from divulge.targets.torch import TorchTarget
from divulge.training.engine.networks import loaded
from divulge.training.recipe import Recipe

ACCURACY = "accuracy of the model"
_TESTED = 1000
"""Images that a model's accuracy is measured on."""
_SIDES: Mapping[str, int] = {"cifar10": 16, "fer2013": 16}
"""Of small images; the others have 14 pixels."""
_MODULES: Mapping[str, int] = {"cifar10": 3, "ham10000": 3, "fer2013": 4}
_MOST = 600
"""Records of a user at size small."""
_TRAINED = 10
"""Rounds after which a model's accuracy is measured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a federation depends on."""

    seed: int
    size: Size
    users: tuple[tuple[float, ...], ...] = TEN
    """For each the parts of its classes, in any unit."""
    data: Name = "mnist"
    records: int = 1200
    """Of each user, but for size small."""
    optimiser: str = "adadelta"
    auxiliary: int = 100
    """Records of each class that the attacker owns, where so many are left."""
    network: Kind = "plain"
    width: int | None = None
    """Inputs of the last layer, unless as usual."""
    dropout: float = 0.0
    noise: float | None = None
    """Of DP-SGD, in multiples of the clipping norm."""

    @property
    def counts(self) -> Int[np.ndarray, "users classes"]:
        """Records of each class that each user holds."""
        parts = np.array(self.users, np.float64)
        many = min(self.records, _MOST) if self.size == "small" else self.records
        counts: np.ndarray = np.rint(parts / parts.sum(axis=1, keepdims=True) * many)
        return counts.astype(np.int64)


class _Played:
    """A federation that goes on as far as it is asked for."""

    def __init__(self, setting: Setting) -> None:
        pool = _images(setting.data, setting.size)
        clients = exact(pool, setting.counts, setting.seed)
        left = np.setdiff1d(np.arange(len(pool)), np.concatenate(clients))
        rng = stream(setting.seed, "auxiliary records")
        classes = range(setting.counts.shape[1])
        own = [rng.permutation(left[pool.y[left] == k])[: setting.auxiliary] for k in classes]
        rest = rng.permutation(np.setdiff1d(left, np.concatenate(own)))[:_TESTED]
        self.reference, self.test = pool.take(np.sort(np.concatenate(own))), pool.take(rest)
        self.network = _network(setting, pool.x.shape[1:], len(classes))
        recipe = _recipe(setting, self.network)
        trainer = None if setting.noise is None else _private(recipe, setting.noise)
        federation = Federation(
            pool, clients, recipe, trainer=trainer, seed=setting.seed, workers=1
        )
        self._coming = federation.rounds()
        self._rounds: list[Round] = []

    def round(self, number: int) -> Round:
        """From 0."""
        while len(self._rounds) <= number:
            self._rounds.append(next(self._coming))
        return self._rounds[number]


def measured(
    seed: int,
    size: Size,
    *,
    attack: Mapping[str, Any],
    number: int | None = None,
    **federation: Any,
) -> dict[str, list[float]]:
    """Distances of the guesses about each user, by one round's updates.

    Args:
        seed: of everything.
        size: of images and network.
        attack: its name and settings.
        number: of the round that is attacked, from 0; as `ROUNDS` has it unless given.
        federation: see `Setting`.
    """
    how = dict(attack)
    built = catalog.update_attack(how.pop("name"), **how)
    setting = _setting(seed, size, federation)
    played = _played(setting)
    seen = (played.round(ROUNDS[size] if number is None else number),)
    users = range(len(setting.users))
    views = [UpdateView(str(k), seen, played.network, played.reference) for k in users]
    truths = [Proportions.of(row) for row in setting.counts]
    finding, guesses = attempt.run_on_clients(
        views, functools.partial(composition.measure, truths=truths), built, seed
    )
    if guesses is None:
        raise NotApplicable(finding.reason)
    pairs = list(zip(guesses, truths, strict=True))
    each = [composition.distance(guess, truth) for guess, truth in pairs]
    right = [float((guess.null == truth.null).mean()) for guess, truth in pairs]
    names = ("l1", "l2", "linf")
    found = {column: [one[n] for one in each] for column, n in zip(COLUMNS, names, strict=False)}
    return found | {COLUMNS[3]: right}


def defended(
    seed: int, size: Size, *, attack: Mapping[str, Any], **federation: Any
) -> dict[str, list[float]]:
    """As `measured`, and which of some images the global model classifies right some rounds later.

    Args:
        seed: see `measured`, as all others.
        size: as there.
        attack: as there.
        federation: as there.
    """
    found = measured(seed, size, attack=attack, **federation)
    played = _played(_setting(seed, size, federation))
    state = played.round(_TRAINED - 1).aggregated
    assert state is not None
    answers = TorchTarget(loaded(played.network, state), "logits").predict(played.test.x)
    hits = answers.argmax(axis=1) == played.test.y
    return found | {ACCURACY: hits.astype(np.float64).tolist()}


def _setting(seed: int, size: Size, federation: Mapping[str, Any]) -> Setting:
    users = tuple(tuple(map(float, user)) for user in federation.get("users", TEN))
    return Setting(seed, size, **dict(federation) | {"users": users})


@functools.lru_cache(maxsize=2)
def _played(setting: Setting) -> _Played:
    return _Played(setting)


@functools.lru_cache(maxsize=1)
def _images(name: Name, size: Size) -> Records:
    return images(name, _SIDES.get(name, 14) if size == "small" else None)


def _network(setting: Setting, shape: Sequence[int], classes: int) -> Network:
    small = setting.size == "small"
    return Network(
        tuple(shape),
        classes,
        setting.network,
        modules=0 if small else _MODULES.get(setting.data, 0),
        part={"small": 16, "medium": 4, "full": 1}[setting.size],
        small=small,
        width=setting.width,
        dropout=setting.dropout,
    )


def _recipe(setting: Setting, network: Network) -> Recipe:
    rate = RATES[setting.optimiser]
    return Recipe(network, setting.optimiser, lr=rate, epochs=1, batch_size=64)  # type: ignore[arg-type]


def _private(recipe: Recipe, noise: float) -> Any:
    from divulge.defences.training.dp_sgd.trainer import DPSGD

    return DPSGD(recipe, 1e-5, noise_multiplier=noise, jobs=1)
