"""One exact test of many attacks at once: are members and non-members exchangeable, given the scores?

If a model does not depend on which of the candidates it was trained on, every assignment of the
labels "member" and "non-member" to the same scores was as likely as the true one. So each statistic
is compared with its distribution over permuted labels. Of all statistics of all attacks the largest
standardised one counts, and it is compared with the largest one of each permutation: the chance of a
false alarm is 5 % at most for all of them together, and attacks whose scores are alike cost hardly
more than one of them (Westfall and Young's single-step max-T).

Every statistic is a weighted count of members, with weights that depend on the rank of a score:

* the AUC, whose weights are the ranks, finds a shift of all members;
* the members among the top 1, 2, 5, 10 and 20 % of all scores find a few members that are fully
  exposed, which an AUC hardly notices.

Tied scores share their rank and their places at the top, as if a coin ordered them.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy import stats

from divulge.metrics.membership import Member, split
from divulge.randomness import stream

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Of all scores: the sizes of the tops in which members are counted."""

STATISTICS = ("auc", *(f"top {share:.0%}" for share in SHARES))
"""Names of the statistics of an attack, in their order."""

LEVEL = 0.05
"""The chance of a false alarm that the verdict allows."""

PERMUTATIONS = 4_999
"""At most; an exact test needs no more than 19, and more make its p-value finer."""

_LABELS = 50_000_000
"""Permuted labels at most, in about a second; large audits get fewer permutations."""

_AT_ONCE = 2_000_000
"""Permuted labels in memory at once: 16 MB."""

FEWEST_PERMUTATIONS = 999

LARGE = 10_000
"""Records from which on the normal limit may stand in for permutations."""

FEWEST_AT_TOP = 50
"""The normal limit needs as many members, and as many non-members, in the smallest top."""

NORMAL_DRAWS = 19_999

Weights = Float64[np.ndarray, "statistics records"]


class MaxTest(NamedTuple):
    """What the test of several attacks found."""

    p: Float64[np.ndarray, " attacks"]
    """For each attack, the chance of a maximum over all attacks as high as its own, where
    membership means nothing; the smallest is the p-value of the whole audit."""
    deviation: Float64[np.ndarray, "attacks statistics"]
    """Each statistic in standard deviations from its mean over permutations."""
    critical: float
    """The smallest maximum that would have been a find at `LEVEL`, in standard deviations."""

    @property
    def p_value(self) -> float:
        """The chance of a maximum as high as that of the strongest attack."""
        return float(self.p.min())


def max_test(scores: Float[np.ndarray, "attacks records"], member: Member) -> MaxTest:
    """Test all attacks of an audit together.

    Up to `LARGE` records, and beyond that where a group is small, labels are permuted, and the test
    is exact. For more records the statistics are drawn from the normal distribution that has their
    covariance over all permutations, which the sums of so many labels follow closely.

    Args:
        scores: of each attack, one a record; higher means more likely a member.
        member: the truth.

    Raises:
        DataError: a score is not finite, or a group is empty.

    References:
        Westfall and Young (1993), Resampling-based multiple testing, section 2.3; Phipson and Smyth
        (2010), Permutation p-values should never be zero, section 4; Hoeffding (1951), A
        combinatorial central limit theorem, theorem 4.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> member = np.arange(400) < 200
        >>> test = max_test(rng.normal(size=(3, 400)) + 0.5 * member, member)
        >>> test.p_value < 0.01
        True
    """
    for score in scores:
        split(score, member)
    weights = np.concatenate([_weights(score) for score in scores])
    weights -= weights.mean(1, keepdims=True)
    spread = _spread(weights, int(member.sum()))
    weights[spread > 0] /= spread[spread > 0, None]
    weights[spread == 0] = 0  # a constant score says nothing
    found = weights @ member
    inside, outside = int(member.sum()), int((~member).sum())
    at_top = SHARES[0] * min(inside, outside)
    if len(member) > LARGE and at_top >= FEWEST_AT_TOP:
        drawn = _normal_maxima(weights, inside)
    else:
        drawn = _permuted_maxima(weights, member)
    deviation = found.reshape(len(scores), len(STATISTICS))
    return MaxTest(_p_values(deviation.max(1), drawn), deviation, _critical(drawn))


def _weights(score: Float[np.ndarray, " records"]) -> Weights:
    """What each record adds to each statistic if it is a member."""
    records = len(score)
    rank = stats.rankdata(score)  # 1 is the lowest; ties share the mean of their ranks
    above = records - stats.rankdata(score, method="max")
    tied = stats.rankdata(score, method="max") - stats.rankdata(score, method="min") + 1
    places = [max(1.0, share * records) for share in SHARES]
    return np.stack([rank, *(np.clip((k - above) / tied, 0.0, 1.0) for k in places)])


def _spread(centred: Weights, members: int) -> Float64[np.ndarray, " statistics"]:
    """Standard deviations over all permutations, exactly; next to nothing counts as nothing."""
    records = centred.shape[1]
    share = members * (records - members) / (records * (records - 1))
    spread = np.sqrt(share * np.einsum("sr,sr->s", centred, centred))
    return np.where(spread > 1e-9, spread, 0.0)


def _permuted_maxima(weights: Weights, member: Member) -> Float64[np.ndarray, " draws"]:
    rng = stream(0, "metrics", "max test")
    records = len(member)
    times = int(np.clip(_LABELS // records, FEWEST_PERMUTATIONS, PERMUTATIONS))
    at_once = max(1, _AT_ONCE // records)
    maxima = []
    for start in range(0, times, at_once):
        labels = np.tile(member, (min(at_once, times - start), 1))
        rng.permuted(labels, axis=1, out=labels)
        maxima.append((weights @ labels.T.astype(np.float64)).max(0))
    return np.concatenate(maxima)


def _normal_maxima(weights: Weights, members: int) -> Float64[np.ndarray, " draws"]:
    rng = stream(0, "metrics", "max test")
    records = weights.shape[1]
    share = members * (records - members) / (records * (records - 1))
    values, vectors = np.linalg.eigh(share * weights @ weights.T)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    return (root @ rng.standard_normal((len(root), NORMAL_DRAWS))).max(0)


def _p_values(
    found: Float64[np.ndarray, " attacks"], drawn: Float64[np.ndarray, " draws"]
) -> Float64[np.ndarray, " attacks"]:
    """The truth counts as one of the draws; rounding must not order what ties."""
    ascending = np.sort(drawn)
    as_high = len(drawn) - np.searchsorted(ascending, found - 1e-9, side="left")
    return (1 + as_high) / (1 + len(drawn))


def _critical(drawn: Float64[np.ndarray, " draws"]) -> float:
    """The lowest deviation whose p-value is at most `LEVEL`."""
    allowed = math.floor(LEVEL * (1 + len(drawn)) + 1e-9) - 1
    return float(np.sort(drawn)[len(drawn) - 1 - allowed]) + 1e-9
