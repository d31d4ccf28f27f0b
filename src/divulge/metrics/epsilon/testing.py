"""Tests of ε upwards from 0: the first that is not refuted is the bound.

As no ε is tested before all smaller ones are refuted, a true ε is exceeded only if it is refuted
itself, and that happens with the permitted error. So each ε may have its own number of guesses (see
`sizes`), fixed before the scores are seen, without a correction. Several guessings are tested for
each ε; each has a share of the error (Bonferroni).
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from divulge.core import Drawn, Noise
from divulge.errors import SpecError
from divulge.metrics.epsilon import curves, independent, one_run, sizes

_GRID = (0.0, *(0.02 * 1.25 ** np.arange(38)).tolist())
"""Where the number of guesses changes: values of ε, or of μ for Gaussian noise. The last is 77."""

_COARSE = (0.0, *(0.3 * 4.0 ** np.arange(5)).tolist())
"""In its place where the number is always the same. The last is 77, too."""

_SHARES = (0.6, 0.2, 0.05, 0.15)
"""Of the error: both ends alike; members alone, as where few are exposed; non-members alone;
all records, as where the attack has no more to say than yes or no."""


class Guessing(NamedTuple):
    """How many of the highest scores are called members, and of the lowest non-members."""

    top: int
    bottom: int
    share: float
    """Of the permitted error."""


class EpsilonTest(NamedTuple):
    """What is held against the guesses."""

    noise: Noise
    delta: float
    records: int
    error: float

    def guessings(self, at_most: float) -> tuple[Guessing, ...]:
        """Fixed for all values of the parameter up to this one, from the next lower on the grid."""
        if self.noise == "independent-gaussian":
            each = independent.guesses(self.records)
            return (Guessing(each, each, 1.0),)
        error = _SHARES[0] * self.error
        if self.noise == "gaussian":
            size = sizes.gaussian(at_most, self.records, error)
        else:
            size = sizes.approximate(at_most, self.delta, self.records, error)
        half, whole = size - size // 2, self.records
        return (
            Guessing(half, size // 2, _SHARES[0]),
            Guessing(half, 0, _SHARES[1]),
            Guessing(0, half, _SHARES[2]),
            Guessing(whole - whole // 2, whole // 2, _SHARES[3]),
        )

    def refutes(self, parameter: float, guessing: Guessing, hits: int) -> bool:
        """Whether so many hits are too many for this ε (μ for Gaussian noise)."""
        top, bottom, share = guessing
        error = share * self.error
        if self.noise == "independent-gaussian":
            return independent.tail(parameter, self.records, top, bottom, hits) <= error
        known = (self.records, top + bottom, hits)
        if self.noise == "gaussian":
            return one_run.rarer(curves.gaussian(parameter), *known, error)
        curve = curves.approximate(parameter, self.delta)
        return (
            one_run.rarer(curve, *known, error)
            or one_run.steinke(parameter, self.delta, *known) <= error
        )


def epsilon_test(
    delta: float, drawn: Drawn, noise: Noise, records: int, error: float
) -> EpsilonTest:
    """The test for an audit of this kind; see `bound.epsilon_lower_bound` for fixed numbers.

    Raises:
        SpecError: Gaussian noise and δ = 0.
    """
    if noise != "any" and delta == 0:
        raise SpecError(
            "expected delta above 0 beside Gaussian noise, got 0: Gaussian noise has an epsilon "
            "only for a delta, such as 1e-5"
        )
    if drawn == "fixed":
        error *= _even_chance(records)
    return EpsilonTest(noise, delta, records, error)


def _even_chance(records: int) -> float:
    """The probability that fair coins make exactly half of them members."""
    half = records // 2
    log = special.gammaln(2 * half + 1) - 2 * special.gammaln(half + 1) - 2 * half * math.log(2)
    return math.exp(log)


def largest(test: EpsilonTest, hits: Callable[[Guessing], int]) -> float:
    """The largest ε below which all are refuted."""
    parameter = 0.0
    for low, high in pairwise(_COARSE if test.noise == "independent-gaussian" else _GRID):
        parameter = _within(test, hits, low, high)
        if parameter < high:
            break
    return parameter if test.noise == "any" else curves.gaussian_epsilon(parameter, test.delta)


def _within(test: EpsilonTest, hits: Callable[[Guessing], int], low: float, high: float) -> float:
    """The largest value from low to high that is refuted; low if none is.

    The guessings stay the same, so what refutes one value refutes all smaller ones.
    """
    counted = [(guessing, hits(guessing)) for guessing in test.guessings(high)]

    def refuted(parameter: float) -> bool:
        return any(test.refutes(parameter, *one) for one in counted)

    if refuted(high):
        return high
    for _ in range(16):  # to 1e-5 of its upper end, or better
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
