"""A threshold that is found from the scores alone turns scores into decisions."""

import numpy as np
from jaxtyping import Float


def otsu_threshold(score: Float[np.ndarray, " items"]) -> float:
    """The threshold that splits scores into two groups with the least variance within them.

    The exact optimum of two means in one dimension. A constant score is never exceeded.

    References:
        Otsu (1979), A threshold selection method from gray-level histograms; Fisher (1958), On
        grouping for maximum homogeneity.

    Examples:
        >>> otsu_threshold(np.array([0.0, 0.1, 0.9, 1.0]))
        0.5
    """
    ascending = np.sort(score)
    many = np.arange(1, len(score))
    sums = np.cumsum(ascending)[:-1]
    rest = ascending.sum() - sums
    between = sums**2 / many + rest**2 / (len(score) - many)
    if not len(score) > 1 or ascending[0] == ascending[-1]:
        return float(ascending[-1])
    edge = int(np.argmax(between))
    return float((ascending[edge] + ascending[edge + 1]) / 2)


def rescale_to_unit(
    score: Float[np.ndarray, " items"], middle: float
) -> Float[np.ndarray, " items"]:
    """Rescale scores to [0, 1]: in the same order, linearly, and with ``middle`` at one half."""
    reach = float(np.abs(score - middle).max())
    return (1 + (score - middle) / reach) / 2 if reach > 0 else np.full(len(score), 0.5)
