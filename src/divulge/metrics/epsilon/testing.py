"""ε is tested upwards from 0: the first ε that is not refuted is the bound.

As no ε is tested before all smaller ones are refuted, a true ε is exceeded only if it is refuted
itself, and that happens with the permitted error. So each ε may have its own number of guesses (see
`sizes`), fixed before the scores are seen, without a correction. Several guessings are tested for
each ε; each has a share of the error (Bonferroni).
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from divulge.core import MembershipDraw, NoiseAssumption
from divulge.errors import SpecError
from divulge.metrics.epsilon import curves, fixed, independent, one_run, sizes

_GRID = (0.0, *(0.02 * 1.25 ** np.arange(38)).tolist())
"""Values of ε, or of μ for Gaussian noise, at which the number of guesses changes, up to 77."""

_COARSE = (0.0, *(0.3 * 4.0 ** np.arange(5)).tolist())
"""The grid used where the number of guesses never changes; it ends at 77, too."""

_SLACKS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Slacks tried for fixed numbers, as an ε: 0 is about right unless δ competes with the error."""

_SHARES = (0.6, 0.2, 0.05, 0.15)
"""Shares of the permitted error for four guessings: both ends alike; members alone, for models that
expose few; non-members alone; all records, for attacks that say no more than yes or no."""

_STEPS = 16
"""Halvings of a range of the grid: to 1e-5 of its upper end, or better."""


class Guessing(NamedTuple):
    """How many of the highest scores are called members, and of the lowest non-members."""

    top: int
    bottom: int
    share: float
    """Share of the permitted error that the test of this guessing may use."""


class EpsilonTest(NamedTuple):
    """The test of one range of ε (of μ for Gaussian noise) against the guesses."""

    noise: NoiseAssumption
    delta: float
    records: int
    error: float
    slack: float
    """How far membership may be from fair coins, as an ε; see `divulge.metrics.epsilon.fixed`."""
    size: int
    """Number of guesses at both ends together."""

    @property
    def guessings(self) -> tuple[Guessing, ...]:
        """The guessings whose hits are counted."""
        if self.noise == "independent-gaussian":
            return (Guessing(self.size // 2, self.size // 2, 1.0),)
        half, whole = self.size - self.size // 2, self.records
        # for every ε alike: a leak of few records has to refute the small ε first
        few = math.isqrt(whole)
        return (
            Guessing(half, self.size // 2, _SHARES[0]),
            Guessing(few, 0, _SHARES[1]),
            Guessing(0, few, _SHARES[2]),
            Guessing(whole - whole // 2, whole // 2, _SHARES[3]),
        )

    def refutes(self, parameter: float, guessing: Guessing, hits: int) -> bool:
        """Whether so many hits refute this value of ε (of μ for Gaussian noise)."""
        top, bottom, share = guessing
        error = share * self.error
        if self.noise == "independent-gaussian":
            return independent.tail_bound(parameter, self.records, top, bottom, hits) <= error
        known = (self.records, top + bottom, hits)
        if self.noise == "gaussian":
            curve = curves.gaussian_dp_curve(parameter)
        else:
            curve = curves.approximate_dp_curve(parameter, self.delta)
        if one_run.is_rarer(curves.add_slack(curve, self.slack), *known, error):
            return True
        if self.noise == "gaussian" or (self.delta > 0 and self.slack > 0):
            return False  # the other bound is proven for fair coins, or δ = 0
        return one_run.steinke_tail_bound(parameter + self.slack, self.delta, *known) <= error


class EpsilonAudit(NamedTuple):
    """What every test of one audit has in common."""

    delta: float
    drawn: MembershipDraw
    noise: NoiseAssumption
    records: int
    error: float

    @lru_cache(maxsize=4096)  # noqa: B019 (an audit is a handful of numbers, and equals its like)
    def test(self, at_most: float) -> EpsilonTest:
        """The test of the parameters from the next lower one on the grid up to this one."""
        slacks = _SLACKS if self.drawn == "fixed" and self.noise == "any" else (0.0,)
        errors = [
            self.error
            * (fixed.balance_probability(self.records, slack) if self.drawn == "fixed" else 1.0)
            for slack in slacks
        ]
        if self.noise == "independent-gaussian":
            choice = sizes.GuessChoice(2 * independent.guesses_per_end(self.records), 0)
        elif self.noise == "gaussian":
            choice = sizes.choose_for_gaussian_dp(at_most, self.records, _SHARES[0] * errors[0])
        else:
            each = tuple((slack, _SHARES[0] * e) for slack, e in zip(slacks, errors, strict=True))
            choice = sizes.choose_for_approximate_dp(at_most, self.delta, self.records, each)
        size, which = choice
        return EpsilonTest(self.noise, self.delta, self.records, errors[which], slacks[which], size)


def prepare_epsilon_audit(
    delta: float, drawn: MembershipDraw, noise: NoiseAssumption, records: int, error: float
) -> EpsilonAudit:
    """The audit, if ε can be bounded in it.

    Raises:
        SpecError: Gaussian noise and δ = 0.
    """
    if noise != "any" and delta == 0:
        raise SpecError(
            "expected delta above 0 beside Gaussian noise, got 0: Gaussian noise has an epsilon "
            "only for a delta, such as 1e-5"
        )
    return EpsilonAudit(delta, drawn, noise, records, error)


def largest_refuted(audit: EpsilonAudit, hits: Callable[[Guessing], int]) -> float:
    """The largest ε below which all are refuted."""
    parameter = 0.0
    for low, high in pairwise(_grid(audit)):
        parameter = _largest_within(audit.test(high), hits, low, high)
        if parameter < high:
            break
    return _epsilon(audit, parameter)


def refutes_more(audit: EpsilonAudit, hits: Callable[[Guessing], int], epsilon: float) -> bool:
    """Whether `largest_refuted` is above an ε; fewer values are tested than to find it."""
    edges = list(pairwise(_grid(audit)))
    around = next((k for k, (_, high) in enumerate(edges) if _epsilon(audit, high) > epsilon), None)
    if around is None:
        return False
    low, high = edges[around]
    if not _refutes_beyond(audit, hits, (low, high), epsilon):
        return False
    # all below have to be refuted too; the nearest are the likeliest not to be
    return all(_is_refuted(audit.test(high), hits, high) for _, high in reversed(edges[:around]))


def _refutes_beyond(
    audit: EpsilonAudit,
    hits: Callable[[Guessing], int],
    within: tuple[float, float],
    epsilon: float,
) -> bool:
    """Whether `_largest_within` is above an ε; it ends where it knows."""
    test, (low, high) = audit.test(within[1]), within
    if _is_refuted(test, hits, high):
        return True  # its ε is above the one in question
    for _ in range(_STEPS):
        if _epsilon(audit, low) > epsilon:
            return True
        if _epsilon(audit, high) <= epsilon:
            return False
        middle = (low + high) / 2
        low, high = (middle, high) if _is_refuted(test, hits, middle) else (low, middle)
    return _epsilon(audit, low) > epsilon


def _grid(audit: EpsilonAudit) -> tuple[float, ...]:
    return _COARSE if audit.noise == "independent-gaussian" else _GRID


def _epsilon(audit: EpsilonAudit, parameter: float) -> float:
    return parameter if audit.noise == "any" else curves.gaussian_epsilon(parameter, audit.delta)


def _largest_within(
    test: EpsilonTest, hits: Callable[[Guessing], int], low: float, high: float
) -> float:
    """The largest value from low to high that is refuted; low if none is.

    The guessings stay the same, so what refutes one value refutes all smaller ones.
    """
    if _is_refuted(test, hits, high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_refuted(test, hits, middle) else (low, middle)
    return low


def _is_refuted(test: EpsilonTest, hits: Callable[[Guessing], int], parameter: float) -> bool:
    return any(test.refutes(parameter, each, hits(each)) for each in test.guessings)
