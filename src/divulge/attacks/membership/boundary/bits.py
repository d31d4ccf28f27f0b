"""The fewest flips to another label, where all features have two values."""

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.attacks.membership.boundary.search import Search, share_out
from divulge.attacks.shared.perturbation import Flat

_FLIPPED_BACK = 0.25
"""Share of a neighbour's flips that are taken back."""


def find(search: Search, start: Flat) -> Float64[np.ndarray, " records"]:
    """The number of flips from each record to the nearest point found.

    Args:
        search: the records.
        start: a point of another label for each.
    """
    flips = (start != search.x) & search.space.bits
    bisection = int(np.ceil(np.log2(max(2, flips.sum(axis=1).max()))))
    allowed = share_out(search.questions, bisection, 0)
    flips = _shorten(search, flips, search.rng.random(flips.shape[1])[None], allowed.start)
    for _ in range(allowed.rounds):
        flips = _shorten(search, flips, _weigh(search, flips, allowed.neighbours), bisection)
    return np.asarray(flips.sum(axis=1), dtype=np.float64)


def _shorten(
    search: Search,
    flips: Bool[np.ndarray, "records features"],
    weight: Float64[np.ndarray, "_ features"],
    questions: int,
) -> Bool[np.ndarray, "records features"]:
    """The fewest of these flips, those of most weight first, that still change the label."""
    # ranks by weight: the first k flips of a record are one comparison
    rank = np.where(flips, -weight, np.inf).argsort(axis=1).argsort(axis=1)
    low, high = np.zeros(len(flips), np.int64), flips.sum(axis=1)
    for _ in range(questions):
        middle = (low + high) // 2
        rows = np.flatnonzero(middle > low)
        if not len(rows):
            break
        crossed = _ask(search, rank < middle[:, None], rows)
        low[rows[~crossed]], high[rows[crossed]] = middle[rows[~crossed]], middle[rows[crossed]]
    return np.asarray(rank < high[:, None])


def _weigh(
    search: Search, flips: Bool[np.ndarray, "records features"], neighbours: int
) -> Float64[np.ndarray, "records features"]:
    """How much oftener the label is another one with a flip than without it."""
    with_it, without = np.zeros(flips.shape), np.zeros(flips.shape)
    counts = np.zeros(flips.shape[1])
    rows = np.arange(len(flips))
    for _ in range(neighbours):
        # neighbours take back a part of the flips: what matters shows in whether they still cross
        stays = search.rng.random(flips.shape[1]) >= _FLIPPED_BACK
        crossed = _ask(search, flips & stays, rows)[:, None]
        with_it += crossed & stays
        without += crossed & ~stays
        counts += stays
    return np.asarray(
        # the difference of two means: a flip that matters crosses oftener when it stays
        with_it / np.maximum(counts, 1) - without / np.maximum(neighbours - counts, 1)
    )


def _ask(
    search: Search, flips: Bool[np.ndarray, "records features"], rows: Int[np.ndarray, " asked"]
) -> Bool[np.ndarray, " asked"]:
    return search.crossed(search.space.flip(search.x[rows], flips[rows]), rows)
