"""The test of all attacks on several models that are each other's shadows.

Permuting the labels of each model, with its scores as they are, takes models for independent. The
scores of an attack that reads shadows are not: they depend on who the other models' members are,
and LiRA's deviations, added over models, have twice the variance. Two ways stay valid:

* All memberships are permuted together, a record's as one, and every model is scored again. If no
  model depends on its members, each permutation is as likely as the truth, and the test is exact.
* Each model is tested by itself, and its p-values are merged: the k-th smallest of T, times T / k,
  with k half of T, rounded up. That is valid however the models depend on each other, and sees
  less where each model shows little.

The first is for attacks that score in milliseconds, the second for all others that read shadows.
Attacks that read no other model are tested with the first, or by independent permutations. With
several groups of attacks, each pays by its share of all attacks (Bonferroni, weighted).
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy import special

from divulge.metrics.max_test import (
    LEVEL,
    STATISTICS,
    MaxTest,
    deviations,
    max_test,
    max_test_of_models,
)
from divulge.metrics.membership import Member

DRAWS = 199
"""Joint permutations. Each scores every model again, so there are fewer than for fixed scores."""

Drawn = Float64[np.ndarray, "attacks statistics draws"]
"""The sum over models of every statistic, for each joint permutation."""


def joint_test(
    scores: Sequence[Float[np.ndarray, "attacks records"]],
    members: Sequence[Member],
    blind: Bool[np.ndarray, " attacks"],
    drawn: Drawn | None,
) -> MaxTest:
    """Test the same attacks on several models that may be each other's shadows.

    Args:
        scores: one matrix a model, with a row an attack.
        members: the truth about each model.
        blind: true for attacks that read no other model.
        drawn: the sums over models for joint permutations, NaN for attacks that were not scored
            again; None if there were no joint permutations.

    Raises:
        DataError: a score is not finite, or a group is empty.

    References:
        Rüger (1978), Das maximale Signifikanzniveau des Tests "Lehne H0 ab, wenn k unter n
        gegebenen Tests zur Ablehnung führen"; Vovk and Wang (2020), Combining p-values via
        averaging, section 5; Westfall and Young (1993), Resampling-based multiple testing.
    """
    again = np.zeros_like(blind) if drawn is None else ~np.isnan(drawn).any(axis=(1, 2))
    groups = [(again, "again"), (blind & ~again, "blind"), (~blind & ~again, "merged")]
    count = len(blind)
    p, p_below, critical = np.ones(count), np.ones(count), []
    deviation = np.zeros((count, len(STATISTICS)))
    for rows, way in groups:
        if not rows.any():
            continue
        own, paid = [score[rows] for score in scores], count / rows.sum()
        if way == "again":
            assert drawn is not None
            test = _test_scored_again(own, members, drawn[rows])
        elif way == "blind":
            test = max_test_of_models(own, members)
        else:
            test = _merge_models(own, members)
        # weighted Bonferroni: a group pays by its share of all attacks
        p[rows] = np.minimum(1.0, test.p * paid)
        p_below[rows] = np.minimum(1.0, test.p_below * paid)
        deviation[rows] = test.deviation
        critical.append(test.critical + _stricter(paid))
    return MaxTest(p, deviation, min(critical), p_below)


def add_deviations(
    scores: Sequence[Float[np.ndarray, " records"]], members: Sequence[Member]
) -> Float64[np.ndarray, " statistics"]:
    """The sum over models of each statistic of one attack."""
    each = [deviations(*pair) for pair in zip(scores, members, strict=True)]
    total: Float64[np.ndarray, " statistics"] = np.sum(each, axis=0)
    return total


def _test_scored_again(
    scores: Sequence[Float[np.ndarray, "attacks records"]],
    members: Sequence[Member],
    drawn: Drawn,
) -> MaxTest:
    """The truth is one of the draws, and is treated as all of them are."""
    observed = np.stack([add_deviations(attack, members) for attack in zip(*scores, strict=True)])
    all_ = np.concatenate([observed[:, :, None], drawn], axis=2)
    spread = all_.std(axis=2, keepdims=True)
    moved = all_ - all_.mean(axis=2, keepdims=True)
    all_ = np.divide(moved, spread, out=np.zeros_like(all_), where=spread > 1e-9)
    # in deviations of models that are independent, so that what a leak adds counts for what it is
    unit = spread[:, 0].min() / math.sqrt(len(scores)) or 1.0
    # max T (Westfall and Young): one maximum a draw keeps the error over all attacks
    maxima, minima = all_.max(axis=(0, 1)), all_[:, 0].min(axis=0)
    allowed = math.floor(LEVEL * len(maxima) + 1e-9)
    return MaxTest(
        p=_share_as_high(all_[:, :, 0].max(1), maxima),
        deviation=all_[:, :, 0] * unit,
        critical=float(np.sort(maxima)[-allowed]) * unit + 1e-9,
        p_below=_share_as_high(-all_[:, 0, 0], -minima),
    )


def _share_as_high(
    observed: Float64[np.ndarray, " attacks"], drawn: Float64[np.ndarray, " draws"]
) -> Float64[np.ndarray, " attacks"]:
    """Rounding must not order what ties."""
    share: Float64[np.ndarray, " attacks"] = (drawn >= observed[:, None] - 1e-9).mean(axis=1)
    return share


def _merge_models(
    scores: Sequence[Float[np.ndarray, "attacks records"]], members: Sequence[Member]
) -> MaxTest:
    each = [max_test(*pair) for pair in zip(scores, members, strict=True)]
    models = len(each)
    enough = -(-models // 2)
    paid = models / enough
    critical = np.mean([test.critical for test in each]) + _stricter(paid)
    return MaxTest(
        p=_merge([test.p for test in each], enough),
        deviation=np.sum([test.deviation for test in each], axis=0) / math.sqrt(models),
        critical=float(critical) * math.sqrt(models),  # half of the models have to show it
        p_below=_merge([test.p_below for test in each], enough),
    )


def _merge(
    each: Sequence[Float64[np.ndarray, " attacks"]], enough: int
) -> Float64[np.ndarray, " attacks"]:
    """Rüger's: so many p-values are as low as this, and pay for the choice."""
    kth: Float64[np.ndarray, " attacks"] = np.sort(np.stack(each), axis=0)[enough - 1]
    return np.minimum(1.0, kth * len(each) / enough)


def _stricter(paid: float) -> float:
    """How much further a normal deviate has to go for a level so many times lower."""
    return float(special.ndtri(1 - LEVEL / paid) - special.ndtri(1 - LEVEL))
