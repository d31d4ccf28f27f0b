"""Impute hidden features from known ones that are near: in an image, a series or a row of columns.

A window that slides over the grid has few features, so its covariance is known well from few
records, and systems stay small however large the record is.
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from divulge.data.gaussian_regression import Covariance, complete_hidden, shrunk_covariance

GridRecords = Float64[np.ndarray, "records channels *places"]
OwnGridRecords = Float64[np.ndarray, "own channels *places"]

_BLOCKS = {1: (16, 16), 2: (4, 2), 3: (2, 1)}
"""Sides of the blocks that are filled in, and the width of the margin around each, by axes."""

_WINDOWS = 20_000
"""How many windows the covariance is estimated from, at most."""


class _Block(NamedTuple):
    """Part of the grid that is filled in, from a window around it."""

    inner: tuple[slice, ...]
    window: tuple[slice, ...]

    @property
    def inside(self) -> tuple[slice, ...]:
        """The part's positions in the window."""
        return tuple(
            slice(part.start - around.start, part.stop - around.start)
            for part, around in zip(self.inner, self.window, strict=True)
        )


def as_grid(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one record as channels first, then one to three axes of places.

    Examples:
        >>> as_grid((446,)), as_grid((28, 28)), as_grid((3, 32, 32))
        ((1, 446), (1, 28, 28), (3, 32, 32))
    """
    if len(shape) in (3, 4):
        return shape
    # more axes than windows are known for: as a run of features
    return (1, *shape) if len(shape) < 3 else (1, prod(shape))


def spans_all(shape: tuple[int, ...]) -> bool:
    """Whether one window holds a whole record, so that nothing in it is far away.

    Examples:
        >>> spans_all((40,)), spans_all((446,)), spans_all((3, 8, 8)), spans_all((3, 32, 32))
        (True, False, True, False)
        >>> spans_all((3, 8, 32))
        False
    """
    _, *places = as_grid(shape)
    side, margin = _BLOCKS[len(places)]
    return max(places) <= side + 2 * margin


def impute_local(
    residuals: GridRecords,
    known: Bool[np.ndarray, "records channels *places"],
    own: OwnGridRecords,
    rng: np.random.Generator,
    count: int = 1,
) -> Float64[np.ndarray, "count records channels *places"]:
    """Residuals with hidden features filled in, given the known ones of a window around them.

    One completion has their expected values. Several are draws, block by block: what is drawn in
    one block is known to the next, so that there are no seams.

    In images and volumes all places share one covariance; along a single axis, where columns may
    differ in kind, each window has its own.

    Args:
        residuals: what records have beyond their expected values; what stands where a feature is
            hidden does not matter.
        known: True where a feature is known.
        own: residuals of the attacker's own records, complete.
        rng: the generator that draws windows and residuals.
        count: how many completions to make.
    """
    side, margin = _BLOCKS[residuals.ndim - 2]
    blocks = list(_blocks(residuals.shape[2:], side, margin))
    shared = None if residuals.ndim == 3 else _pooled_covariance(own, blocks[0], rng)
    filled = np.repeat(residuals[None], count, axis=0)
    given, every = known.copy(), slice(None)
    for block in blocks:
        around, inner = (every, every, *block.window), (every, every, *block.inner)
        rows = np.flatnonzero(~known[inner].reshape(len(known), -1).all(axis=1))
        if not len(rows):
            continue
        covariance = shared
        if covariance is None:
            covariance = shrunk_covariance(own[around].reshape(len(own), -1))
        window = filled[(every, *around)][:, rows]
        mask = given[around][rows].reshape(len(rows), -1)
        draws = rng if count > 1 else None
        complete = complete_hidden(window.reshape(count, *mask.shape), mask, covariance, draws)
        inside = complete.reshape(window.shape)[(every, every, every, *block.inside)]
        part = filled[(every, *inner)]
        part[:, rows] = np.where(known[inner][rows], part[:, rows], inside)
        if draws is not None:
            given[inner] = True
    return filled


def _blocks(places: tuple[int, ...], side: int, margin: int) -> Iterator[_Block]:
    """Blocks that cover the grid, in windows of one size, moved inwards at the edges."""
    wide = tuple(min(size, side + 2 * margin) for size in places)
    for starts in product(*(range(0, size, side) for size in places)):
        lows = [
            min(max(start - margin, 0), size - width)
            for start, size, width in zip(starts, places, wide, strict=True)
        ]
        yield _Block(
            tuple(
                slice(start, min(start + side, size))
                for start, size in zip(starts, places, strict=True)
            ),
            tuple(slice(low, low + width) for low, width in zip(lows, wide, strict=True)),
        )


def _pooled_covariance(own: OwnGridRecords, block: _Block, rng: np.random.Generator) -> Covariance:
    """The covariance of windows of a block's size, wherever in the grid they lie."""
    axes = tuple(range(2, own.ndim))
    wide = tuple(around.stop - around.start for around in block.window)
    windows = np.lib.stride_tricks.sliding_window_view(own, wide, axis=axes)
    windows = np.moveaxis(windows, 1, len(axes) + 1)  # records, places, channels, window
    shape = windows.shape[: len(axes) + 1]
    total = prod(shape)
    drawn = rng.choice(total, min(total, _WINDOWS), replace=False)
    taken = windows[np.unravel_index(drawn, shape)]
    return shrunk_covariance(np.ascontiguousarray(taken.reshape(len(drawn), -1)))
