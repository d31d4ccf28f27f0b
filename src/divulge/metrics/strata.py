"""Exposure by stratum: the AUC of each, and whether strata differ.

Strata share no candidates. Intervals hold for all strata at once, by Bonferroni: AUCs of different
strata are almost independent, so the exact quantile of their largest deviation (Šidák's) is lower
by less than 0.01, and Bonferroni's also holds where shadow models that all candidates share make
them depend on each other.

Whether strata differ is tested by permuting strata among members and among non-members. If a score
says nothing of the stratum, given membership, the test is exact, whatever attack was chosen by the
same scores. Strata may also differ in their scores and not in their AUC, as where one is harder for
the model. So what is permuted is the χ² of AUCs with their own variances, which is about the same
under both: the raw spread of AUCs is not. That is approximate: at 5 % it errs in 7 to 9 % of draws
where strata are small and hold other shares of members (docs/results/people.md).

The smallest stratum that can be judged has `FEWEST` members and as many non-members: with eight of
each, an interval reaches guessing even where all members score above all non-members. Where
intervals of several strata hold at once it takes more: 14 of each for five strata.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from scipy import special

from divulge._util.random import stream
from divulge.core import Estimate
from divulge.metrics import membership
from divulge.metrics.intervals import CONFIDENCE

FEWEST = 10
"""Members, and non-members, of the smallest stratum that can be judged."""

PERMUTATIONS = 999
"""Permutations of a test, where there are few candidates."""

FEWEST_PERMUTATIONS = 199
"""Permutations where there are many."""

LEVELS = 128
"""Levels that the test puts scores in, of about equal size: an AUC changes by 0.004 at most."""

_WORK = 10_000_000
"""Numbers that a test counts: about a second of work."""

_BATCH = 50_000
"""Numbers that are counted at a time."""

Score = Float[np.ndarray, " candidates"]
Member = Bool[np.ndarray, " candidates"]
Stratum = Int[np.ndarray, " candidates"]
Rows = Float64[np.ndarray, "permutations strata"]
Counts = Int[np.ndarray, "permutations strata levels"]


class StrataTest(NamedTuple):
    """Whether strata differ in their AUC, and which stands out."""

    p_value: float
    """The chance of AUCs that differ so much if strata are equally exposed."""
    worst: int
    """The stratum whose AUC lies most standard errors above that of all others."""
    worst_p: float
    """The chance that any stratum lies so far above the others; corrected for all of them."""


def judgeable(member: Member, stratum: Stratum, strata: int) -> Bool[np.ndarray, " strata"]:
    """Whether each stratum has `FEWEST` members and non-members.

    Args:
        member: true for members.
        stratum: the number of each candidate's stratum, from 0.
        strata: how many strata there are.
    """
    sizes = np.stack([np.bincount(stratum[group], minlength=strata) for group in (member, ~member)])
    return np.asarray(sizes.min(axis=0) >= FEWEST)


def simultaneous_level(strata: int, confidence: float = CONFIDENCE) -> float:
    """The confidence of each interval with which those of so many strata hold at once.

    Examples:
        >>> simultaneous_level(5)
        0.99
    """
    return 1 - (1 - confidence) / strata


def auc_by_stratum(
    score: Score, member: Member, stratum: Stratum, strata: int
) -> list[Estimate | None]:
    """The AUC within each stratum, with intervals that hold for all at once.

    Args:
        score: one finite score a candidate; higher means more likely a member.
        member: true for members.
        stratum: the number of each candidate's stratum, from 0.
        strata: how many strata there are.

    Returns:
        None for a stratum that is too small to be judged.
    """
    large = judgeable(member, stratum, strata)
    level = simultaneous_level(max(1, int(large.sum())))
    return [
        membership.auc(score[stratum == each], member[stratum == each], level) if fits else None
        for each, fits in enumerate(large.tolist())
    ]


def tpr_by_stratum(
    score: Score, member: Member, stratum: Stratum, strata: int, fpr: float
) -> list[Estimate | None]:
    """The TPR at this FPR of each stratum's own non-members, with intervals as for the AUC.

    Args:
        score: one finite score a candidate; higher means more likely a member.
        member: true for members.
        stratum: the number of each candidate's stratum, from 0.
        strata: how many strata there are.
        fpr: the false-positive rate.

    Returns:
        None for a stratum whose non-members are too few for a lower limit, or that is too small to
        be judged.
    """
    large = judgeable(member, stratum, strata)
    level = simultaneous_level(max(1, int(large.sum())))
    fewest = membership.fewest_nonmembers(fpr, level)
    outside = np.bincount(stratum[~member], minlength=strata)
    return [
        membership.tpr_at_fpr(score[stratum == each], member[stratum == each], fpr, level)
        if fits
        else None
        for each, fits in enumerate((large & (outside >= fewest)).tolist())
    ]


def compare_strata(score: Score, member: Member, stratum: Stratum) -> StrataTest | None:
    """Test whether strata differ in their AUC.

    Strata that cannot be judged are left out.

    Args:
        score: one finite score a candidate; higher means more likely a member.
        member: true for members.
        stratum: the number of each candidate's stratum, from 0.

    Returns:
        None where fewer than two strata can be judged.

    References:
        Chung and Romano (2013), Exact and asymptotically robust permutation tests (a studentised
        statistic); Westfall and Young (1993), Resampling-based multiple testing (the maximum over
        strata); DeLong et al. (1988).
    """
    numbers = np.flatnonzero(judgeable(member, stratum, int(stratum.max()) + 1))
    if len(numbers) < 2:
        return None
    used = np.isin(stratum, numbers)
    level, own = _levels(score[used]), np.searchsorted(numbers, stratum[used])
    shape = len(numbers), int(level.max()) + 1
    groups = [
        _SideOfStrata(level[side], own[side], shape) for side in (member[used], ~member[used])
    ]
    (spread,), (apart,) = _statistics([group.count_levels(group.own[None]) for group in groups])
    drawn = _permute(groups)
    worst = int(apart.argmax())
    return StrataTest(
        _share_reached(drawn.spread, spread),
        int(numbers[worst]),
        _share_reached(drawn.apart.max(axis=1), apart[worst]),
    )


def _levels(score: Score) -> Int[np.ndarray, " candidates"]:
    """Scores as their places among `LEVELS` of about equal size; those that tie stay together."""
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    share = (np.cumsum(counts) - counts) / len(score)
    return np.asarray(np.unique((share * LEVELS).astype(np.int64), return_inverse=True)[1][place])


class _SideOfStrata(NamedTuple):
    """Members, or non-members."""

    level: Int[np.ndarray, " candidates"]
    own: Int[np.ndarray, " candidates"]
    """The stratum of each."""
    shape: tuple[int, int]
    """How many strata there are, and levels."""

    def count_levels(self, rows: Int[np.ndarray, "permutations candidates"]) -> Counts:
        """How many of each stratum have each level, where rows say the stratum of each."""
        strata, levels = self.shape
        cell = (np.arange(len(rows))[:, None] * strata + rows) * levels + self.level
        counts = np.bincount(cell.ravel(), minlength=len(rows) * strata * levels)
        return counts.reshape(len(rows), strata, levels)


class _Statistics(NamedTuple):
    """What is permuted."""

    spread: Float64[np.ndarray, " permutations"]
    """The χ² of AUCs that are the same for all strata."""
    apart: Rows
    """How many standard errors each stratum's AUC lies above that of all others."""


def _share_reached(drawn: Float64[np.ndarray, " permutations"], real: float) -> float:
    """The p-value of a permutation test; rounding makes no difference of what ties."""
    reached = int(np.sum(drawn >= real - 1e-9 * max(1.0, abs(real))))
    return (1 + reached) / (1 + len(drawn))


def _permute(groups: Sequence[_SideOfStrata]) -> _Statistics:
    """The statistics where strata are permuted among members and among non-members."""
    rng = stream(0, "metrics", "strata")
    each = max(sum(len(group.own) for group in groups), math.prod(groups[0].shape))
    count = int(np.clip(_WORK // each, FEWEST_PERMUTATIONS, PERMUTATIONS))
    size = max(1, _BATCH // each)
    parts = []
    for start in range(0, count, size):
        rows = min(size, count - start)
        parts.append(
            _statistics([
                group.count_levels(rng.permuted(np.tile(group.own, (rows, 1)), axis=1))
                for group in groups
            ])
        )  # fmt: skip
    return _Statistics(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _statistics(counts: Sequence[Counts]) -> _Statistics:
    """The statistics of members and non-members by stratum and level, for each permutation.

    As for `divulge.metrics.auc_intervals.areas`, each group gets one candidate more at either end,
    here beyond all scores, so that AUCs stay within (0, 1) and vary.
    """
    inside, outside = (np.pad(each.astype(np.float64), ((0, 0), (0, 0), (1, 1))) for each in counts)
    for group in (inside, outside):
        group[..., [0, -1]] = 1
    m, n = inside.sum(-1), outside.sum(-1)
    above = (np.cumsum(outside, -1) - outside / 2) / n[..., None]
    below = 1 - (np.cumsum(inside, -1) - inside / 2) / m[..., None]
    value = np.sum(inside * above, -1) / m
    variance = np.zeros_like(value)
    for group, share, size in ((inside, above, m), (outside, below, n)):
        variance += np.sum(group * (share - value[..., None]) ** 2, -1) / (size * (size - 1))
    theta = special.logit(value)
    weight = (value * (1 - value)) ** 2 / variance
    total, moment = (each.sum(axis=1, keepdims=True) for each in (weight, weight * theta))
    others = total - weight
    error = np.sqrt(1 / weight + 1 / others)
    return _Statistics(
        np.sum(weight * (theta - moment / total) ** 2, axis=1),
        (theta - (moment - weight * theta) / others) / error,
    )
