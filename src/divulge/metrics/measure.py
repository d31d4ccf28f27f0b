"""`measure` computes all metrics of one membership attack, `measure_together` those of several."""

import math
from collections.abc import Mapping

import numpy as np

from divulge._util.random import stream
from divulge.core import Estimate, Measurements, Membership, Scores
from divulge.metrics import auc_intervals, membership
from divulge.metrics.epsilon import epsilon_lower_bound
from divulge.metrics.intervals import (
    CONFIDENCE,
    Interval,
    combine_intervals,
    simultaneous_confidence,
    wilson,
)
from divulge.metrics.membership import Member, RankedScores, Score, Unmeasurable, rank

FPRS = (0.1, 0.01, 0.001)
"""False-positive rates at which the TPR is reported: 10 %, 1 %, 0.1 %."""

PRIORS = (0.5, 0.1, 0.01)
"""Shares of members among an attacker's candidates for which precision is reported."""

PRECISION_FPR = 0.01
"""False-positive rate at which precision is reported."""

GUESSING = {"auc": 0.5, **{f"tpr@{fpr:g}": fpr for fpr in FPRS}, "advantage": 0.0}
"""What guessing reaches by a metric."""

METRICS = (
    "auc",
    *(f"tpr@{fpr:g}" for fpr in FPRS),
    "advantage",
    "balanced_accuracy",
    *(f"precision@{PRECISION_FPR:g}:{prior:g}" for prior in PRIORS),
    "epsilon",
)
"""The names of all metrics of a membership attack."""


def measure(
    guess: Scores, truth: Membership, delta: float = 0.0, together: int = 1
) -> Measurements:
    """Every metric of a guess about membership, each with its interval.

    Names: ``auc``, ``tpr@FPR``, ``advantage``, ``balanced_accuracy``, ``precision@FPR:PRIOR``,
    ``epsilon`` (a lower bound at this δ). A metric whose upper limit alone these sizes support has
    a value, and beside it a reason why its lower limit, 0, means nothing.

    Args:
        guess: one score a candidate.
        truth: which candidates are members, and how they were drawn.
        delta: the δ at which ε is bounded.
        together: how many attacks the intervals hold for at once, at 95 % (Bonferroni); 1 gives
            each attack's own interval.

    Raises:
        DataError: a score is not finite, or everybody is a member, or nobody.
    """
    score, member = guess.score, truth.member
    confidence = 1 - (1 - CONFIDENCE) / together
    nonmembers = len(member) - int(member.sum())
    ranked = rank(score, member)
    metrics = {"auc": membership.auc(score, member, confidence, ranked)}
    unmeasured: dict[str, str] = {}
    for fpr in FPRS:
        try:
            metrics[f"tpr@{fpr:g}"] = membership.tpr_at_fpr(score, member, fpr, confidence, ranked)
            missing = membership.missing_lower_limit(nonmembers, fpr, confidence)
        except membership.Unmeasurable as error:
            missing = str(error)
        if missing:
            unmeasured[f"tpr@{fpr:g}"] = missing
    try:
        metrics["advantage"] = advantage(score, member, confidence, ranked)
        metrics["balanced_accuracy"] = balanced_accuracy(metrics["advantage"])
    except membership.Unmeasurable as error:
        unmeasured["advantage"] = unmeasured["balanced_accuracy"] = str(error)
    for prior in PRIORS:
        name, tpr = f"precision@{PRECISION_FPR:g}:{prior:g}", f"tpr@{PRECISION_FPR:g}"
        if tpr in metrics:
            metrics[name] = membership.precision_at_fpr(metrics[tpr], PRECISION_FPR, prior)
        if tpr in unmeasured:
            unmeasured[name] = unmeasured[tpr]
    metrics["epsilon"] = epsilon_lower_bound(
        score, member, delta, drawn=truth.drawn, tries=together, ranked=ranked
    )
    return Measurements(metrics, unmeasured)


def measure_together(
    scores: Mapping[str, Score], truth: Membership, delta: float = 0.0
) -> Mapping[str, Measurements]:
    """Every metric of several attacks on one model; intervals hold for all attacks at once.

    Those of AUCs hold by their joint distribution, with DeLong's covariances. All others, whose
    estimates are counts of few records, hold by Bonferroni's correction.

    Args:
        scores: one score a candidate, by attack.
        truth: as for `measure`.
        delta: as for `measure`.

    Raises:
        DataError: a score is not finite, or everybody is a member, or nobody.
    """
    measured, member = {}, truth.member
    for label, score in scores.items():
        measured[label] = measure(Scores(score), truth, delta, len(scores))
    if len(scores) > 1:
        covariance = auc_intervals.covariances(scores.values(), member)
        confidence = simultaneous_confidence(covariance)
        for label, (metrics, unmeasured) in measured.items():
            auc = membership.auc(scores[label], member, confidence)
            measured[label] = Measurements({**metrics, "auc": auc}, unmeasured)
    return measured


def measure_one(name: str, guess: Scores, truth: Membership, together: int = 1) -> Estimate:
    """One metric of a guess about membership: ``auc``, ``tpr@FPR`` or ``advantage``.

    Args:
        name: of the metric.
        guess: one score a candidate.
        truth: which candidates are members.
        together: as for `measure`.

    Raises:
        DataError: a score is not finite, or everybody is a member, or nobody.
        Unmeasurable: these sizes do not support it.
    """
    confidence = 1 - (1 - CONFIDENCE) / together
    if name == "auc":
        return membership.auc(guess.score, truth.member, confidence)
    if name == "advantage":
        return advantage(guess.score, truth.member, confidence)
    fpr = float(name.removeprefix("tpr@"))
    return membership.tpr_at_fpr(guess.score, truth.member, fpr, confidence)


def advantage(
    score: Score,
    member: Member,
    confidence: float = CONFIDENCE,
    ranked: RankedScores | None = None,
) -> Estimate:
    """TPR - FPR at the best single threshold of the population from which the records come.

    The usual value, the maximum over thresholds on the very records it is counted on, is above
    zero for any score, even a random one. Here each half (drawn by a fixed seed) is judged by
    the threshold that is best on the other half, which errs on the low side: no threshold is
    better than the best.

    Both limits are Newcombe's for a difference of two proportions. The lower one is that of the
    thresholds from the other halves. The upper one is that of the threshold which is best on all
    records, because a maximum over a sample errs on the high side. Newcombe's interval around the
    value alone covers the best threshold in 89 % of audits with 200 records a group, shifted by 1.

    Args:
        score: score of every candidate.
        member: true for the candidates that are members.
        confidence: the coverage of the interval.
        ranked: the same scores, sorted by `rank`; None sorts them.

    References:
        Yeom et al. (2018), Privacy risk in machine learning, definition 4; Newcombe (1998),
        Interval estimation for the difference between independent proportions, method 10.

    Raises:
        Unmeasurable: a group has fewer than two records.
    """
    ranked = ranked or rank(score, member)
    m, n = int(member.sum()), int((~member).sum())
    if min(m, n) < 2:
        raise Unmeasurable(f"{m} members and {n} non-members cannot be halved: give two of each")
    shuffle, second = stream(0, "metrics", "halves"), np.zeros(len(score), bool)
    for group in (np.flatnonzero(member), np.flatnonzero(~member)):
        second[shuffle.permutation(group)[1::2]] = True
    # each half is judged by the other's threshold: its own would fit its noise
    at_best = _accused(ranked, best_threshold(ranked))
    halves = ranked.part(~second), ranked.part(second)
    hits = false_alarms = 0
    for chosen, counted in (halves, halves[::-1]):
        counts = _accused(counted, best_threshold(chosen))
        hits, false_alarms = hits + counts[0], false_alarms + counts[1]
    low, high = _difference(hits, false_alarms, m, n, confidence)
    high = max(high, _difference(*at_best, m, n, confidence).high)
    return Estimate(hits / m - false_alarms / n, max(-1.0, low), min(1.0, high))


def _difference(hits: int, false_alarms: int, m: int, n: int, confidence: float) -> Interval:
    """Newcombe's interval of the rate of members less that of non-members."""
    tpr, fpr = hits / m, false_alarms / n
    rate_in, rate_out = wilson(hits, m, confidence), wilson(false_alarms, n, confidence)
    # Newcombe, method 10, as MOVER: an interval for each rate around the difference
    minus_rate_out = Interval(tpr - rate_out.high, tpr - rate_out.low)
    return combine_intervals(
        tpr - fpr, Interval(rate_in.low - fpr, rate_in.high - fpr), minus_rate_out
    )


def best_threshold(ranked: RankedScores) -> float:
    """The threshold with the highest TPR - FPR on these records."""
    alarms, hits = ranked.corners
    gain = hits / hits[-1]
    gain -= alarms / alarms[-1]
    best = int(np.argmax(gain))
    return float(ranked.score[ranked.last_of_tie[best - 1]]) if best else math.inf


def _accused(ranked: RankedScores, threshold: float) -> tuple[int, int]:
    """How many members and how many non-members score at least as high as a threshold."""
    accused = ranked.member[ranked.score >= threshold]
    hits = int(accused.sum())
    return hits, len(accused) - hits


def balanced_accuracy(advantage: Estimate) -> Estimate:
    """The mean of the two groups' accuracies: half of one plus the `advantage`."""
    assert advantage.high is not None
    return Estimate((1 + advantage.value) / 2, (1 + advantage.low) / 2, (1 + advantage.high) / 2)
