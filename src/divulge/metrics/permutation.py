"""Permutation tests give the probability of so high a statistic if labels mean nothing."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy import special

from divulge._util.extras import stats
from divulge.metrics import max_test

Labels = Shaped[np.ndarray, " records"]
Groups = Int[np.ndarray, " records"]


def permutation_p_value(
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
        statistic: computes the statistic of labels; a high value speaks for a leak.
        labels: the true label of each record.
        group: the group of each record; labels change places within groups alone. Where members
            can be in one set of records only, that set is a group: else the test finds the set.
        rng: draws the permutations.
        times: the number of permutations.

    References:
        Phipson and Smyth (2010), Permutation p-values should never be zero, section 4.
    """
    observed = statistic(labels)
    rows = [np.flatnonzero(group == each) for each in np.unique(group)]
    as_high = 0
    for _ in range(times):
        permuted = labels.copy()
        for own in rows:
            permuted[own] = labels[rng.permutation(own)]
        as_high += statistic(permuted) >= observed
    # Phipson and Smyth, section 4: the true labels are one of the permutations
    return (1 + as_high) / (1 + times)


MOST, ENOUGH, _AT_ONCE = 20_000, 20, 500
"""Limits of `sequential_p`: the most permutations, including the truth; the number of permutations
as extreme as the truth after which it stops; and how many permutations are drawn together."""


def sequential_p(
    observed: float, draw: Callable[[int], Float[np.ndarray, " permutations"]]
) -> float:
    """The share of permutations with as high a statistic, drawn only as long as needed.

    Permutations are drawn until 20 are as high as the truth, or 19,999 are drawn. Where the truth
    is as likely as each permutation, p is at most a with a chance of at most a, for every a.

    Args:
        observed: the statistic of the truth.
        draw: draws the statistics of as many permutations as it is asked for.

    References:
        Besag and Clifford (1991), Sequential Monte Carlo p-values; Phipson and Smyth (2010) for
        counting the truth as one of the permutations.
    """
    observed -= 1e-9 * (1 + abs(observed))  # equal sums may differ by rounding
    drawn = extreme = 0
    while drawn < MOST - 1:
        many = min(_AT_ONCE, MOST - 1 - drawn)
        as_high = np.flatnonzero(draw(many) >= observed)
        if extreme + len(as_high) >= ENOUGH:
            # Besag and Clifford: h as extreme, over the number of draws that it took
            return ENOUGH / (drawn + 1 + int(as_high[ENOUGH - extreme - 1]))
        extreme += len(as_high)
        drawn += many
    return (1 + extreme) / MOST


def count_log_arrangements(labels: Labels, group: Groups) -> float:
    """The logarithm of the number of different permutations of labels within groups.

    Args:
        labels: the label of each record.
        group: the group of each record.

    Examples:
        >>> labels, group = np.array([1, 1, 0, 0, 1]), np.array([0, 0, 0, 0, 1])
        >>> round(math.exp(count_log_arrangements(labels, group)), 6)
        6.0
    """
    total = 0.0
    for each in np.unique(group):
        _, counts = np.unique(labels[group == each], return_counts=True)
        total += special.gammaln(counts.sum() + 1) - special.gammaln(counts + 1).sum()
    return float(total)


def rank_sum_p(
    score: Float[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    group: Groups,
    rng: np.random.Generator,
    *,
    two_sided: bool = True,
) -> float:
    """The chance of as high a rank sum of the members where membership means nothing in a group.

    Membership is permuted within groups, and the sum of the members' ranks (ties share theirs) is
    held against its mean over all permutations; exact whatever the sizes and ties, see
    `sequential_p`.

    Args:
        score: one finite score a record.
        member: true for members.
        group: the group of each record.
        rng: draws the permutations.
        two_sided: whether a low sum counts as much as a high one.
    """
    rank = stats.rankdata(score)
    rows = [np.flatnonzero(group == each) for each in np.unique(group)]
    rows = [own for own in rows if member[own].any() and not member[own].all()]
    # centred, so that strata of other sizes add up to a sum around 0
    strata = [(rank[own] - rank[own].mean(), member[own].astype(np.float64)) for own in rows]

    def draw(many: int) -> Float[np.ndarray, " permutations"]:
        sums = np.zeros(many)
        for ranks, own in strata:
            sums += rng.permuted(np.broadcast_to(own, (many, len(own))), axis=1) @ ranks
        return np.abs(sums) if two_sided else sums

    observed = sum((float(ranks @ own) for ranks, own in strata), 0.0)
    return sequential_p(abs(observed) if two_sided else observed, draw)


def membership_p(
    score: Float[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    group: Groups,
    rng: np.random.Generator,
) -> float:
    """The chance of as strong a sign of membership where it means nothing in a group.

    The signs are the statistics of the verdict, see `max_test`: an AUC as far from one half, above
    or below, or as many members among the top 1, 2, 5, 10 or 20 % of the scores. Each is
    standardised over the permutations of membership within groups, and the largest one counts; so
    p is at most a with a chance of at most a, whatever the sizes and ties, see `sequential_p`.

    Args:
        score: one finite score a record.
        member: true for members.
        group: the group of each record.
        rng: draws the permutations.
    """
    rows = [np.flatnonzero(group == each) for each in np.unique(group)]
    rows = [own for own in rows if member[own].any() and not member[own].all()]
    weights = max_test.standard_weights(score, member, rows)

    def largest(sums: Float[np.ndarray, "statistics permutations"]) -> Float[np.ndarray, " _"]:
        sums[0] = np.abs(sums[0])  # the AUC
        return np.asarray(sums.max(axis=0))

    def draw(many: int) -> Float[np.ndarray, " permutations"]:
        sums = np.zeros((len(weights), many))
        for own in rows:
            moved = rng.permuted(np.broadcast_to(member[own], (many, len(own))), axis=1)
            sums += weights[:, own] @ moved.T.astype(np.float64)
        return largest(sums)

    observed = sum((weights[:, own] @ member[own] for own in rows), np.zeros(len(weights)))
    return sequential_p(float(largest(observed[:, None])[0]), draw)


def matches_p(
    guess: Int[np.ndarray, " records"],
    truth: Int[np.ndarray, " records"],
    group: Groups,
    rng: np.random.Generator,
) -> float:
    """The chance of as many right guesses where the truth means nothing in a group.

    Args:
        guess: the guessed number of each record.
        truth: the true number of each record, which is permuted within groups.
        group: the group of each record.
        rng: draws the permutations.
    """
    rows = [np.flatnonzero(group == each) for each in np.unique(group)]

    def draw(many: int) -> Float[np.ndarray, " permutations"]:
        right = np.zeros(many)
        for own in rows:
            moved = rng.permuted(np.broadcast_to(truth[own], (many, len(own))), axis=1)
            right += (moved == guess[own]).sum(axis=1)
        return right

    return sequential_p(float((guess == truth).sum()), draw)


def pairing_p(distance: Float[np.ndarray, "units units"], rng: np.random.Generator) -> float:
    """The chance that guesses lie as near their own truths where these are paired by chance.

    Args:
        distance: the distance of each guess (row) from each truth (column).
        rng: draws the permutations.
    """
    units = np.arange(len(distance))

    def draw(many: int) -> Float[np.ndarray, " permutations"]:
        order = rng.permuted(np.broadcast_to(units, (many, len(units))), axis=1)
        return np.asarray(-distance[units, order].sum(axis=1))

    return sequential_p(-float(np.trace(distance)), draw)


def signs_p(values: Float[np.ndarray, " units"], rng: np.random.Generator) -> float:
    """The chance of as high a sum where each value is as likely with the other sign.

    With n values other than 0 it is never below 2⁻ⁿ but by the luck of the draw.

    Args:
        values: independent, one a unit.
        rng: draws signs.

    References:
        Fisher (1935), The design of experiments, section 21.
    """

    def draw(many: int) -> Float[np.ndarray, " permutations"]:
        return np.asarray(rng.choice([-1.0, 1.0], size=(many, len(values))) @ values)

    return sequential_p(float(values.sum()), draw)


def combine_p_values(p_values: Sequence[float]) -> float:
    """The p-value of several independent tests together.

    Where every null hypothesis is true it is 0.05 or less in 5 % of cases at most, for p-values of
    few levels too, which make it larger.

    Args:
        p_values: one p-value a test, each above 0.

    References:
        Fisher (1932), Statistical methods for research workers, section 21.1: minus twice the sum
        of k logarithms is chi-square distributed with 2 k degrees of freedom.

    Examples:
        >>> round(combine_p_values([0.05, 0.05]), 4)
        0.0175
    """
    # the upper tail of chi-square with 2 k degrees of freedom at twice the sum
    return float(special.gammaincc(len(p_values), -math.fsum(map(math.log, p_values))))
