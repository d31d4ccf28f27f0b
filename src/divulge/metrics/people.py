"""People with several records: a person's score, and figures by record that people stand behind.

Records of one person resemble each other, and all of them were used in training or none. So people
are what was drawn, and what every test, interval and false-discovery rate counts. Figures by record
are shown beside those by person; their intervals take a person for one draw as well.

The records of a person are numbered by ``group``; people stand in the order of these numbers.
"""

import math
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Real, Shaped
from scipy import special

from divulge._util.extras import stats
from divulge.core import Estimate
from divulge.metrics.intervals import CONFIDENCE

Group = Int[np.ndarray, " records"]

Rule = Literal["mean", "max", "sum", "median", "quantile"]
"""How a person's score is made of the scores of its records."""

PERSON_SCORES: tuple[Rule, ...] = ("mean", "max")
"""Rules by which a person is scored unless others are named: each attack is tried with both."""

QUANTILE = 0.9
"""The quantile of the rule ``quantile``: high records count, and the highest alone does not."""


def combine(
    score: Float[np.ndarray, " records"], group: Group, rule: Rule
) -> Float64[np.ndarray, " people"]:
    """One score a person.

    ``mean`` finds people whose records are all somewhat more familiar to the model, ``max`` those
    with one record that it remembers. ``sum`` is the likelihood ratio of all records where scores
    are log-ratios of independent records, as those of LiRA; it grows with the number of records.

    Args:
        score: one score a record; higher means more likely used in training.
        group: whose record each is.
        rule: see `Rule`.

    Examples:
        >>> score, group = np.array([1.0, 3.0, 5.0]), np.array([0, 1, 1])
        >>> [combine(score, group, rule).tolist() for rule in ("mean", "max", "sum")]
        [[1.0, 4.0], [1.0, 5.0], [1.0, 8.0]]
    """
    _, person = np.unique(group, return_inverse=True)
    sizes = np.bincount(person)
    starts = np.cumsum(sizes) - sizes
    # sorted, so that rounding does not depend on the order of records, and ties stay ties
    ordered = score[np.lexsort((score, person))].astype(np.float64)
    if rule in ("mean", "sum"):
        total = np.add.reduceat(ordered, starts)
        return np.asarray(total if rule == "sum" else total / sizes)
    if rule == "max":
        return np.asarray(ordered[starts + sizes - 1])
    # linear between the two records next to the quantile, as numpy.quantile has it
    place = (sizes - 1) * (0.5 if rule == "median" else QUANTILE)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, sizes - 1)
    share = place - below
    return np.asarray((1 - share) * ordered[starts + below] + share * ordered[starts + above])


def first_of_each(
    values: Shaped[np.ndarray, " records"], group: Group
) -> Shaped[np.ndarray, " people"]:
    """What the first record of each person says, where all records of a person say the same."""
    return np.asarray(values[np.unique(group, return_index=True)[1]])


def most_frequent(values: Int[np.ndarray, " records"], group: Group) -> Int[np.ndarray, " people"]:
    """The value that most records of each person have; of equally frequent ones the lowest.

    Examples:
        >>> most_frequent(np.array([2, 1, 1, 0, 3]), np.array([0, 0, 0, 1, 1])).tolist()
        [1, 0]
    """
    _, person = np.unique(group, return_inverse=True)
    kinds, kind = np.unique(values, return_inverse=True)
    # one number for a pair: sorting rows of two would take many times as long
    pairs, counts = np.unique(person * len(kinds) + kind, return_counts=True)
    whose, what = np.divmod(pairs, len(kinds))
    order = np.lexsort((what, -counts, whose))
    return np.asarray(kinds[what[order][np.unique(whose[order], return_index=True)[1]]])


def record_auc(
    score: Float[np.ndarray, " records"],
    group: Group,
    member: Bool[np.ndarray, " records"],
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The AUC by record, with an interval that takes people for what was drawn.

    The variance is that of sums over people of DeLong's components; the interval is on the logit
    scale, with Satterthwaite's degrees of freedom, since people may be few. As for other AUCs it
    covers that of the same records with one more at each end of each group, so that no interval is
    a point.

    Args:
        score: one score a record; higher means more likely used in training.
        group: whose record each is.
        member: whether each was used in training; alike for all records of a person.
        confidence: the coverage of the interval.

    References:
        Obuchowski (1997), Nonparametric analysis of clustered ROC curve data, equations 5 to 8;
        DeLong et al. (1988).
    """
    value, low, high = _clustered_auc(score, group, member, confidence)
    ends = [score.min() - 1, score.max() + 1]
    fresh = group.max() + 1 + np.arange(4)
    _, lower, higher = _clustered_auc(
        np.concatenate([score, ends, ends]),
        np.concatenate([group, fresh]),
        np.concatenate([member, [True, True, False, False]]),
        confidence,
    )
    return Estimate(value, min(value, low, lower), max(value, high, higher))


def _clustered_auc(
    score: Float[np.ndarray, " records"],
    group: Group,
    member: Bool[np.ndarray, " records"],
    confidence: float,
) -> tuple[float, float, float]:
    ranks = stats.rankdata(score)
    value, parts = 0.0, []
    for own in (member, ~member):
        others = int((~own).sum())
        # the share of the other set's records that score lower; ties count half
        lower = (ranks[own] - stats.rankdata(score[own])) / others
        value = float(lower.mean())
        _, person = np.unique(group[own], return_inverse=True)
        # equation 6: a person adds the sum of its records' components less what is expected of it
        apart = np.bincount(person, lower - value)
        count, records = len(apart), len(lower)
        if count > 1:
            parts.append((count / (count - 1) * float(apart @ apart) / records**2, count - 1))
    value = 1 - value
    spread = sum(variance for variance, _ in parts)
    if len(parts) < 2 or not spread or not 0 < value < 1:
        return value, value, value
    freedom = spread**2 / sum(variance**2 / freedom for variance, freedom in parts)
    quantile = float(stats.t.ppf((1 + confidence) / 2, freedom))
    half = quantile * math.sqrt(spread) / (value * (1 - value))
    centre = special.logit(value)
    return value, float(special.expit(centre - half)), float(special.expit(centre + half))


def mean_by_record(
    values: Real[np.ndarray, " records"],
    group: Group | None,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Estimate:
    """The mean over records, with Student's interval over people.

    Args:
        values: one a record.
        group: whose record each is; None where each is somebody else's.
        lowest: no mean is lower.
        highest: no mean is higher.

    References:
        Cochran (1977), Sampling techniques, equation 2.39 (a ratio of sums over what was drawn).
    """
    person = np.arange(len(values)) if group is None else np.unique(group, return_inverse=True)[1]
    mean, apart = float(np.mean(values)), np.bincount(person, values - np.mean(values))
    people = len(apart)
    if people < 2:
        return Estimate(mean, lowest if math.isfinite(lowest) else mean, None)
    error = math.sqrt(people / (people - 1) * float(apart @ apart)) / len(values)
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, people - 1)) * error
    return Estimate(mean, max(lowest, mean - margin), min(highest, mean + margin))


def intraclass_correlation(score: Float[np.ndarray, " records"], group: Group) -> float:
    """How alike the scores of one person's records are: 0 as those of others, 1 equal.

    References:
        Donner and Koval (1980), The estimation of intraclass correlation in the analysis of family
        data: the analysis-of-variance estimator for unequal numbers.
    """
    _, person = np.unique(group, return_inverse=True)
    sizes = np.bincount(person)
    people, records = len(sizes), len(score)
    if people < 2 or records == people:
        return 0.0
    means = np.bincount(person, score) / sizes
    between = float(sizes @ (means - score.mean()) ** 2) / (people - 1)
    within = float(np.sum((score - means[person]) ** 2)) / (records - people)
    usual = (records - float(sizes @ sizes) / records) / (people - 1)
    total = between + (usual - 1) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 0.0
