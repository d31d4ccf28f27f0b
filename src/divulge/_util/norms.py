"""Norms of which no square overflows or underflows, and vectors clipped to them.

The square of 1e20 is no number of single precision, and that of 1e-30 is 0 there; double precision
has the same holes at 1e155 and 1e-163. A norm that is infinite or too small does not bound what it
is to bound.
"""

import numpy as np
from jaxtyping import Float, Float64, Shaped


def euclidean_norm(
    values: Shaped[np.ndarray, "..."], axis: int | None = None
) -> Float64[np.ndarray, "..."]:
    """The Euclidean norm in double precision, of all numbers or along an axis.

    Numbers are divided by a power of two first, so the result is that of ``np.linalg.norm`` to the
    last bit wherever that one neither overflows nor underflows.

    Args:
        values: numbers; where one is NaN or infinite, so is the norm.
        axis: the axis along which norms are taken; None takes one of all numbers.

    Examples:
        >>> float(euclidean_norm(np.array([3.0, -4.0]) * 2.0**700)) == 5 * 2.0**700
        True
    """
    wide = np.asarray(values, np.float64)
    scale = _power_of_two(np.asarray(np.abs(wide).max(axis=axis, keepdims=True, initial=0.0)))
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(wide / scale, axis=axis, keepdims=True)
        return np.asarray((length * scale).squeeze(axis))


def clip_to_norm(
    vector: Float[np.ndarray, " entries"], clip: float, order: int = 2
) -> Float[np.ndarray, " entries"]:
    """The vector, shrunk to this norm where it is longer; never made longer.

    One that is not finite becomes zeros: it has no direction that could be kept.

    Args:
        vector: numbers.
        clip: the largest norm, above 0.
        order: 2 for the Euclidean norm, 1 for the sum of magnitudes.

    Examples:
        >>> clip_to_norm(np.array([3e300, -4e300]), 1.0).round(9).tolist()
        [0.6, -0.8]
        >>> clip_to_norm(np.array([1.0, np.nan]), 1.0).tolist()
        [0.0, 0.0]
    """
    largest = np.asarray(np.abs(vector).max(initial=0.0))
    if not np.isfinite(largest):
        return np.zeros_like(vector)
    if largest == 0:
        return vector
    scale = float(_power_of_two(largest))
    unit = vector / scale
    norm = float(np.linalg.norm(unit, ord=order))
    return unit * (clip / norm) if norm > clip / scale else vector


def _power_of_two(largest: Shaped[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """The largest one up to each number; 1 for 0 and for what is not finite."""
    known = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    return np.asarray(np.ldexp(1.0, np.frexp(known)[1] - 1))
