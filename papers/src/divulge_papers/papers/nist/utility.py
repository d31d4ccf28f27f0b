"""Measure what privacy costs a federation on genotypes in accuracy, round by round.

The classes are families of SoyNAM's lines, in the shares of the challenge's classes: a family is
told by its genotypes nearly for certain, as the challenge's seed coats are.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from divulge._util.random import stream
from divulge.core import Records
from divulge.errors import NotApplicable
from divulge_papers import data
from divulge_papers.attempts import RowResult
from divulge_papers.papers.nist import genomics
from divulge_papers.table import Size

ROUNDS = 50
SHOWN = {f"{number} rounds": number for number in (1, 5, 10, 20, 30, 40, ROUNDS)}
"""Number of rounds by column."""

_CLIENTS, _BATCH, _RATE, _DELTA, _CLIP = 4, 15, 0.003, 1e-5, 2.0
_HELD_OUT = 5
"""One record of so many is held out to measure accuracy on."""

_PLACE_STEPS: Mapping[Size, int] = {"small": 64, "paper": 1}
"""Step between the places of SoyNAM's genotypes that are used."""


class _ClassSize(NamedTuple):
    """Number of records of a class, and of the families that they are drawn from."""

    records: int
    families: int


_CLASSES = (_ClassSize(119, 1), _ClassSize(30, 1), _ClassSize(361, 3), _ClassSize(32, 1))
"""542 records in the shares of the challenge's classes."""


def measure_utility(
    seed: int, size: Size, *, epsilon: float | None, epochs: int, full_width: bool = False
) -> RowResult:
    """Measure after which rounds each held-out record is classified right.

    Args:
        seed: seed of every random choice.
        size: size of the experiment; size small trains one local epoch on few columns.
        epsilon: privacy budget of each client for the whole run; None trains without privacy.
        epochs: number of local epochs.
        full_width: whether the records are synthetic ones with all columns of the challenge.

    Raises:
        NotApplicable: the row takes too long at size small.
        DataError: there are no genotypes.
    """
    from divulge.federation.simulation import simulate

    if size == "small" and (epochs > 1 or full_width):
        raise NotApplicable("takes hours, which size paper has")
    rng = stream(seed, "families")
    records = _draw_full_width(rng) if full_width else _draw_families(rng, _PLACE_STEPS[size])
    cut = len(records) // _HELD_OUT
    test, own = records.take(np.arange(cut)), records.take(np.arange(cut, len(records)))
    right: list[np.ndarray] = []
    simulate(_federation(seed, own, test, right, epsilon=epsilon, epochs=epochs), ROUNDS)
    values = {name: right[number - 1].astype(float).tolist() for name, number in SHOWN.items()}
    return RowResult(values)


def _draw_families(rng: np.random.Generator, place_step: int) -> Records:
    """REAL genotypes of SoyNAM's largest families, in a random order."""
    codes, family = genomics.read_soynam_families(data.data_file("soynam/soynam.npz.xz"))
    names, sizes = np.unique(family, return_counts=True)
    largest = iter(names[np.lexsort((names, -sizes))])
    rows, y = [], []
    for label, (count, families) in enumerate(_CLASSES):
        chosen = [next(largest) for _ in range(families)]
        rows.append(rng.choice(np.flatnonzero(np.isin(family, chosen)), count, replace=False))
        y.append(np.full(count, label))
    order = rng.permutation(sum(count for count, _ in _CLASSES))
    drawn = codes[np.concatenate(rows)[order], ::place_step]
    return Records(genomics.one_hot(drawn), np.concatenate(y)[order])


def _draw_full_width(rng: np.random.Generator) -> Records:
    """As many SYNTHETIC genotypes, with 125,766 columns."""
    stored = data.data_file("nist-soybean/synthetic_genotypes_775x43568.npz.xz")
    codes, y = genomics.read_synthetic(stored)
    chosen = rng.permutation(len(y))[: sum(count for count, _ in _CLASSES)]
    return Records(genomics.one_hot(codes)[chosen], y[chosen])


def _federation(
    seed: int,
    own: Records,
    test: Records,
    right: list[np.ndarray],
    *,
    epsilon: float | None,
    epochs: int,
) -> Any:
    """The federation, which appends to ``right`` after each round."""
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.federation import partition
    from divulge.federation.fedavg import Federation
    from divulge.targets.torch import TorchTarget
    from divulge.training.recipe import Recipe
    from divulge_papers.papers.nist.federations import scale_rate
    from divulge_papers.papers.nist.network import network

    columns, private = own.x.shape[1], epsilon is not None
    rate = scale_rate(columns) if private else _RATE
    recipe = Recipe(
        partial(network, columns, private=private), lr=rate, epochs=epochs, batch_size=_BATCH
    )
    trainer = DPSGD(
        recipe, _DELTA, epsilon=epsilon, max_grad_norm=_CLIP, rounds=ROUNDS, jobs=1
    ) if private else None  # fmt: skip

    def evaluate(module: Any) -> dict[str, float]:
        right.append(TorchTarget(module, "logits").predict(test.x).argmax(axis=1) == test.y)
        return {"accuracy": float(right[-1].mean())}

    clients = partition.iid(own, partition.equal_sizes(len(own), _CLIENTS), seed=seed)
    return Federation(
        own, clients, recipe, trainer=trainer, evaluate=evaluate, workers=1, seed=seed
    )
