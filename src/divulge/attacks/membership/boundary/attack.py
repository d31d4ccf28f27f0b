"""The distance from a record to the boundary of its label, from labels alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from divulge._util.arguments import Count, check_arguments
from divulge.attacks.membership.boundary import bits, numbers
from divulge.attacks.membership.boundary.search import Search
from divulge.attacks.shared.perturbation import Flat, flatten, space_of
from divulge.core import ModelView, Need, Scores

_ROWS_AT_ONCE = 256


@check_arguments
@dataclass(frozen=True, slots=True)
class Boundary:
    """Distance from a record to the nearest point with another label that the search finds.

    The search is that of HopSkipJump. It starts from the nearest candidate with another predicted
    label, bisects towards the record, estimates the boundary's normal from the labels of random
    neighbours, steps along it, and bisects again. The distance is in standard deviations of the
    features. If all features have two values, it is the number of flips; the search keeps those
    that the label depends on most. A misclassified record has distance 0 and needs no query.

    Args:
        questions: largest number of queries per record, its own answer not counted.

    References:
        Li and Zhang (2021), Membership leakage in label-only exposures, section 4 (boundary
        attack); Choquette-Choo et al. (2021), Label-only membership inference attacks, section 3.3;
        Chen, Jordan and Wainwright (2020), HopSkipJumpAttack, algorithm 2. Departures: the start is
        a candidate instead of noise, and neighbours are at a tenth of the distance.
    """

    questions: Count = 100

    name: ClassVar[str] = "boundary"
    paper: ClassVar[str] = "Li and Zhang 2021"
    needs: ClassVar[Need] = Need.HARD_LABELS | Need.LABELS | Need.FEATURES

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The distance of each candidate, in standard deviations or in flips."""
        x, y = view.records.x, view.records.y
        space, flat = space_of(x), flatten(x)
        label = view.target.predict(x).argmax(axis=1)
        scale = np.where(space.spread > 0, space.spread, 1.0)
        start = nearest_of_another_label(flat / scale, label, y)
        rows = np.flatnonzero((label == y) & (start >= 0))
        far = space.bits.sum() if space.binary else np.linalg.norm((space.high - space.low) / scale)
        # no candidate of another label: as far as two records can be
        distance = np.where(label == y, float(far), 0.0)
        if len(rows):
            search = Search(view.target, space, flat[rows], y[rows], self.questions, rng)
            find = bits.find if space.binary else numbers.find
            distance[rows] = find(search, flat[start[rows]])
        return Scores(distance)


def nearest_of_another_label(
    x: Flat, label: Int[np.ndarray, " records"], y: Int[np.ndarray, " records"]
) -> Int[np.ndarray, " records"]:
    """Position of the nearest record whose label differs from each record's class; -1 if none."""
    nearest, squares = np.full(len(x), -1), (x**2).sum(axis=1)
    for begin in range(0, len(x), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        # |a - b|² less |a|², which is the same for all candidates b: enough to compare them
        distance = squares - 2 * x[rows] @ x.T
        distance[label[None] == y[rows, None]] = np.inf
        best = distance.argmin(axis=1)
        some = np.isfinite(distance[np.arange(len(best)), best])
        nearest[rows] = np.where(some, best, -1)
    return nearest
