"""What shadows say of a record on average: the part that shadow attacks share."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

Matrix = Float64[np.ndarray, "records models"]
Mask = Bool[np.ndarray, "records models"]
Column = Float64[np.ndarray, " records"]


class InOut(NamedTuple):
    """Means per record."""

    inside: Column
    outside: Column


def in_out(values: Matrix, member: Mask) -> InOut:
    """The mean of each record over the shadows trained on it, and over the others.

    With few shadows drawn independently, some records are in all of them or in none. Their
    missing mean is the other one moved by the average gap of the records that have both, so
    such a record is compared as an average record would be; with offline shadows the gap is zero.

    Examples:
        >>> values = np.array([[3.0, 1.0], [5.0, 2.0], [7.0, 9.0]])
        >>> in_out(values, np.array([[True, False], [True, False], [True, True]]))
        InOut(inside=array([3., 5., 8.]), outside=array([1. , 2. , 5.5]))
    """
    inside, has_inside = _masked_mean(values, member)
    outside, has_outside = _masked_mean(values, ~member)
    both = has_inside & has_outside
    gap = float(np.mean(inside[both] - outside[both])) if both.any() else 0.0
    return InOut(
        np.where(has_inside, inside, outside + gap), np.where(has_outside, outside, inside - gap)
    )


def _masked_mean(values: Matrix, mask: Mask) -> tuple[Column, Bool[np.ndarray, " records"]]:
    counts = mask.sum(axis=1)
    means = np.where(mask, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return means, counts > 0


def log_probability(phi: np.ndarray) -> np.ndarray:
    """The logarithm of p_y from φ, exact at both ends."""
    logarithm: np.ndarray = -np.logaddexp(0.0, -phi)
    return logarithm
