"""Federations like NIST's challenge, trained here on real genotypes of soybeans."""

from functools import lru_cache, partial

import numpy as np
import torch
from torch import nn

from leakscope.core import Records, Trainer
from leakscope.data import genomics
from leakscope.defences.dp_sgd import DPSGD
from leakscope.experiments import data
from leakscope.federation import apart
from leakscope.randomness import stream
from leakscope.training.fleet import Fleet
from leakscope.training.recipe import Recipe

SIZES = (91, 119, 74, 29)
"""Records that each client trains on, as the challenge's published sizes suggest."""

LINES = 775

THINNED = 16
"""Every so many-th of 4,240 places is kept."""


@lru_cache(maxsize=3)
def played(seed: int, epsilon: float | None) -> apart.Apart:
    """One federation: four clients trained alone, without privacy or with epsilon each.

    Raises:
        DataError: there are no genotypes.
    """
    rng = stream(seed, "soynam")
    pool = soynam(rng)
    return apart.play(pool, clients(pool.x.shape[1], epsilon), SIZES, rng)


def soynam(rng: np.random.Generator) -> Records:
    """REAL genotypes, thinned; the classes are cut from the days to maturity."""
    genotypes, traits = genomics.soynam(data.file("soynam/soynam.npz.xz"))
    known = np.flatnonzero(np.isfinite(traits[:, 0]))
    chosen = np.sort(rng.choice(known, LINES, replace=False))
    y = genomics.by_quantile(traits[chosen, 0], (0.22, 0.05, 0.67, 0.06))
    return Records(genomics.one_hot(genotypes[chosen, ::THINNED]), y)


class _Channel(nn.Module):
    """One channel for the first convolution."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, None]


def network(columns: int, *, private: bool) -> nn.Module:
    """The challenge's network: three convolutions, four dense layers, a norm on the logits.

    Layer normalisation where training is private, batch normalisation where it is not.
    """
    length = (columns - 21) // 2  # after kernels of 10, 8 and 6, and pooling by 2
    inner = nn.LayerNorm([6, length]) if private else nn.BatchNorm1d(6)
    last = nn.LayerNorm(4) if private else nn.BatchNorm1d(4)
    return nn.Sequential(
        _Channel(), nn.Conv1d(1, 10, 10), nn.ReLU(), nn.Dropout(0.2),
        nn.Conv1d(10, 8, 8), nn.Dropout(0.1), nn.Conv1d(8, 6, 6), nn.MaxPool1d(2), inner,
        nn.Flatten(), nn.Linear(6 * length, 24), nn.Linear(24, 16), nn.Linear(16, 4), last,
    )  # fmt: skip


def clients(columns: int, epsilon: float | None, epochs: int = 100) -> Trainer:
    """The challenge's training: Adamax without privacy, DP-SGD clipped to 2 with it."""
    made = partial(network, columns, private=epsilon is not None)
    if epsilon is None:
        recipe = Recipe(made, "adamax", lr=3e-3, weight_decay=1e-4, epochs=epochs, batch_size=51)
        return Fleet(recipe, way="one-by-one", workers=1)
    # the function moves with the number of weights: the rate of the full width, scaled
    rate = 3e-3 * (125_766 / columns) ** 0.5
    recipe = Recipe(made, lr=rate, weight_decay=1e-4, epochs=epochs, batch_size=29)
    return DPSGD(recipe, 1e-5, epsilon=epsilon, max_grad_norm=2.0, jobs=1)
