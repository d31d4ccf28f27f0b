"""Exposure of canaries: how many guesses a trained model saves whoever looks for one."""

import numpy as np
from jaxtyping import Bool, Float64

from divulge.core import Estimate
from divulge.metrics.intervals import CONFIDENCE, normal_quantile

UNLEARNED = float(1 / np.log(2))
"""The mean exposure of many canaries of which nothing was learned, in bits: ranks are uniform."""


def measure_exposure(
    score: Float64[np.ndarray, " canaries"], inserted: Bool[np.ndarray, " canaries"]
) -> Estimate:
    """The mean exposure of inserted canaries among those that were not, in bits.

    The exposure of one is log2 of n + 1 less log2 of its rank among itself and the n canaries that
    were drawn in the same way and not inserted; 1 is the likeliest. So it is log2(n + 1) at most:
    more canaries show more. Ties count by half.

    Args:
        score: higher means more likely inserted.
        inserted: which were, two or more; and two or more were not.

    Returns:
        The mean with a 95 % normal interval, its variance by the jackknife over canaries of both
        kinds. For normal scores it covers the mean of many sets in 93 to 94 % where they overlap
        much, and in 77 to 89 % where nearly all inserted ones lead: it is no proof.

    References:
        Carlini et al. (2019), The secret sharer, section 4 (exposure, by sampling). Departure: the
        random space is the canaries that were not inserted, and the mean has an interval.

    Examples:
        >>> inserted = np.arange(14) < 7
        >>> measure_exposure(np.where(inserted, 1.0, 0.0), inserted).value
        3.0
    """
    inside, outside = np.sort(score[inserted]), np.sort(score[~inserted])
    n = len(outside)
    below, through = (np.searchsorted(outside, inside, side=side) for side in ("left", "right"))
    rank = 1 + n - (below + through) / 2
    # section 4: log2 of the size of the random space, less log2 of the rank in it
    each = np.log2(n + 1) - np.log2(rank)

    # without one of the others, each canary below it is a place further ahead, half a place if tied
    def gain(places: float) -> Float64[np.ndarray, " sums"]:
        nearer = np.log2(rank) - np.log2(np.maximum(rank - places, 1))
        return np.concatenate([[0.0], np.cumsum(nearer)])

    lower, upper = (np.searchsorted(inside, outside, side=side) for side in ("left", "right"))
    tied = gain(0.5)
    gained = (gain(1.0)[lower] + tied[upper] - tied[lower]) / len(inside)
    variance = each.var(ddof=1) / len(each) + (n - 1) * gained.var()
    width = normal_quantile(CONFIDENCE) * float(np.sqrt(variance))
    value = float(each.mean())
    return Estimate(value, max(0.0, value - width), min(float(np.log2(n + 1)), value + width))
