"""Shadow attacks share these scores of the candidates, by the target and by its shadow models.

A matrix of records and shadows may lie on disk and be larger than memory, so it is read in blocks
of records. What is kept whole has one number a record.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int, Real

from divulge.core import ModelView, PoolPredictions, Records, Shadows
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.metrics import signals

Matrix = Float64[np.ndarray, "records models"]
Mask = Bool[np.ndarray, "records models"]
Column = Float64[np.ndarray, " records"]

BLOCK = 2**20
"""Numbers of a matrix in memory at a time: 8 MiB, and as much for each temporary."""


class RecordBlock(NamedTuple):
    """φ of a block of consecutive records."""

    rows: slice
    """Positions of the block's records."""
    phi: tuple[Matrix, ...]
    """φ under each shadow: one matrix for the records, and one for each augmentation."""
    member: Mask
    """True where a shadow was trained on a record."""


@dataclass(frozen=True, slots=True)
class ShadowSignals:
    """φ of the candidates and of their augmentations, changed alike for all models."""

    target: tuple[Column, ...]
    """φ under the target: one column for the candidates, and one for each augmentation."""
    shadows: Shadows
    change: Callable[[np.ndarray], np.ndarray]
    """What is made of each φ, such as its size."""

    def blocks(self, of: Shadows | PoolPredictions | None = None) -> Iterator[RecordBlock]:
        """Yield the shadows' φ of the candidates, or of their pool, in blocks of records."""
        for block in read_blocks(self.shadows if of is None else of):
            yield block._replace(phi=tuple(self.change(matrix) for matrix in block.phi))


@dataclass(frozen=True, slots=True)
class AttackTrainingSet:
    """Training data of an attack: records whose membership in each shadow the attacker knows."""

    shadows: Shadows | PoolPredictions
    """Predictions of the shadows on the records."""
    y: Real[np.ndarray, " records"]
    """The class of each record, or its true value."""


def scaled_logits(view: ModelView) -> ShadowSignals:
    """The scaled logits of the candidates, in a view with shadows; saturated values are tamed.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    target = target_signals("scaled_logit", view)
    # one bound for target and shadows: models that saturate at other levels would not compare
    largest = max(map(signals.largest_unsaturated, target))
    pool = view.shadows.pool
    for shadows in (view.shadows,) if pool is None else (view.shadows, pool):
        for block in read_blocks(shadows):
            largest = max(largest, *map(signals.largest_unsaturated, block.phi))
    tame = partial(signals.tame_beyond, largest)
    return ShadowSignals(tuple(map(tame, target)), view.shadows, tame)


def residuals(view: ModelView, change: Callable[[np.ndarray], np.ndarray]) -> ShadowSignals:
    """The residuals y - f(x) of the candidates, in a view with shadows of a regression model.

    Args:
        view: what the attacker sees.
        change: what is made of each residual.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    target = (signals.compute_residuals(view, records) for records in ways_of_asking(view))
    return ShadowSignals(tuple(map(change, target)), view.shadows, change)


def target_signals(signal: signals.SignalName, view: ModelView) -> tuple[Column, ...]:
    """A signal of the target for the candidates, and for each of their augmentations.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    return tuple(
        signals.compute_for_records(signal, view, records) for records in ways_of_asking(view)
    )


def ways_of_asking(view: ModelView) -> tuple[Records, ...]:
    """The candidates, and each of their augmentations, in a view with shadows.

    Raises:
        DataError: the shadows were asked in other ways than the target can be.
    """
    assert view.shadows is not None
    if len(view.augmented) != len(view.shadows.augmented_phi):
        raise DataError(
            f"expected one matrix of shadow answers for each of the {len(view.augmented)} further "
            f"ways of asking, got {len(view.shadows.augmented_phi)}: ask the shadows as the target"
        )
    return (view.records, *view.augmented)


def attack_training_set(view: ModelView) -> AttackTrainingSet | None:
    """The training data that shadows give an attack: the candidates or, offline, the shadows' pool.

    It is None for offline shadows that were not queried about their pool.
    """
    assert view.shadows is not None
    if view.shadows.online:
        return AttackTrainingSet(view.shadows, view.records.y)
    pool = view.shadows.pool
    return None if pool is None else AttackTrainingSet(pool, pool.y)


def check_folds(folds: int) -> None:
    """Refuse fewer than two folds: no fold could be scored by what was fitted to others.

    Raises:
        SpecError: there are fewer than two.
    """
    if folds < 2:
        raise SpecError(f"expected folds of 2 or more, got {folds}")


def check_enough_records(records: int, folds: int) -> None:
    """Refuse fewer candidates than folds.

    Raises:
        NotApplicable: a fold would be empty.
    """
    if records < folds:
        raise NotApplicable(f"expected {folds} or more candidates, one a fold, got {records}")


def rank_records(parts: Iterable[RecordBlock]) -> Int[np.ndarray, " records"]:
    """Each record's rank by its mean φ, which does not depend on the order of the records."""
    # by value, and not by position: an attack must not depend on the order of records
    sums = np.concatenate([mean_over_queries(block.phi).sum(axis=1) for block in parts])
    return np.argsort(np.argsort(sums, kind="stable"), kind="stable")


def read_blocks(shadows: Shadows | PoolPredictions) -> Iterator[RecordBlock]:
    """Yield the shadows' φ unchanged, in blocks of records."""
    matrices = (shadows.phi, *shadows.augmented_phi)
    records, models = shadows.phi.shape
    size = max(1, BLOCK // max(1, models * len(matrices)))
    for start in range(0, records, size):
        rows = slice(start, min(start + size, records))
        # one type and one order: a sum along a row must not depend on how the matrix is stored
        phi = tuple(np.ascontiguousarray(matrix[rows], dtype=np.float64) for matrix in matrices)
        yield RecordBlock(rows, phi, np.ascontiguousarray(shadows.member[rows]))


def read_softened(shadows: Shadows) -> Iterator[Matrix]:
    """Yield ``softened`` in blocks of records, as the mean over the ways of asking."""
    records, models = shadows.phi.shape
    size = max(1, BLOCK // max(1, models * len(shadows.softened)))
    for start in range(0, records, size):
        rows = slice(start, start + size)
        yield mean_over_queries([
            np.ascontiguousarray(matrix[rows], dtype=np.float64) for matrix in shadows.softened
        ])  # fmt: skip


def mean_over_queries(ways: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over the candidates' own values and those of their augmentations."""
    return ways[0] if len(ways) == 1 else np.mean(ways, axis=0)
