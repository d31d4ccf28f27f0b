"""Train federations like NIST's challenge on genotypes of soybeans, real or synthetic."""

import math
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
from divulge.targets.function import FunctionTarget
from divulge.targets.logits import read_logits
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge_papers import data
from divulge_papers.papers.nist import genomics
from divulge_papers.papers.nist.network import network
from divulge_papers.source import code

GenotypeOrigin = Literal["SoyNAM", "synthetic", "full width"]


class FederationScale(NamedTuple):
    """Size of a federation that is trained."""

    place_step: int
    """Step between the places of the genotypes that are used; 1 uses all."""
    epochs: int
    """Number of local epochs."""


CLIENT_SIZES = (91, 119, 74, 29)
"""Number of training records of each client, as the challenge's published sizes suggest."""


LINES, PLACES = 775, 4240


class _CachedTrainer:
    """A trainer that stores the predictions of its models in a file, and reads them next time."""

    def __init__(self, trainer: Trainer, path: Path) -> None:
        self._trainer, self._path = trainer, path

    def many(
        self, pool: Records, subsets: Bool[np.ndarray, "models records"], seeds: Sequence[int]
    ) -> Iterator[Target]:
        """Yield models that predict the whole pool, and nothing else."""
        if not self._path.exists():
            models = self._trainer.many(pool, subsets, seeds)
            logits = np.stack([read_logits(model, pool.x) for model in models])
            with atomic.translate_os_errors(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_arrays(self._path, {"logits": logits.ravel()})
        flat = atomic.read_arrays(self._path, "logits")["logits"]
        for logits in flat.reshape(len(seeds), len(pool), -1):
            yield FunctionTarget(lambda _x, logits=logits: logits, "logits")


@lru_cache(maxsize=6)
def train_federation(
    seed: int, origin: GenotypeOrigin, epsilon: float | None, scale: FederationScale, folder: Path
) -> local_models.AssignmentGame:
    """Train one federation: four clients on their own, each with ε or without privacy.

    Args:
        seed: seed of the division of records and of training.
        origin: origin of the genotypes.
        epsilon: privacy budget of each client; None trains without privacy.
        scale: number of places and of epochs.
        folder: folder that stores the clients' predictions.

    Raises:
        DataError: there are no genotypes.
        StoreError: the folder cannot be used.
    """
    rng = stream(seed, "genomes", origin)
    records = make_pool(origin, rng, scale.place_step)
    name = f"{origin}-{epsilon}-{scale.place_step}-{scale.epochs}-{seed}-{code(__name__)}.npz"
    trainer = _CachedTrainer(
        client_trainer(records.x.shape[1], epsilon, scale.epochs), folder / "genomes" / name
    )
    return local_models.simulate_local_models(records, trainer, CLIENT_SIZES, rng)


def make_pool(origin: GenotypeOrigin, rng: np.random.Generator, thinned: int) -> Records:
    """Load or draw thinned genotypes of 775 lines, in four classes.

    Those of SoyNAM are REAL, with classes cut from the days to maturity; others are SYNTHETIC.
    At full width they are stored ones, whose columns are as many as the challenge's.

    Raises:
        DataError: there are no genotypes.
    """
    if origin == "synthetic":
        genotypes, y = genomics.make_synthetic(LINES, PLACES, rng)
    elif origin == "full width":
        stored = data.data_file("nist-soybean/synthetic_genotypes_775x43568.npz.xz")
        genotypes, y = genomics.read_synthetic(stored)
    else:
        genotypes, traits = genomics.read_soynam(data.data_file("soynam/soynam.npz.xz"))
        known = np.flatnonzero(np.isfinite(traits[:, 0]))
        chosen = np.sort(rng.choice(known, LINES, replace=False))
        genotypes = genotypes[chosen]
        y = genomics.classes_by_quantile(traits[chosen, 0], (0.22, 0.05, 0.67, 0.06))
    return Records(genomics.one_hot(genotypes[:, ::thinned]), y)


COLUMNS = 125_766
"""Number of columns of the challenge's records."""


def scale_rate(columns: int) -> float:
    """The challenge's learning rate for DP-SGD at full width, scaled to fewer columns.

    Clipped gradients move weights as far whatever their number, and the function with its root.
    """
    return 3e-3 * math.sqrt(COLUMNS / columns)


def client_trainer(columns: int, epsilon: float | None, epochs: int) -> Trainer:
    """Trainer of the challenge: Adamax without privacy, DP-SGD clipped to 2 with it."""
    made = partial(network, columns, private=epsilon is not None)
    if epsilon is None:
        recipe = Recipe(made, "adamax", lr=3e-3, weight_decay=1e-4, epochs=epochs, batch_size=51)
        return Fleet(recipe, way="one-by-one", workers=1)
    recipe = Recipe(made, lr=scale_rate(columns), weight_decay=1e-4, epochs=epochs, batch_size=51)
    return DPSGD(recipe, 1e-5, epsilon=epsilon, max_grad_norm=2.0, jobs=1)
