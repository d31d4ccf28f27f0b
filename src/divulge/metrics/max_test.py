"""One exact test asks of all attacks together: are members and non-members exchangeable?

If a model does not depend on which of the candidates it was trained on, every assignment of the
labels "member" and "non-member" to the same scores was as likely as the true one. So each statistic
is compared with its distribution over permuted labels. Of all statistics of all attacks the largest
standardised one counts, and it is compared with the largest one of each permutation: the chance of
a false alarm is 5 % at most for all of them together, and attacks whose scores are alike cost
hardly more than one of them (Westfall and Young's single-step max-T).

Every statistic is a weighted count of members, with weights that depend on the rank of a score:

* the AUC, whose weights are the ranks, finds a shift of all members;
* the members among the top 1, 2, 5, 10 and 20 % of all scores find a few members that are fully
  exposed, which an AUC hardly notices.

Tied scores share their rank and their places at the top, as if a coin ordered them.

Labels are permuted within strata, such as classes: where members and non-members differ in their
mix of classes, and answers depend on the class alone, that difference is no leak. What is asked is
whether they are exchangeable within a class. Small strata are joined (`join_small_strata`).

The same draws ask the opposite: do attacks rank members *below* non-members? The smallest AUC of
all attacks is compared with the smallest one of each permutation. Where membership means nothing,
this happens in 2.5 % of audits at most (`LEVEL_BELOW`): both tails at 2.5 % are a two-sided test.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.metrics.membership import Member, Score, split_by_membership

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Sizes of the tops in which members are counted, as shares of all scores."""

STATISTICS = ("auc", *(f"top {share:.0%}" for share in SHARES))
"""Names of the statistics of an attack, in the order of the columns of `MaxTest.deviation`."""

LEVEL = 0.05
"""Probability of a false alarm that the verdict allows."""

LEVEL_BELOW = 0.025
"""Probability with which attacks seem to rank members below non-members, where chance does it."""

DRAWS = 1_999
"""Number of permutations. An exact test needs only 19; more make its p-value finer and more
repeatable."""

_AT_ONCE = 2_000_000
"""Number of permuted labels in memory at once: 16 MB."""

LARGE = 10_000
"""Number of records above which the normal limit may replace permutations."""

FEWEST_AT_TOP = 50
"""Members, and non-members, that the smallest top needs for the normal limit to be used."""

_PART = 2**15
"""Number of records whose weights are in memory at once, for the normal limit."""

SMALLEST_STRATUM = 20
"""Records of a stratum: it loses one of them to its mean, so 5 % of what the test can see."""

Weights = Float64[np.ndarray, "statistics records"]
Strata = Int[np.ndarray, " records"]
Rows = Int[np.ndarray, "..."]
_Places = tuple[Int[np.ndarray, " records"], Int[np.ndarray, " records"]]


class MaxTest(NamedTuple):
    """Result of the test of several attacks."""

    p: Float64[np.ndarray, " attacks"]
    """Corrected p-value of each attack: the probability that the maximum over all attacks is as
    high as its own if membership means nothing. The smallest is the whole audit's p-value."""
    deviation: Float64[np.ndarray, "attacks statistics"]
    """Each statistic in standard deviations from its mean over permutations."""
    critical: float
    """The smallest maximum that would be significant at `LEVEL`, in standard deviations."""
    p_below: Float64[np.ndarray, " attacks"]
    """Corrected probability that the lowest AUC of all attacks deviates as far below chance as this
    attack's, if membership means nothing."""

    @property
    def p_value(self) -> float:
        """P-value of the whole audit: that of the strongest attack."""
        return float(self.p.min())


def max_test(
    scores: Float[np.ndarray, "attacks records"], member: Member, strata: Strata | None = None
) -> MaxTest:
    """Test all attacks on one model together.

    Up to `LARGE` records, and beyond that where a group is small, labels are permuted, and the test
    is exact. For more records the statistics are drawn from the normal distribution that has their
    covariance over all permutations, which the sums of so many labels follow closely.

    Args:
        scores: one row an attack, one score a record; higher means more likely a member.
        member: the truth: true for members.
        strata: the number of each record's stratum, within which labels are permuted; all records
            are one stratum, unless given.

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
    return max_test_of_models([scores], [member], None if strata is None else [strata])


def max_test_of_models(
    scores: Sequence[Collection[Score]],
    members: Sequence[Member],
    strata: Sequence[Strata] | None = None,
) -> MaxTest:
    """Test the same attacks on several models whose members were drawn independently.

    The deviations of a statistic are added over models. Labels are permuted within each model.

    Args:
        scores: of each model the scores of each attack; the same attacks in the same order.
        members: the truth about each model.
        strata: those of each model, as for `max_test`.

    Raises:
        DataError: see `max_test`.
    """
    observed: Any = 0.0
    drawn: Any = 0.0
    single = [np.zeros(len(member), np.int64) for member in members]
    each = zip(scores, members, single if strata is None else strata, strict=True)
    for number, (score, member, strata_of) in enumerate(each):
        own = permute_deviations(score, member, strata_of, number)
        observed, drawn = observed + own.observed, drawn + own.drawn
    return judge_maxima(observed / math.sqrt(len(scores)), drawn / math.sqrt(len(scores)))


def judge_maxima(
    observed: Float64[np.ndarray, " statistics"], drawn: Float64[np.ndarray, "statistics draws"]
) -> MaxTest:
    """Compare the maximum over all statistics with that of each permutation.

    Args:
        observed: all statistics of each attack in turn.
        drawn: the same where membership means nothing, one column a permutation.
    """
    maxima, minima = drawn.max(0), drawn[:: len(STATISTICS)].min(0)
    deviation = observed.reshape(-1, len(STATISTICS))
    below = _p_values(-deviation[:, 0], -minima)
    return MaxTest(_p_values(deviation.max(1), maxima), deviation, _critical(maxima), below)


def join_small_strata(strata: Strata, scores: Collection[Score]) -> Strata:
    """Strata of at least `SMALLEST_STRATUM` records: smaller ones are joined to such as they are.

    Which strata are alike is told by the mean rank of their scores over all attacks. Where some are
    small and no attack's ranks depend on the stratum, all records are one stratum: small strata
    would cost power, and no mix of them tells members apart. Membership is not looked at, so the
    test within joined strata is as exact as within those that were given.

    Args:
        strata: the number of each record's stratum.
        scores: of each attack, one score a record.

    Examples:
        >>> strata, scores = np.arange(60) % 6, np.arange(60.0)[None] + 100 * (np.arange(60) % 6)
        >>> join_small_strata(strata, scores)[:6].tolist()
        [0, 0, 1, 1, 2, 2]
    """
    _, place = np.unique(strata, return_inverse=True)
    counts = np.bincount(place)
    total, differ = np.zeros(len(place)), counts.min() >= SMALLEST_STRATUM
    for score in scores:
        rank = stats.rankdata(score)
        total += rank
        differ = differ or _depends_on(place, rank)
    if not differ:
        return np.zeros_like(place)
    mean = np.bincount(place, total / len(scores)) / counts
    joined, number, size = np.zeros(len(counts), np.int64), 0, 0
    for each in np.argsort(mean, kind="stable"):
        if size >= SMALLEST_STRATUM:
            number, size = number + 1, 0
        joined[each] = number
        size += int(counts[each])
    if size < SMALLEST_STRATUM and number:
        joined[joined == number] = number - 1
    return joined[place]


def _depends_on(place: Strata, rank: Float[np.ndarray, " records"]) -> bool:
    """Whether ranks differ between strata (Kruskal and Wallis 1952)."""
    counts, spread = np.bincount(place), rank.var(ddof=1)
    between = (np.bincount(place, rank) ** 2 / counts).sum() - rank.sum() ** 2 / len(place)
    return bool(spread > 0 and stats.chi2.sf(between / spread, len(counts) - 1) <= LEVEL)


def _rows_by_stratum(strata: Strata) -> list[Rows]:
    return [np.flatnonzero(strata == each) for each in np.unique(strata)]


class Permutations(NamedTuple):
    """Statistics of the attacks on one model, standardised, those of each attack in turn."""

    observed: Float64[np.ndarray, " statistics"]
    drawn: Float64[np.ndarray, "statistics draws"]
    """Where membership means nothing."""


def permute_deviations(
    scores: Collection[Score], member: Member, strata: Strata, number: int = 0
) -> Permutations:
    """All statistics of one model, as observed and where membership means nothing.

    Args:
        scores: of each attack, one score a record.
        member: true for members.
        strata: the number of each record's stratum.
        number: of the model, which tells its permutations from those of others.

    Raises:
        DataError: see `max_test`.
    """
    rng, rows = stream(0, "metrics", "max test", number), _rows_by_stratum(strata)
    for score in scores:
        split_by_membership(score, member)
    inside, outside = int(member.sum()), int((~member).sum())
    if len(member) > LARGE and SHARES[0] * min(inside, outside) >= FEWEST_AT_TOP:
        return Permutations(*_by_limit([_places(score) for score in scores], member, rows, rng))
    weights = np.concatenate([standard_weights(score, member, rows) for score in scores])
    return Permutations(weights @ member, _permute(weights, member, rows, rng))


def standard_weights(score: Score, member: Member, strata: Sequence[Rows]) -> Weights:
    """What each record adds to each of `STATISTICS`, standardised, if it is a member.

    Over all permutations of membership within strata the sums have mean 0 and variance 1.

    Args:
        score: one score a record.
        member: true for members.
        strata: the rows of each stratum.
    """
    weights = _weights(*_places(score), len(score))
    variance = np.zeros(len(weights))
    for own in strata:
        centred = weights[:, own] - weights[:, own].mean(1, keepdims=True)
        variance += _share(member[own]) * np.einsum("sr,sr->s", centred, centred)
        weights[:, own] = centred
    weights /= _spread(variance)[:, None]
    return weights


def _weights(
    above: Int[np.ndarray, " part"], tied: Int[np.ndarray, " part"], records: int
) -> Float64[np.ndarray, "statistics part"]:
    """What each record of a part of so many records adds to each statistic if it is a member."""
    places = np.array([[max(1, round(share * records))] for share in SHARES])
    # ties share the mean of their ranks, and the places at the top
    rank = records - above - (tied - 1) / 2
    return np.concatenate([rank[None], np.clip((places - above) / tied, 0.0, 1.0)])


def deviations(score: Score, member: Member) -> Float64[np.ndarray, " statistics"]:
    """Each statistic of one attack on one model, in standard deviations over all permutations."""
    scaled: Float64[np.ndarray, " statistics"] = (
        standard_weights(score, member, [np.arange(len(member))]) @ member
    )
    return scaled


def members_on_top(score: Score, member: Member, places: int) -> float:
    """How many of the highest scores are members'; those that tie for the last places share them.

    Examples:
        >>> members_on_top(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]), 2)
        1.5
    """
    above, tied = _places(score)
    return float(np.clip((places - above) / tied, 0.0, 1.0) @ member)


def _places(
    score: Float[np.ndarray, " records"],
) -> _Places:
    """For each record, how many scores are higher, and how many the same, its own included."""
    _, level, count = np.unique(score, return_inverse=True, return_counts=True)
    higher = len(score) - np.cumsum(count)
    counted = np.int32 if len(score) < 2**31 else np.int64  # those of all attacks are held at once
    return higher.astype(counted)[level], count.astype(counted)[level]


def _share(member: Member) -> float:
    """What a sum of squares is multiplied by for the variance over all permutations."""
    members, records = int(member.sum()), len(member)
    return members * (records - members) / (records * max(1, records - 1))


def _spread(variance: Float64[np.ndarray, " statistics"]) -> Float64[np.ndarray, " statistics"]:
    """Standard deviations over all permutations; infinite for constant scores: they say nothing."""
    spread = np.sqrt(variance)
    return np.where(spread > 1e-9, spread, np.inf)  # next to nothing counts as nothing


def _permute(
    weights: Weights,
    member: Member,
    strata: Sequence[Rows],
    rng: np.random.Generator,
) -> Float64[np.ndarray, "statistics draws"]:
    records = len(member)
    at_once = max(1, _AT_ONCE // records)
    drawn = np.empty((len(weights), DRAWS))
    for start in range(0, DRAWS, at_once):
        labels = np.tile(member, (min(at_once, DRAWS - start), 1))
        for own in strata:
            labels[:, own] = rng.permuted(labels[:, own], axis=1)
        drawn[:, start : start + at_once] = weights @ labels.T.astype(np.float64)
    return drawn


def _by_limit(
    places: Sequence[_Places],
    member: Member,
    strata: Sequence[Rows],
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, " statistics"], Float64[np.ndarray, "statistics draws"]]:
    """The normal limit; a part of the records at a time, so that memory does not grow with them."""
    total = len(places) * len(STATISTICS)
    products, observed = np.zeros((total, total)), np.zeros(total)
    for own in strata:
        parts = [own[start : start + _PART] for start in range(0, len(own), _PART)]
        mean = sum(_all_weights(places, part).sum(1) for part in parts)[:, None] / len(own)
        for part in parts:
            centred = _all_weights(places, part) - mean
            products += _share(member[own]) * (centred @ centred.T)
            observed += centred @ member[part]
    spread = _spread(np.diag(products))
    return observed / spread, _draw_from_limit(products / spread / spread[:, None], rng)


def _all_weights(
    places: Sequence[_Places], part: Int[np.ndarray, " part"]
) -> Float64[np.ndarray, "statistics part"]:
    return np.concatenate([_weights(above[part], tied[part], len(above)) for above, tied in places])


def _draw_from_limit(
    covariance: Float64[np.ndarray, "statistics statistics"], rng: np.random.Generator
) -> Float64[np.ndarray, "statistics draws"]:
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    drawn: Float64[np.ndarray, "statistics draws"] = root @ rng.standard_normal((len(root), DRAWS))
    return drawn


def _p_values(
    observed: Float64[np.ndarray, " attacks"], drawn: Float64[np.ndarray, " draws"]
) -> Float64[np.ndarray, " attacks"]:
    """The truth counts as one of the draws; rounding must not order what ties."""
    ascending = np.sort(drawn)
    as_high = len(drawn) - np.searchsorted(ascending, observed - 1e-9, side="left")
    return (1 + as_high) / (1 + len(drawn))


def _critical(drawn: Float64[np.ndarray, " draws"]) -> float:
    """The lowest deviation whose p-value is at most `LEVEL`."""
    allowed = math.floor(LEVEL * (1 + len(drawn)) + 1e-9) - 1
    return float(np.sort(drawn)[len(drawn) - 1 - allowed]) + 1e-9
