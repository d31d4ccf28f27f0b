"""The verdict's test given difficulty: is more told apart than the records themselves explain?

Members and non-members may differ in how hard they are: non-members may be from a later year, or
have noisier labels. A model that never saw any of them is then surer of members, and every attack
on it tells the sets apart. How easy a record is for models that did not learn from it, its *ease*,
says how much of that is the records' own.

Let an attack's score and the ease be two noisy views of what makes a record easy. If all that tells
members apart is that they are easier, the score's deviation is the ease's times r / q: r is the
correlation of the two, and q that of the ease with itself, measured twice (its reliability;
Spearman 1904). So what is tested of a score is what this leaves of it. Permutations move score and
ease together. That alone is not exact, as the ease was learned from members: see `_judge_left`.

Strata of ease are no substitute: what noise hides of the ease stays in the score within a stratum.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from divulge._util.extras import stats
from divulge.metrics.max_test import (
    STATISTICS,
    MaxTest,
    Strata,
    judge_maxima,
    permute_deviations,
)
from divulge.metrics.membership import Member

LEAST_RELIABLE = 0.25
"""Reliability that is supposed of any ease: where labels follow no rule, nothing can be measured
that makes one record easier than another, and a correction for noise would be noise."""

Ease = Float[np.ndarray, "measures records"]
"""How easy each record is for what never saw it, measured in one way or several; higher is easier.
Ranks count, and nothing else."""


class DifficultyTest(NamedTuple):
    """Result of the test of several attacks, given how hard each record is."""

    given: MaxTest
    """What is left of each attack's deviations; an attack shows a leak if that deviates too far."""
    alone: MaxTest
    """The same attacks, whatever makes members differ."""


def max_test_given_difficulty(
    scores: Float[np.ndarray, "attacks records"], member: Member, strata: Strata, ease: Ease
) -> DifficultyTest:
    """Test all attacks on one model together, given how hard each record is.

    The reliability is at least the agreement of several measures, whose errors are their own; and
    it is at least the square of the ease's correlation with any attack's score, since two views
    cannot agree better than the worse of them agrees with what both see.

    Args:
        scores: one row an attack, one score a record; higher means more likely a member.
        member: the truth: true for members.
        strata: the number of each record's stratum, within which labels are permuted.
        ease: how easy each record is for models that never saw it; or how hard.

    Raises:
        DataError: a score is not finite, or a group is empty.

    References:
        Spearman (1904), The proof and measurement of association between two things, for the
        correction of a slope for noise in what it is taken of.
    """
    ease = _turn_towards(scores, ease)
    every = permute_deviations(np.vstack([scores, join_measures(ease)]), member, strata)
    size = len(STATISTICS)
    own, blind = every.drawn[:-size], every.drawn[-size:]
    # permutations have the covariance of the weights: regress each statistic on all of the ease's
    slope = own @ blind.T @ np.linalg.pinv(blind @ blind.T, rcond=1e-6, hermitian=True)
    together = np.array([_correlate(row, blind[0]) for row in own[::size]])
    reliability = max(LEAST_RELIABLE, float(together.max()) ** 2, measure_agreement(ease, strata))
    slope *= np.repeat(together > 0, size)[:, None] / reliability
    alone = judge_maxima(every.observed[:-size], own)
    observed = every.observed[:-size] - slope @ every.observed[-size:]
    return DifficultyTest(_judge_left(observed, own - slope @ blind, own), alone)


def _judge_left(
    left: Float64[np.ndarray, " statistics"],
    drawn: Float64[np.ndarray, "statistics draws"],
    own: Float64[np.ndarray, "statistics draws"],
) -> MaxTest:
    """What is left of the deviations, compared with both its own permutations and all of them.

    An ease that models learned from members, and models that see one shift unlike each other, vary
    more than permutations of fixed scores show: by 1.5 times in simulations, where this test alone
    erred in .14 of 77 audits. So what is left must be as far from 0, too, as a deviation from which
    nothing was taken; then it erred in .02 of 300.
    """
    tests = judge_maxima(left, drawn), judge_maxima(left, own)
    p, below = (np.maximum(*(getattr(test, name) for test in tests)) for name in ("p", "p_below"))
    return MaxTest(p, tests[0].deviation, max(test.critical for test in tests), below)


def _turn_towards(scores: Float[np.ndarray, "attacks records"], ease: Ease) -> Ease:
    """Each measure, reversed where the attacks' ranks fall with it: a loss is an ease reversed."""
    rank = stats.rankdata(scores, axis=1).mean(axis=0)
    rises = [(stats.rankdata(row) - (len(rank) + 1) / 2) @ rank >= 0 for row in ease]
    return np.where(np.array(rises)[:, None], ease, -ease)


def join_measures(ease: Ease) -> Float64[np.ndarray, " records"]:
    """One ease of all measures: the mean of each record's ranks."""
    return np.asarray(stats.rankdata(ease, axis=1).mean(axis=0), np.float64)


def measure_agreement(ease: Ease, strata: Strata) -> float:
    """The mean rank correlation of any two measures within strata; 0 where there is one alone."""
    ranks = stats.rankdata(ease, axis=1)
    for each in np.unique(strata):
        ranks[:, strata == each] -= ranks[:, strata == each].mean(axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(len(ranks)), 2))
    return float(np.mean([_correlate(ranks[a], ranks[b]) for a, b in pairs])) if pairs else 0.0


def _correlate(first: Float64[np.ndarray, " n"], other: Float64[np.ndarray, " n"]) -> float:
    """The correlation of two centred vectors; 0 where one is constant."""
    size = float(np.sqrt((first @ first) * (other @ other)))
    return float(first @ other) / size if size > 0 else 0.0
