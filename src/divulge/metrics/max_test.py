"""One test of many statistics at once: the highest of them under permutations."""

import numpy as np
from jaxtyping import Float64

_ROUNDING = 1e-9
"""Standardised statistics that differ by less are equal: sums in another order are not a find."""


def max_p_value(statistics: Float64[np.ndarray, "draws statistics"]) -> float:
    """The share of draws whose highest standardised statistic is as high as the observed one.

    Each statistic is standardised by its mean and deviation over all draws, the observed one
    included: so what was observed is treated like every other draw, and where all draws are
    exchangeable p is 0.05 or less in 5 % of cases at most. Statistics that are strongly correlated
    cost nothing, because all are taken from the same draws. A statistic that is the same in all
    draws says nothing and is left out; where none is left, p is 1.

    Args:
        statistics: one row a draw and one column a statistic. The first row is what was observed,
            the others were drawn where there is nothing to find. High means a find.

    References:
        Westfall and Young (1993), Resampling-based multiple testing, section 2.6 (max T); Phipson
        and Smyth (2010), Permutation p-values should never be zero, section 4.

    Examples:
        >>> max_p_value(np.array([[3.0, 1.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
        0.25
    """
    centred = statistics - statistics.mean(axis=0)
    spread = centred.std(axis=0)
    told = spread > _ROUNDING * np.abs(statistics).max(axis=0, initial=0)
    if not told.any():
        return 1.0
    highest = (centred[:, told] / spread[told]).max(axis=1)
    return float((highest >= highest[0] - _ROUNDING).mean())
