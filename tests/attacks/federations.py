"""Small federations whose clients hold known mixes of four classes."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from divulge.core import Proportions, Records, UpdateView
from divulge.federation import Federation, Transcript, exact, simulate
from divulge.testing.updates import CLASSES as CLASSES
from divulge.testing.updates import FEATURES
from divulge.testing.updates import records as records
from divulge.testing.updates import reference as reference
from divulge.testing.updates import relu as relu
from divulge.training.recipe import Optimiser, Recipe

COUNTS = np.array(
    [[30, 30, 30, 30], [60, 40, 20, 0], [10, 0, 30, 80], [0, 0, 120, 0], [50, 10, 10, 50]]
)


def leaky() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 16), nn.LayerNorm(16), nn.LeakyReLU(), nn.Linear(16, CLASSES)
    )


def without_bias() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES, bias=False))


@functools.lru_cache
def played(
    network: Callable[[], nn.Module] = relu,
    optimiser: Optimiser = "sgd",
    lr: float = 0.05,
    weight_decay: float = 0.0,
    rounds: int = 2,
    seed: int = 0,
) -> Transcript:
    recipe = Recipe(
        network,
        optimiser,
        lr=lr,
        epochs=1,
        batch_size=20,
        weight_decay=weight_decay,
    )
    pool = records(240, 100 + seed)
    federation = Federation(pool, exact(pool, COUNTS, seed), recipe, seed=seed, workers=1)
    return simulate(federation, rounds)


def views(
    transcript: Transcript, network: Callable[[], nn.Module] = relu, known: Records | None = None
) -> list[UpdateView]:
    known = reference() if known is None else known
    return [transcript.view(str(k), network, known) for k in range(len(COUNTS))]


def truths(counts: Sequence[np.ndarray] | np.ndarray = COUNTS) -> list[Proportions]:
    return [Proportions.of(row) for row in counts]
