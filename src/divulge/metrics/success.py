"""How often each person is told apart, over models: the mean over people hides whom it hits.

A person is one with all its records, or a record where each is somebody else's. Of the same person
T models know a score each: with its data in about half of the models, and without in the others.

**Success of a person:** the probability that a model trained with its data gives it a higher score
than a model trained without. It is estimated by the share of pairs of such models, ties counted
half. Comparing a person with itself in other models is what shadow models are for, so scores of an
attack that reads no other model lose nothing here. Those of an attack that reads the others depend
on who their members are, are no independent draws, and have neither test nor interval below.

**Test.** Null hypothesis of a person: no score of its own depends on whether it was used. Coins
decided which models use it. So, given in how many they did, each choice of models is as likely as
the true one, and the rank-sum test is exact whatever the scores are. A tie counts for the model
without, which only raises the p-value.

**Which people.** Benjamini and Yekutieli's rule, which holds however p-values depend on each other.
Benjamini and Hochberg's would suppose that nobody's data change the scores of anybody else, and a
model that is trained on a person does answer otherwise about people who are alike. The price is a
factor of about log n for n people, and p-values fall by half or more with each further model.

**Interval.** The models are independent draws, trained alike on halves drawn afresh. Hoeffding's
bound for a mean over pairs, in its form with relative entropy, holds for any distribution of
scores: with a models that use a person and b that do not, it is that of min(a, b) independent
pairs. Where all pairs are right its lower limit is that of Clopper and Pearson, and no limit that
holds for all distributions is higher: where only the scores of min(a, b) models vary, all pairs are
right with a probability of success to this power.

**Near-certainty.** A person is told apart almost always where its success is shown to exceed
`NEAR_CERTAIN`. The bound that makes the interval gives the p-value of no more, and the same rule
keeps the rate of false discoveries.

References:
    Mann and Whitney (1947), On a test of whether one of two random variables is stochastically
    larger than the other; Benjamini and Yekutieli (2001), The control of the false discovery rate
    in multiple testing under dependency, theorem 1.3; Hoeffding (1963), Probability inequalities
    for sums of bounded random variables, theorem 1 and section 5b; Clopper and Pearson (1934);
    Knolle et al. (2026), Disparate privacy risks from medical AI.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Float64, Int
from scipy import special

from divulge._util.extras import stats
from divulge.core import Estimate
from divulge.metrics.intervals import CONFIDENCE

NEAR_CERTAIN = 0.9
"""A person whose success is above this is told apart almost always."""

Members = Bool[np.ndarray, "models people"]
PeopleScores = Float[np.ndarray, "models people"]
PeopleValues = Float64[np.ndarray, " people"]


@dataclass(frozen=True, slots=True)
class PersonSuccess:
    """How well each person is told apart over models, in the order of the people.

    People who were used in all models, or in none, have NaN as success, an interval from 0 to 1
    and p-values of 1.
    """

    inside: Int[np.ndarray, " people"]
    """The number of models that use a person's data."""
    outside: Int[np.ndarray, " people"]
    """The number of the others."""
    success: PeopleValues
    low: PeopleValues
    """Lower end of the 95 % interval of each person by itself."""
    high: PeopleValues
    p: PeopleValues
    """p-value of the null hypothesis that no score depends on the use of a person's data."""
    q: PeopleValues
    """Lowest false-discovery rate at which a person is listed as told apart."""
    q_certain: PeopleValues
    """Lowest false-discovery rate at which its success is listed as above `NEAR_CERTAIN`."""
    mean: Estimate
    """The mean success over people, with an interval over models."""


def success_per_person(scores: PeopleScores, member: Members) -> PersonSuccess:
    """How well each person is told apart over models.

    Args:
        scores: of one attack that reads no other model; higher means more likely used.
        member: whose data each model was trained on, by coins.
    """
    inside, outside = member.sum(axis=0), (~member).sum(axis=0)
    right, tied = _count_pairs(scores, member)
    pairs = inside * outside
    known = pairs > 0
    success = np.full(len(pairs), np.nan)
    success[known] = ((right + tied / 2) / np.maximum(pairs, 1))[known]
    least = np.minimum(inside, outside)
    low, high = np.zeros(len(pairs)), np.ones(len(pairs))
    certain = np.ones(len(pairs))
    for k in np.flatnonzero(known):
        low[k], high[k] = success_interval(float(success[k]), int(least[k]))
        certain[k] = _tail(float(success[k]), NEAR_CERTAIN, int(least[k]))
    p = np.array(
        [rank_sum_p(int(u), int(a), int(b)) for u, a, b in zip(right, inside, outside, strict=True)]
    )
    return PersonSuccess(
        inside, outside, success, low, high, p, q_values(p), q_values(certain),
        _mean_success(scores, member),
    )  # fmt: skip


def success_interval(
    success: float, pairs: int, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Limits of the success of a person that hold whatever the distribution of its scores is.

    Args:
        success: share of pairs of a model with its data and one without that are right.
        pairs: the number of models with, or without, whichever is fewer.
        confidence: the coverage of the interval, at least.

    Examples:
        >>> low, high = success_interval(1.0, 8)
        >>> round(low, 3), high, round(0.025 ** (1 / 8), 3)
        (0.631, 1.0, 0.631)
    """
    alpha = (1 - confidence) / 2
    return _lowest(success, pairs, alpha), 1.0 - _lowest(1.0 - success, pairs, alpha)


def rank_sum_p(right: int, inside: int, outside: int) -> float:
    """The probability that at least so many pairs are right, if each choice of models is as likely.

    Examples:
        >>> rank_sum_p(9, 3, 3), rank_sum_p(0, 3, 3)
        (0.05, 1.0)
    """
    counts = _count_choices(min(inside, outside), max(inside, outside))
    return sum(counts[right:]) / sum(counts)


def q_values(p: PeopleValues) -> PeopleValues:
    """The lowest false-discovery rate at which each is listed (Benjamini and Yekutieli).

    Examples:
        >>> q_values(np.array([0.01, 0.5])).round(3).tolist()
        [0.03, 0.75]
    """
    count = len(p)
    order = np.argsort(p, kind="stable")
    rates = p[order] * count * _harmonic(count) / np.arange(1, count + 1)
    lowest = np.empty(count)
    lowest[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return lowest


def models_needed(people: int, listed: int, q: float) -> int:
    """The models with which so many people can be listed as told apart, used in half of them.

    Examples:
        >>> models_needed(200, 1, 0.1), models_needed(200, 20, 0.1)
        (16, 12)
    """
    highest = q * listed / (people * _harmonic(people))
    models = 2
    while 1 / math.comb(models, models // 2) > highest:
        models += 1
    return models


def models_needed_for_certainty(people: int, listed: int, q: float) -> int:
    """The models with which so many people can be listed as told apart almost always.

    Examples:
        >>> models_needed_for_certainty(200, 200, 0.1)
        78
    """
    highest = q * listed / (people * _harmonic(people))
    return 2 * math.ceil(math.log(highest) / math.log(NEAR_CERTAIN))


def fewest_listed(result: PersonSuccess, q: float) -> int | None:
    """The fewest people that a list at this rate can hold, with these coins; None if none can be.

    It depends on how many models use each person's data, and on no score.
    """
    best = np.array(
        [
            1 / math.comb(int(a + b), int(a))
            for a, b in zip(result.inside, result.outside, strict=True)
        ]
    )
    return _fewest(best, q)


def fewest_certain(result: PersonSuccess, q: float) -> int | None:
    """The same for people who are told apart almost always."""
    return _fewest(NEAR_CERTAIN ** np.minimum(result.inside, result.outside).astype(float), q)


def _fewest(best: PeopleValues, q: float) -> int | None:
    """How many of the lowest p-values that there can be are listed together, at least."""
    count = len(best)
    rates = np.sort(best) * count * _harmonic(count) / np.arange(1, count + 1)
    enough = np.flatnonzero(rates <= q)
    return int(enough[0]) + 1 if len(enough) else None


def _count_pairs(
    scores: PeopleScores, member: Members
) -> tuple[Int[np.ndarray, " people"], Int[np.ndarray, " people"]]:
    """Of each person, the pairs of a model with and one without that are right, and that tie."""
    right, tied = np.zeros((2, scores.shape[1]), np.int64)
    for own, uses in zip(scores, member, strict=True):
        other = uses & ~member
        right += (other & (own > scores)).sum(axis=0)
        tied += (other & (own == scores)).sum(axis=0)
    return right, tied


def _mean_success(scores: PeopleScores, member: Members) -> Estimate:
    """The mean over people, with the jackknife's interval over models.

    References:
        Efron and Stein (1981), The jackknife estimate of variance: it is too high on average.
    """
    models = len(scores)
    mean = _mean_over_people(scores, member)
    if mean is None:
        return Estimate(0.5, 0.0, 1.0)
    left = [
        _mean_over_people(np.delete(scores, k, 0), np.delete(member, k, 0)) for k in range(models)
    ]
    without = np.array([mean if each is None else each for each in left])
    error = math.sqrt((models - 1) / models * float(((without - without.mean()) ** 2).sum()))
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, models - 1)) * error
    return Estimate(mean, max(0.0, mean - margin), min(1.0, mean + margin))


def _mean_over_people(scores: PeopleScores, member: Members) -> float | None:
    """Over those who were used in some models, and not in all; None if there are none."""
    right, tied = _count_pairs(scores, member)
    pairs = member.sum(axis=0) * (~member).sum(axis=0)
    known = pairs > 0
    return float(((right + tied / 2)[known] / pairs[known]).mean()) if known.any() else None


@lru_cache(maxsize=1024)
def _count_choices(few: int, many: int) -> Sequence[int]:
    """In how many choices of ``few`` of all models so many pairs are right, from 0 on.

    The Gaussian binomial coefficient, whose factors are multiplied and divided one by one.
    """
    counts = [1] + [0] * (few * many)
    for k in range(1, few + 1):
        step = many + k  # times 1 - x^step
        for place in range(few * many, step - 1, -1):
            counts[place] -= counts[place - step]
        for place in range(k, few * many + 1):  # over 1 - x^k
            counts[place] += counts[place - k]
    return counts


def _tail(success: float, rate: float, pairs: int) -> float:
    """The probability of so many right pairs, at most, if the success is no more than a rate."""
    if success <= rate:
        return 1.0
    entropy = special.rel_entr(success, rate) + special.rel_entr(1 - success, 1 - rate)
    return float(np.exp(-pairs * entropy))


def _lowest(success: float, pairs: int, alpha: float) -> float:
    """The highest rate whose tail is no more than alpha, by bisection; 0 without any."""
    low, high = 0.0, success
    for _ in range(60):
        middle = (low + high) / 2
        if middle > 0 and _tail(success, middle, pairs) > alpha:
            high = middle
        else:
            low = middle
    return low


def _harmonic(count: int) -> float:
    return float((1 / np.arange(1, count + 1)).sum())
