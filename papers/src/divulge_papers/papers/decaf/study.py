"""Measure Decaf on federations whose users have the class mixes of the paper's tables."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from divulge._util import toml
from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.core import CompositionFacts, Records, Round, UpdateView
from divulge.federation import Federation, exact
from divulge.metrics import composition
from divulge.secrets.base import FederationChallenge
from divulge.secrets.composition import CompositionSecret
from divulge.targets.torch import TorchTarget
from divulge.training.engine.networks import load_network
from divulge.training.recipe import Recipe
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.data import ImageSetName, load_images
from divulge_papers.papers.decaf.networks import DecafNetwork, NetworkKind
from divulge_papers.papers.decaf.tables import ACCURACY, COLUMNS, RATE, ROUNDS, TEN_USERS
from divulge_papers.table import Size

_TEST_IMAGES = 1000
"""Number of images that a model's accuracy is measured on."""
_SIDES: Mapping[str, int] = {"cifar10": 16, "fer2013": 16}
"""Number of pixels of a side at size small; data sets not named have 14."""
_MODULES: Mapping[str, int] = {"cifar10": 3, "ham10000": 3, "fer2013": 4}
_ACCURACY_ROUNDS = 10
"""Number of rounds after which a model's accuracy is measured."""


@dataclass(frozen=True, slots=True)
class FederationSetting:
    """Settings of a federation: everything that it depends on."""

    seed: int
    size: Size
    users: tuple[tuple[float, ...], ...] = TEN_USERS
    """Class mix of each user, in any unit."""
    data: ImageSetName = "mnist"
    records: int = 1200
    """Number of records of each user."""
    small_records: int = 600
    """Largest number of records of a user at size small."""
    optimiser: str = "adadelta"
    rate: float = RATE
    auxiliary: int = 100
    """Number of records of each class that the attacker owns, where so many are left."""
    network: NetworkKind = "plain"
    width: int | None = None
    """Number of inputs of the last layer; None takes the usual one."""
    dropout: float = 0.0
    noise: float | None = None
    """Noise of DP-SGD in multiples of the clipping norm; None trains without privacy."""
    leaky: bool = False
    """Whether activations are LeakyReLU instead of ReLU."""

    @property
    def counts(self) -> Int[np.ndarray, "users classes"]:
        """Number of records of each class of each user."""
        parts = np.array(self.users, np.float64)
        small = self.size == "small"
        many = min(self.records, self.small_records) if small else self.records
        counts: np.ndarray = np.rint(parts / parts.sum(axis=1, keepdims=True) * many)
        return counts.astype(np.int64)


class LazyFederation:
    """A federation whose rounds are simulated when they are first needed.

    Args:
        setting: all that it depends on.
    """

    def __init__(self, setting: FederationSetting) -> None:
        pool = _load_images(setting.data, setting.size)
        self.pool, self.clients = pool, exact(pool, setting.counts, setting.seed)
        clients = self.clients
        left = np.setdiff1d(np.arange(len(pool)), np.concatenate(clients))
        rng = stream(setting.seed, "auxiliary records")
        classes = range(setting.counts.shape[1])
        own = [rng.permutation(left[pool.y[left] == k])[: setting.auxiliary] for k in classes]
        rest = rng.permutation(np.setdiff1d(left, np.concatenate(own)))[:_TEST_IMAGES]
        self.reference, self.test = pool.take(np.sort(np.concatenate(own))), pool.take(rest)
        self.network = _network(setting, pool.x.shape[1:], len(classes))
        recipe = _recipe(setting, self.network)
        trainer = None if setting.noise is None else _private_trainer(recipe, setting.noise)
        federation = Federation(
            pool, clients, recipe, trainer=trainer, seed=setting.seed, workers=1
        )
        self._coming = federation.rounds()
        self._rounds: list[Round] = []

    def round(self, number: int) -> Round:
        """Round of this number, counted from 0."""
        while len(self._rounds) <= number:
            self._rounds.append(next(self._coming))
        return self._rounds[number]

    def hits(self, number: int) -> list[float]:
        """1 for each test image that the model classifies right after this round, 0 for others."""
        state = self.round(number).aggregated
        assert state is not None
        answers = TorchTarget(load_network(self.network, state), "logits").predict(self.test.x)
        hits: list[float] = (answers.argmax(axis=1) == self.test.y).astype(np.float64).tolist()
        return hits


def measure_distances(
    seed: int,
    size: Size,
    *,
    attack: Settings,
    number: int | None = None,
    rounds: int = 1,
    **federation: Any,
) -> RowResult:
    """Measure the distances between guessed and true class shares of each user.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        attack: name and settings of the attack.
        number: number of the first attacked round, from 0; that of `ROUNDS` unless given.
        rounds: number of attacked rounds.
        federation: settings of the federation; see `FederationSetting`.
    """
    (built,) = toml.build_attacks([attack], catalog.update_attack)
    setting = read_setting(seed, size, federation)
    played = find_federation(setting)
    first = ROUNDS[size] if number is None else number
    attacked_rounds = tuple(played.round(k) for k in range(first, first + rounds))
    users = tuple(map(str, range(len(setting.users))))
    views = tuple(UpdateView(k, attacked_rounds, played.network, played.reference) for k in users)
    counts = tuple(tuple(row) for row in setting.counts.tolist())
    facts = CompositionFacts(setting.data, users, counts, ())
    challenge = FederationChallenge(views, CompositionSecret(facts))
    guesses, entry = attempt(challenge, built, seed)
    assert facts.truth is not None  # the counts are there
    pairs = list(zip(guesses, facts.truth, strict=True))
    each = [composition.distance(guess, truth) for guess, truth in pairs]
    right = [float((guess.null == truth.null).mean()) for guess, truth in pairs]
    names = ("l1", "l2", "linf")
    values = {
        column: [distances[n] for distances in each]
        for column, n in zip(COLUMNS, names, strict=False)
    }
    return RowResult(values | {COLUMNS[3]: right}, [entry])


def measure_with_accuracy(
    seed: int, size: Size, *, attack: Settings, **federation: Any
) -> RowResult:
    """Measure as `measure_distances`, and the accuracy of the global model some rounds later.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        attack: name and settings of the attack.
        federation: settings of the federation; see `FederationSetting`.
    """
    distances = measure_distances(seed, size, attack=attack, **federation)
    hits = find_federation(read_setting(seed, size, federation)).hits(_ACCURACY_ROUNDS - 1)
    return distances._replace(values={**distances.values, ACCURACY: hits})


def read_setting(seed: int, size: Size, federation: Mapping[str, Any]) -> FederationSetting:
    """Read settings of a federation as a row has them.

    Args:
        seed: seed of every random choice.
        size: size of images and network.
        federation: fields of `FederationSetting`; ``users`` may be ``dirichlet`` (a
            concentration), ``classes`` and ``users`` (their numbers) instead of mixes.
    """
    settings = dict(federation)
    mixes = settings.pop("users", TEN_USERS)
    if isinstance(mixes, Mapping):  # mixes drawn once, the same in every seed
        rng = stream(0, "fresh mixes")
        mixes = rng.dirichlet([mixes["dirichlet"]] * mixes["classes"], mixes["users"]).tolist()
    users = tuple(tuple(map(float, user)) for user in mixes)
    return FederationSetting(seed, size, users, **settings)


@functools.lru_cache(maxsize=2)
def find_federation(setting: FederationSetting) -> LazyFederation:
    """Find the federation of these settings; the last two are kept."""
    return LazyFederation(setting)


@functools.lru_cache(maxsize=1)
def _load_images(name: ImageSetName, size: Size) -> Records:
    return load_images(name, _SIDES.get(name, 14) if size == "small" else None)


def _network(setting: FederationSetting, shape: Sequence[int], classes: int) -> DecafNetwork:
    small = setting.size == "small"
    return DecafNetwork(
        tuple(shape),
        classes,
        setting.network,
        modules=0 if small else _MODULES.get(setting.data, 0),
        part={"small": 16, "paper": 1}[setting.size],
        small=small,
        width=setting.width,
        dropout=setting.dropout,
        leaky=setting.leaky,
    )


def _recipe(setting: FederationSetting, network: DecafNetwork) -> Recipe:
    optimiser: Any = setting.optimiser
    return Recipe(network, optimiser, lr=setting.rate, epochs=1, batch_size=64)


def _private_trainer(recipe: Recipe, noise: float) -> Any:
    from divulge.defences.training.dp_sgd.trainer import DPSGD

    return DPSGD(recipe, 1e-5, noise_multiplier=noise, jobs=1)
