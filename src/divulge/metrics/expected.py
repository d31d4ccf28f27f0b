"""What simulated clients, whose truth is known, say of guesses whose truth is not."""

import math

import numpy as np
from jaxtyping import Float64

SHARE = 0.9
"""Share of simulated clients that a limit of errors holds for."""


def largest_error(errors: Float64[np.ndarray, " clients"], share: float = SHARE) -> float:
    """The limit that one more error, exchangeable with these, exceeds in 1 - ``share`` at most.

    Infinity where so few errors give no such limit.

    References:
        Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world, chapter 2.

    Examples:
        >>> largest_error(np.arange(1.0, 10.0)), largest_error(np.arange(8.0))
        (9.0, inf)
    """
    # of n + 1 exchangeable errors the last is among the k smallest with probability k / (n + 1);
    # 1e-9: 0.9 * 10 is 9, but for rounding
    place = math.ceil(share * (len(errors) + 1) - 1e-9)
    return float(np.sort(errors)[place - 1]) if place <= len(errors) else math.inf


def adjust_p_values(p: Float64[np.ndarray, " tests"]) -> Float64[np.ndarray, " tests"]:
    """The lowest false-discovery rate at which each test is listed (Benjamini and Hochberg).

    Ranks of several victims among the same simulated clients depend on each other positively,
    which the rule allows.

    References:
        Benjamini and Hochberg (1995), Controlling the false discovery rate; Bates, Candès, Lei,
        Romano and Sesia (2023), Testing for outliers with conformal p-values, theorem 2.

    Examples:
        >>> adjust_p_values(np.array([0.01, 0.5, 0.02])).tolist()
        [0.03, 0.5, 0.03]
    """
    order = np.argsort(-p, kind="stable")
    rates = p[order] * len(p) / np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(rates))
    return adjusted


def merge_p_values(p: Float64[np.ndarray, " tests"]) -> float:
    """One p-value of all tests, however they depend on each other: twice the median.

    References:
        Rüger (1978), Das maximale Signifikanzniveau des Tests "Lehne H0 ab, wenn k unter n
        gegebenen Tests zur Ablehnung führen": k of n p-values as low as q happen with n q / k.

    Examples:
        >>> merge_p_values(np.array([0.01, 0.02, 0.9, 0.8]))
        0.04
    """
    tests = len(p)
    half = (tests + 1) // 2
    return min(1.0, float(np.sort(p)[half - 1]) * tests / half)
