"""How well scores tell members from non-members: ROC, AUC, rates at low false-positive rates.

Every function takes ``score`` and ``member`` of one shape. Scores that tie are never ordered: a
threshold takes all of them or none, so a constant score has AUC 0.5 and no rates to offer.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy import stats

from divulge.core import Estimate
from divulge.errors import DataError
from divulge.metrics.delong import areas
from divulge.metrics.intervals import CONFIDENCE, Interval, clopper_pearson, combine, wilson
from divulge.randomness import stream

Score = Float[np.ndarray, " records"]
Member = Bool[np.ndarray, " records"]


class Unmeasurable(DataError):
    """These sizes cannot support this metric; the message says what would."""


class Roc(NamedTuple):
    """One point per distinct score, from accusing nobody to accusing everybody."""

    fpr: Float64[np.ndarray, " points"]
    tpr: Float64[np.ndarray, " points"]
    threshold: Float64[np.ndarray, " points"]
    """Accuse when the score is at least this; the first is infinite."""


def split(
    score: Score, member: Member
) -> tuple[Float[np.ndarray, " members"], Float[np.ndarray, " nonmembers"]]:
    """The scores of members and of non-members.

    Raises:
        DataError: a score is not finite, or one of the groups is empty.
    """
    if not np.isfinite(score).all():
        raise DataError(
            f"expected finite scores, got {np.sum(~np.isfinite(score))} that are NaN or infinite: "
            "the attack that made them is broken"
        )
    inside, outside = score[member], score[~member]
    if not len(inside) or not len(outside):
        raise DataError(
            f"expected members and non-members, got {len(inside)} and {len(outside)}: "
            "an audit compares the two"
        )
    return inside, outside


def roc(score: Score, member: Member) -> Roc:
    """The empirical ROC curve, one point per distinct score, none dropped.

    Examples:
        >>> curve = roc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    inside, outside = split(score, member)
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    last_of_tie = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    hits = np.cumsum(member[order])[last_of_tie]
    false_alarms = last_of_tie + 1 - hits
    return Roc(
        np.append(0.0, false_alarms / len(outside)),
        np.append(0.0, hits / len(inside)),
        np.append(np.inf, ranked[last_of_tie]).astype(np.float64),
    )


def auc(score: Score, member: Member, confidence: float = CONFIDENCE) -> Estimate:
    """The chance that a random member scores above a random non-member, ties counting half.

    The interval is DeLong's on the logit scale, which keeps it inside (0, 1), joined with the
    same interval after one record at the highest score and one at the lowest have been added to
    each group. DeLong's alone misses the truth in a quarter of cases when errors are few: all
    members right and six of 800 non-members wrong shows no variance among members, yet the next
    200 may hold an error. Added records are the remedy that Agresti and Caffo found for the
    difference of two proportions, which the AUC of a two-valued score is; they alone would pull
    an AUC near one too far inwards. With perfect separation only theirs is left.

    References:
        DeLong et al. (1988), Comparing the areas under two or more correlated receiver operating
        characteristic curves; Agresti and Caffo (2000), Simple and effective confidence intervals
        for proportions and differences of proportions.

    Examples:
        >>> auc(np.array([2.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False])).value
        0.875
    """
    split(score, member)
    (value,), (low,), (high,) = areas(score, member[None], confidence)
    return Estimate(float(value), float(low), float(high))


def tpr_at_fpr(
    score: Score, member: Member, fpr: float, confidence: float = CONFIDENCE
) -> Estimate:
    """The share of members recognised when a share ``fpr`` of non-members is wrongly accused.

    The value is the empirical one: the highest rate over thresholds with at most ``fpr`` of the
    non-members at or above them. Its interval has two parts, combined by MOVER: Clopper-Pearson
    for the members counted, and the ROC between the two false-positive counts that a threshold
    of true rate ``fpr`` would show in 95 % of samples, since the threshold itself was read off
    a sample. The first part alone, which is what is usually printed, covers the truth in about
    83 % of audits with equal groups.

    Raises:
        Unmeasurable: fewer than ``1 / fpr`` non-members, so that not one false accusation fits.
    """
    inside, outside = split(score, member)
    m, n = len(inside), len(outside)
    allowed = math.floor(fpr * n + 1e-9)
    if allowed < 1:
        raise Unmeasurable(
            f"{n} non-members can show a false-positive rate of {1 / n:.2g} at the lowest, "
            f"not {fpr:g}: give at least {math.ceil(1 / fpr)}"
        )
    ascending = np.sort(outside)
    members_ascending = np.sort(inside)

    def recognised(false_alarms: int) -> int:
        """Members above the score that leaves this many non-members above it, or fewer."""
        if false_alarms < 0:
            return 0
        if false_alarms >= n:
            return m
        edge = ascending[n - 1 - false_alarms]
        return m - int(np.searchsorted(members_ascending, edge, side="right"))

    hits = recognised(allowed)
    value = hits / m
    tail = (1 - confidence) / 2
    fewest = int(stats.binom.ppf(tail, n, fpr)) - 1
    most = int(stats.binom.isf(tail, n, fpr))
    from_threshold = Interval(min(value, recognised(fewest) / m), max(value, recognised(most) / m))
    low, high = combine(value, clopper_pearson(hits, m, confidence), from_threshold)
    return Estimate(value, max(0.0, low), min(1.0, high))


def fewest_nonmembers(fpr: float, confidence: float = CONFIDENCE) -> int:
    """The smallest number of non-members with which the TPR at this FPR has a lower limit."""
    return math.floor(math.log((1 - confidence) / 2) / math.log1p(-fpr)) + 1


def precision_at_fpr(tpr: Estimate, fpr: float, prior: float) -> Estimate:
    """Of those accused, the share that are members, if a share ``prior`` of all records are.

    Args:
        tpr: the estimate that `tpr_at_fpr` gave at the same ``fpr``.
        fpr: share of non-members wrongly accused.
        prior: share of members among the records that the attacker considers. Audits usually
            hold as many members as non-members; a real attacker rarely does.

    Examples:
        >>> precision_at_fpr(Estimate(0.1, 0.05, 0.2), fpr=0.01, prior=0.5).value
        0.909...
    """
    assert tpr.high is not None

    def precision(rate: float) -> float:
        return prior * rate / (prior * rate + (1 - prior) * fpr)

    return Estimate(precision(tpr.value), precision(tpr.low), precision(tpr.high))


def advantage(score: Score, member: Member, confidence: float = CONFIDENCE) -> Estimate:
    """TPR - FPR at the best single threshold, chosen on one half and counted on the other.

    The usual figure, the maximum over thresholds on the very records it is counted on, is above
    zero for any score, even a random one. Here each half (drawn by a fixed seed) is judged by
    the threshold that is best on the other half. The interval is Newcombe's for a difference of
    two proportions.

    References:
        Yeom et al. (2018), Privacy risk in machine learning, definition 4; Newcombe (1998),
        Interval estimation for the difference between independent proportions, method 10.

    Raises:
        Unmeasurable: a group has fewer than two records.
    """
    inside, outside = split(score, member)
    m, n = len(inside), len(outside)
    if min(m, n) < 2:
        raise Unmeasurable(f"{m} members and {n} non-members cannot be halved: give two of each")
    shuffle = stream(0, "metrics", "halves")
    inside, outside = shuffle.permutation(inside), shuffle.permutation(outside)
    hits = false_alarms = 0
    for chosen, counted in ((0, 1), (1, 0)):
        threshold = _best_threshold(inside[chosen::2], outside[chosen::2])
        hits += int(np.sum(inside[counted::2] >= threshold))
        false_alarms += int(np.sum(outside[counted::2] >= threshold))
    tpr, fpr = hits / m, false_alarms / n
    rate_in, rate_out = wilson(hits, m, confidence), wilson(false_alarms, n, confidence)
    minus_rate_out = Interval(tpr - rate_out.high, tpr - rate_out.low)
    low, high = combine(tpr - fpr, Interval(rate_in.low - fpr, rate_in.high - fpr), minus_rate_out)
    return Estimate(tpr - fpr, max(-1.0, low), min(1.0, high))


def _best_threshold(
    inside: Float[np.ndarray, " members"], outside: Float[np.ndarray, " nonmembers"]
) -> float:
    curve = roc(
        np.concatenate([inside, outside]), np.arange(len(inside) + len(outside)) < len(inside)
    )
    return float(curve.threshold[np.argmax(curve.tpr - curve.fpr)])


def balanced_accuracy(advantage: Estimate) -> Estimate:
    """The mean of the two groups' accuracies: half of one plus the `advantage`."""
    assert advantage.high is not None
    return Estimate((1 + advantage.value) / 2, (1 + advantage.low) / 2, (1 + advantage.high) / 2)
