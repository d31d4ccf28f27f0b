"""Federations like NIST's challenge, trained here on genotypes of soybeans, real or made up."""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool

from divulge._util import atomic
from divulge._util.random import stream
from divulge.core import Records, Target, Trainer
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.federation import local_models
from divulge.reproduce import data
from divulge.reproduce.cells import code
from divulge.reproduce.papers.nist import genomics
from divulge.reproduce.papers.nist.network import network
from divulge.targets.function import FunctionTarget
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe

Origin = Literal["SoyNAM", "synthetic"]


class Scale(NamedTuple):
    """Of the federations that are trained."""

    thinned: int
    """Every so many-th place of the genotypes is kept."""
    epochs: int


SIZES = (91, 119, 74, 29)
"""Records that each client trains on, as the challenge's published sizes suggest."""


LINES, PLACES = 775, 4240


class _Kept:
    """A trainer whose models' answers are kept in a file, and not asked for again."""

    def __init__(self, trainer: Trainer, path: Path) -> None:
        self._trainer, self._path = trainer, path

    def many(
        self, pool: Records, subsets: Bool[np.ndarray, "models records"], seeds: Sequence[int]
    ) -> Iterator[Target]:
        """Models that answer for the whole pool, and for nothing else."""
        if not self._path.exists():
            models = self._trainer.many(pool, subsets, seeds)
            said = np.stack([model.predict(pool.x) for model in models])
            with atomic.said(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_arrays(self._path, {"answers": said.ravel()})
        (flat,) = atomic.read_arrays(self._path, "answers")
        for said in flat.reshape(len(seeds), len(pool), -1):
            yield FunctionTarget(lambda _x, said=said: said)


@lru_cache(maxsize=6)
def played(
    seed: int, origin: Origin, epsilon: float | None, scale: Scale, folder: Path
) -> local_models.Apart:
    """One federation: four clients trained alone, without privacy or with epsilon each.

    Args:
        seed: deals and trains.
        origin: of the genotypes.
        epsilon: of each client; None for training without privacy.
        scale: how large and how long.
        folder: where the clients' answers are kept, and looked for.

    Raises:
        DataError: there are no genotypes.
        StoreError: the folder cannot be used.
    """
    rng = stream(seed, "genomes", origin)
    records = pool(origin, rng, scale.thinned)
    name = f"{origin}-{epsilon}-{scale.thinned}-{scale.epochs}-{seed}-{code()}.npz"
    trainer = _Kept(clients(records.x.shape[1], epsilon, scale.epochs), folder / "genomes" / name)
    return local_models.play(records, trainer, SIZES, rng)


def pool(origin: Origin, rng: np.random.Generator, thinned: int) -> Records:
    """Thinned genotypes of 775 lines, in four classes.

    Those of SoyNAM are REAL, with classes cut from the days to maturity; others are SYNTHETIC.

    Raises:
        DataError: there are no genotypes.
    """
    if origin == "synthetic":
        genotypes, y = genomics.synthetic(LINES, PLACES, rng)
    else:
        genotypes, traits = genomics.soynam(data.file("soynam/soynam.npz.xz"))
        known = np.flatnonzero(np.isfinite(traits[:, 0]))
        chosen = np.sort(rng.choice(known, LINES, replace=False))
        genotypes = genotypes[chosen]
        y = genomics.by_quantile(traits[chosen, 0], (0.22, 0.05, 0.67, 0.06))
    return Records(genomics.one_hot(genotypes[:, ::thinned]), y)


def clients(columns: int, epsilon: float | None, epochs: int) -> Trainer:
    """The challenge's training: Adamax without privacy, DP-SGD clipped to 2 with it."""
    made = partial(network, columns, private=epsilon is not None)
    if epsilon is None:
        recipe = Recipe(made, "adamax", lr=3e-3, weight_decay=1e-4, epochs=epochs, batch_size=51)
        return Fleet(recipe, way="one-by-one", workers=1)
    # the function moves with the number of weights: the rate of the full width, scaled
    rate = 3e-3 * (125_766 / columns) ** 0.5
    recipe = Recipe(made, lr=rate, weight_decay=1e-4, epochs=epochs, batch_size=51)
    return DPSGD(recipe, 1e-5, epsilon=epsilon, max_grad_norm=2.0, jobs=1)
