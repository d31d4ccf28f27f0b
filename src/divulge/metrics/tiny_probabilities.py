"""Hold probabilities that double precision cannot, so that their order is kept.

exp(-745) is the smallest number above zero: softmax gives zero to all classes further behind. Here
a probability below exp(-700) is written as exp(-700) / (1 - 700 - log p), which falls as p does and
is still above zero where log p is -1e19. Such numbers are too small to change any sum.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float64

_EDGE: Final = -700.0
_TINY: Final = float(np.exp(_EDGE))


def keep_order(
    probabilities: Float64[np.ndarray, "*shape"],
    logarithms: Callable[[], Float64[np.ndarray, "*shape"]],
) -> Float64[np.ndarray, "*shape"]:
    """The probabilities, those below exp(-700) from their logarithms.

    Args:
        probabilities: as computed; zero where they are too small.
        logarithms: gives those of the same, minus infinity where a class is ruled out; called where
            some probability is so small.

    Examples:
        >>> exact = np.array([-1000.0, -2000.0, -np.inf])
        >>> one, two, none = keep_order(np.exp(exact), lambda: exact)
        >>> bool(one > two > none == 0)
        True
    """
    tiny = probabilities < _TINY
    if not tiny.any():
        return probabilities
    ordered = probabilities.copy()
    ordered[tiny] = _TINY / (1 + _EDGE - np.minimum(logarithms()[tiny], _EDGE))
    return ordered


def log_probabilities(
    probabilities: Float64[np.ndarray, "*shape"],
) -> Float64[np.ndarray, "*shape"]:
    """The logarithms of probabilities that `keep_order` gave; minus infinity of zero.

    Examples:
        >>> exact = np.array([-1.0, -1000.0, -2000.0])
        >>> log_probabilities(keep_order(np.exp(exact), lambda: exact)).round(6).tolist()
        [-1.0, -1000.0, -2000.0]
    """
    logarithms = log_of(probabilities)
    tiny = (probabilities < _TINY) & (probabilities > 0)
    logarithms[tiny] = _EDGE + 1 - _TINY / probabilities[tiny]
    return logarithms


def log_of(probabilities: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """Logarithms of probabilities as they are; minus infinity of zero."""
    with np.errstate(divide="ignore"):
        logarithms: Float64[np.ndarray, "*shape"] = np.log(probabilities)
    return logarithms
