"""Decaf on digits: fresh mixes, and clients who defend themselves or state false numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.means import format_mean
from benchmarks.timing import environment
from divulge._util.random import stream
from divulge.attacks import Decaf, LabelCounts
from divulge.core import Proportions, Records, Round, UpdateDefence, UpdateView
from divulge.defences import catalog
from divulge.errors import NotApplicable
from divulge.federation import Federation, exact, simulate
from divulge.metrics import intervals
from divulge.training.recipe import Optimiser, Recipe

SUMMARY = "Decaf on digits: fresh mixes, defences and false numbers of records, three federations"

CLASSES, USERS, SIZE, AUXILIARY, ROUNDS, SEEDS = 10, 6, 80, 20, 3, 3
"""Classes; users; records of each; auxiliary records of a class; rounds, of which the last is
attacked; federations."""

CLIENTS = 40
"""Virtual clients at first, a third of the default, as in Decaf's tables."""

NOISE = 1.0
"""Noise multiplier of DP-SGD, which clips to a norm of 1."""


class Mix(NamedTuple):
    """A distribution of users' mixes."""

    concentration: float
    nulls: tuple[int, int] = (0, 0)
    """Fewest and most classes that a user has none of by design."""


MIX = Mix(0.3)


@dataclass(frozen=True)
class Condition:
    """What users do, and what the attacker is told of it."""

    optimiser: Optimiser = "sgd"
    rate: float = 0.1
    mix: Mix = MIX
    dropout: float = 0.0
    noise: float | None = None
    defence: Mapping[str, Any] = field(default_factory=lambda: {"name": "none"})
    stated: float = 1.0
    """Stated number of records over the true one."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Decaf that say what users do."""


OPTIMISERS: Mapping[str, tuple[Optimiser, float]] = {
    "SGD 0.1": ("sgd", 0.1),
    "Adadelta 1": ("adadelta", 1.0),
    "Adadelta 0.1": ("adadelta", 0.1),
}

MIXES = {
    "concentration 0.1": Mix(0.1),
    "0.3": Mix(0.3),
    "1": Mix(1.0),
    "1, 1 to 3 classes null": Mix(1.0, (1, 3)),
}

FRESH = {
    f"{how}, {mix}": Condition(*OPTIMISERS[how], MIXES[mix]) for how in OPTIMISERS for mix in MIXES
}

_DEFENCES: Mapping[str, Mapping[str, Any]] = {
    "top-k, a tenth": {"name": "top-k", "share": 0.1},
    "signs": {"name": "sign"},
    "local noise, ε = 500": {"name": "local-noise", "epsilon": 500.0, "delta": 1e-5, "clip": 1.0},
    "own last layer": {"name": "own-last-layer"},
}

CONDITIONS = {
    "nothing": Condition(),
    "dropout 0.5": Condition(dropout=0.5),
    "DP-SGD, told": Condition(noise=NOISE, known={"dp_noise": NOISE}),
    "DP-SGD, not told": Condition(noise=NOISE),
    **{
        f"{name}, {'told' if known else 'not told'}": Condition(
            defence=defence, known={"defence": dict(defence)} if known else {}
        )
        for name, defence in _DEFENCES.items()
        for known in (True, False)
    },
    "half of the records stated": Condition(stated=0.5),
    "twice the records stated": Condition(stated=2.0),
}


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print the mean L1 of each attack over users of all federations, and its lead in each."""
    print(environment(("divulge", "torch")))
    for title, conditions in (("fresh mixes", FRESH), ("SGD 0.1, mixes of 0.3", CONDITIONS)):
        print(title)
        half = behind = 0
        for name, condition in list(conditions.items())[: 2 if quick else None]:
            seeds = range(1 if quick else SEEDS)
            off = np.concatenate([_measure(condition, seed) for seed in seeds], axis=1)
            published, decaf, rlu = off[:3]
            print(f"{name:36}" + "".join(f"{_format(each):26}" for each in off), flush=True)
            print(f"{'':36}decaf less published {_format(decaf - published)}", flush=True)
            half += decaf.mean() <= published.mean() / 2
            behind += intervals.student_mean((decaf - rlu).tolist())[0] > 0
        print(f"at most half of the published error: {half}; behind RLU: {behind}", flush=True)


def _format(values: np.ndarray) -> str:
    return "not applicable" if np.isnan(values).any() else format_mean(values.tolist())


def _measure(condition: Condition, seed: int) -> np.ndarray:
    """L1 distance of each user, one row an attack; NaN if it cannot run."""
    views, truth = _federation(condition, seed)
    attacks = (
        Decaf(faithful=True),
        Decaf(clients=CLIENTS, **condition.known),
        LabelCounts("rlu"),
        LabelCounts("uniform"),
    )
    return np.array([_distances(attack, views, truth, seed) for attack in attacks])


def _distances(
    attack: Decaf | LabelCounts,
    views: Sequence[UpdateView],
    truth: Sequence[Proportions],
    seed: int,
) -> list[float]:
    try:
        guesses = attack.many(views, stream(seed, "attack"))
    except NotApplicable:
        return [np.nan] * len(truth)
    pairs = zip(guesses, truth, strict=True)
    return [float(np.abs(guess.share - own.share).sum()) for guess, own in pairs]


def _federation(condition: Condition, seed: int) -> tuple[list[UpdateView], list[Proportions]]:
    rng = stream(seed, "digits")
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    records = Records((x[order] / 16).astype(np.float32), y[order].astype(np.int64))
    own = np.concatenate([np.flatnonzero(records.y == k)[:AUXILIARY] for k in range(CLASSES)])
    reference = records.take(own)
    pool = records.take(np.setdiff1d(np.arange(len(records)), own))
    counts = _counts(np.bincount(pool.y, minlength=CLASSES), condition.mix, rng)
    network = _Network(condition.dropout)
    recipe = Recipe(network, condition.optimiser, lr=condition.rate, epochs=1, batch_size=16)
    federation = Federation(
        pool,
        exact(pool, counts, seed),
        recipe,
        defence=_build_defence(condition),
        trainer=_build_trainer(recipe, condition.noise),
        seed=seed,
        workers=1,
    )
    last = _state(simulate(federation, ROUNDS).rounds[-1], condition.stated)
    views = [UpdateView(str(k), (last,), network, reference) for k in range(USERS)]
    return views, [Proportions.of(row) for row in counts]


@dataclass(frozen=True)
class _Network:
    """Makes a perceptron."""

    dropout: float

    def __call__(self) -> nn.Module:
        dropped = [nn.Dropout(self.dropout)] if self.dropout else []
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), *dropped, nn.Linear(64, CLASSES))


def _build_defence(condition: Condition) -> UpdateDefence:
    settings = dict(condition.defence)
    return catalog.update_defence(settings.pop("name"), **settings)


def _build_trainer(recipe: Recipe, noise: float | None) -> Any:
    from divulge.defences.training.dp_sgd.trainer import DPSGD

    return None if noise is None else DPSGD(recipe, 1e-5, noise_multiplier=noise, jobs=1)


def _state(played: Round, factor: float) -> Round:
    """The round, in which all clients state so many times as many records as they have."""
    received = {
        client: replace(update, records=round(update.records * factor))
        for client, update in played.received.items()
        if update.records is not None
    }
    return replace(played, received=received)


def _counts(most: Int[np.ndarray, " classes"], mix: Mix, rng: np.random.Generator) -> np.ndarray:
    """Counts of all users, drawn again until the records suffice."""
    while True:
        counts = np.array([rng.multinomial(SIZE, _draw(mix, rng)) for _ in range(USERS)])
        if (counts.sum(axis=0) <= most).all():
            return counts


def _draw(mix: Mix, rng: np.random.Generator) -> np.ndarray:
    there = CLASSES - int(rng.integers(mix.nulls[0], mix.nulls[1] + 1))
    shares = np.zeros(CLASSES)
    shares[rng.permutation(CLASSES)[:there]] = rng.dirichlet(np.full(there, mix.concentration))
    return shares
