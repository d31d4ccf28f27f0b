"""The chance that a figure as high comes about where labels mean nothing."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int, Shaped
from scipy import special

Labels = Shaped[np.ndarray, " records"]
Groups = Int[np.ndarray, " records"]


def p_value(
    statistic: Callable[[Labels], float],
    labels: Labels,
    group: Groups,
    rng: np.random.Generator,
    times: int = 999,
) -> float:
    """The share of permutations of labels within groups with as high a statistic, or a higher one.

    A statistic that fits models to the labels is computed anew for each permutation, so that the
    test is of the whole pipeline, whatever it overfits to; it costs as many runs of it as there
    are permutations, and one. The true labels count as one of the permutations, so that p is never
    zero, and where labels are exchangeable within groups p is 0.05 or less in 5 % of cases at most.

    Args:
        statistic: of labels; high means a find.
        labels: of the records.
        group: of each record; labels change places within groups alone. Where members can be in
            one set of records only, that set is a group: else the test finds the set.
        rng: permutes.
        times: how many permutations.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, section 4.
    """
    found = statistic(labels)
    rows = [np.flatnonzero(group == each) for each in np.unique(group)]
    as_high = 0
    for _ in range(times):
        permuted = labels.copy()
        for own in rows:
            permuted[own] = labels[rng.permutation(own)]
        as_high += statistic(permuted) >= found
    return (1 + as_high) / (1 + times)


def combine(p_values: Sequence[float]) -> float:
    """The p-value of several independent tests together.

    Where every null hypothesis is true it is 0.05 or less in 5 % of cases at most, for p-values of
    few levels too, which make it larger.

    Args:
        p_values: each above 0.

    References:
        Fisher (1932), Statistical methods for research workers, section 21.1: minus twice the sum
        of k logarithms is chi-square distributed with 2 k degrees of freedom.

    Examples:
        >>> round(combine([0.05, 0.05]), 4)
        0.0175
    """
    return float(special.gammaincc(len(p_values), -math.fsum(map(math.log, p_values))))
