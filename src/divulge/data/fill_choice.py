"""Choose how to fill in features, by what the attacker's own records show."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import imputation
from divulge.data.known_features import ONE_WAY, Fill
from divulge.data.local_imputation import spans_all

KnownMask = Bool[np.ndarray, "records *features"]
MaskMaker = Callable[[tuple[int, ...], np.random.Generator], KnownMask]
"""Draws which features are known, from the shape of all records."""

FILLS: tuple[Fill, ...] = ("local", "gaussian", "neighbours", "mean", "global-mean")
"""Fills among which the own records choose; of equal ones the first is taken."""

_MOST_WORK = 3e11
"""Floating-point operations, about a minute of one core, up to which the Gaussian is tried."""


def choose_fill(
    own: Records | None,
    make_mask: MaskMaker,
    *,
    count: int = 1,
    one_hot: imputation.OneHotGroups = (),
    grid: tuple[int, ...] = (),
    seed: int = 0,
) -> Fill:
    """The fill with the smallest error where values of own records are hidden, as candidates' are.

    The error is squared, in units of each feature's variance. Each half of the records is filled in
    from the other. Neither candidates nor a model are looked at.

    Args:
        own: records that the attacker knows whole.
        make_mask: draws which of their features count as known.
        count: how many completions will be asked for.
        one_hot: as in `divulge.data.imputation.impute`.
        grid: as there.
        seed: the seed of all draws.

    Raises:
        DataError: there are too few own records.
    """
    if own is None or len(own) < 2 * imputation.MIN_OWN_RECORDS:
        # too few to hold half of them out; the first that says what is missing, or fills in
        return "gaussian"
    known = make_mask(own.x.shape, stream(seed, "known features of own records"))
    if known.all():
        return "gaussian"
    spread = np.asarray(own.x, dtype=np.float64).std(axis=0)
    error = {}
    for fill in _affordable(known, count, grid or own.x.shape[1:]):
        draws = stream(seed, "own records filled in", fill)
        (filled,) = imputation.cross_impute(own, known, fill, draws, one_hot=one_hot, grid=grid)
        wrong = np.subtract(filled.x, own.x, dtype=np.float64) / np.where(spread > 0, spread, 1.0)
        error[fill] = float(np.mean(wrong[~known] ** 2))
    return min(error, key=lambda fill: error[fill])


def _affordable(known: KnownMask, count: int, grid: tuple[int, ...]) -> Iterator[Fill]:
    flat = known.reshape(len(known), -1)
    for fill in FILLS:
        # in one window it would be the Gaussian, but for rounding
        if (count > 1 and fill in ONE_WAY) or (fill == "local" and spans_all(grid)):
            continue
        if fill != "gaussian" or _gaussian_work(flat) <= _MOST_WORK:
            yield fill


def _gaussian_work(known: Bool[np.ndarray, "records features"]) -> float:
    """Operations to solve one system for each distinct mask, and to factor the covariance."""
    unknowns = known.sum(axis=1)
    unknowns = np.minimum(unknowns, known.shape[1] - unknowns).astype(np.float64)
    distinct = len(np.unique(np.packbits(known, axis=1), axis=0))
    return float(distinct * np.mean(unknowns**3) / 3 + known.shape[1] ** 3)
