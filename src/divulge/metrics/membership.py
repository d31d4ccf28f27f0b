"""These metrics say how well scores tell members from non-members: ROC, AUC, TPR at a low FPR.

Every function takes ``score`` and ``member`` of one shape. Scores that tie are never ordered: a
threshold takes all of them or none, and between two thresholds an attacker tosses a coin for each
record of the tie. So a constant score has AUC 0.5, and TPR = FPR everywhere. Who measures several
of them passes ``ranked``, the same scores sorted once by `rank`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from divulge._util.extras import stats
from divulge.core import Estimate
from divulge.errors import DataError
from divulge.metrics.auc_intervals import areas_of_counts
from divulge.metrics.intervals import CONFIDENCE, Interval, clopper_pearson, combine_intervals

_ROUNDING = 1e-9
"""Counts of records as far from a whole number as this are whole: 0.1 * 30 is not 3 in binary."""

CHANCE_AUC = 0.5
"""The AUC of scores that know nothing."""

Score = Float[np.ndarray, " records"]
Member = Bool[np.ndarray, " records"]


class Unmeasurable(DataError):
    """These sizes cannot support this metric; the message says what would."""


class Roc(NamedTuple):
    """ROC curve with one point per distinct score, from accusing nobody to accusing everybody."""

    fpr: Float64[np.ndarray, " points"]
    tpr: Float64[np.ndarray, " points"]
    threshold: Float64[np.ndarray, " points"]
    """Records with a score of at least this are accused; the first threshold is infinite."""


def split_by_membership(
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


class Corners(NamedTuple):
    """The ROC in counts, one corner per distinct score; between two corners lies one tie."""

    alarms: Int64[np.ndarray, " corners"]
    """Number of non-members accused at each corner."""
    hits: Int64[np.ndarray, " corners"]
    """Number of members accused at each corner."""

    def around(self, alarms: float) -> tuple[int, int]:
        """The corners at both ends of the tie that so many false accusations lie in.

        Both are the same corner where a threshold accuses exactly so many; of several such
        thresholds it is the one that accuses most members.
        """
        start = int(np.searchsorted(self.alarms, alarms, side="right")) - 1
        return start, start if self.alarms[start] == alarms else start + 1

    def hits_at(self, alarms: float) -> float:
        """The expected number of members accused along with so many non-members.

        Within a tie, a fair coin for each record decides.
        """
        if alarms < 0:
            return 0.0
        start, end = self.around(alarms)
        if start == end:
            return float(self.hits[start])
        share = (alarms - self.alarms[start]) / (self.alarms[end] - self.alarms[start])
        return float(self.hits[start] + share * (self.hits[end] - self.hits[start]))


@dataclass(frozen=True)
class RankedScores:
    """Scores from the highest, sorted once for all metrics; those that tie in any order."""

    order: Int64[np.ndarray, " records"]
    """The position of each record among those given."""
    score: Float[np.ndarray, " records"]
    member: Bool[np.ndarray, " records"]

    def part(self, chosen: Bool[np.ndarray, " given"]) -> "RankedScores":
        """Some of the records, by their positions among those given."""
        chosen_ranks = chosen[self.order]
        return RankedScores(
            self.order[chosen_ranks], self.score[chosen_ranks], self.member[chosen_ranks]
        )

    @cached_property
    def last_of_tie(self) -> Int64[np.ndarray, " distinct"]:
        """The place of the last record of each distinct score."""
        return np.append(np.flatnonzero(np.diff(self.score)), len(self.score) - 1)

    @cached_property
    def corners(self) -> Corners:
        """The ROC in counts."""
        hits = np.cumsum(self.member)[self.last_of_tie]
        return Corners(np.append(0, self.last_of_tie + 1 - hits), np.append(0, hits))


def rank(score: Score, member: Member) -> RankedScores:
    """Sort scores, from the highest.

    Raises:
        DataError: a score is not finite, or one of the groups is empty.
    """
    split_by_membership(score, member)
    order = np.argsort(-score)
    return RankedScores(order, score[order], member[order])


def roc(score: Score, member: Member, ranked: RankedScores | None = None) -> Roc:
    """The empirical ROC curve, one point per distinct score, none dropped.

    Examples:
        >>> curve = roc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    ranked = ranked or rank(score, member)
    corners, threshold = ranked.corners, ranked.score[ranked.last_of_tie]
    return Roc(
        corners.alarms / corners.alarms[-1],
        corners.hits / corners.hits[-1],
        np.append(np.inf, threshold).astype(np.float64),
    )


def auc(
    score: Score,
    member: Member,
    confidence: float = CONFIDENCE,
    ranked: RankedScores | None = None,
) -> Estimate:
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
    corners = (ranked or rank(score, member)).corners
    inside, outside = (
        np.diff(counts)[None, ::-1].astype(np.float64) for counts in (corners.hits, corners.alarms)
    )
    (value,), (low,), (high,) = areas_of_counts(inside, outside, confidence)
    return Estimate(float(value), float(low), float(high))


def tpr_at_fpr(
    score: Score,
    member: Member,
    fpr: float,
    confidence: float = CONFIDENCE,
    ranked: RankedScores | None = None,
) -> Estimate:
    """The share of members identified at a false-positive rate of ``fpr``.

    The value is read off the empirical ROC with straight lines between its corners: where ``fpr``
    lies within a tie, the attacker accuses all records above the tie and, by coins, a share of
    those in it. Without ties this is the highest rate over thresholds with at most ``fpr`` of the
    non-members at or above them.

    The interval has two parts, combined by MOVER: Clopper-Pearson for the members counted, and the
    ROC between the two false-positive counts that a threshold of true rate ``fpr`` would show in
    95 % of samples, since the threshold itself was read off a sample. The first part alone, which
    is what is usually printed, covers the truth in about 83 % of audits with equal groups. Where
    ``fpr`` lies within a tie, MOVER alone covers as few as 87 %, because the ROC bends at the
    tie's ends: an end that lies between the two counts may be the true threshold, so the interval
    also takes in the limit of Clopper-Pearson there.

    With fewer than `fewest_nonmembers` the lower limit is 0 whatever the scores.

    Raises:
        Unmeasurable: fewer than ``1 / fpr`` non-members, so that not one false accusation fits.

    Examples:
        >>> half_tied = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
        >>> member = np.array([True, True, True, False, False, False])
        >>> tpr_at_fpr(half_tied, member, 1 / 3).value
        0.666...
    """
    n = int(np.sum(~member))
    if fpr * n < 1 - _ROUNDING:
        shown = f"a false-positive rate of {1 / n:.2g} at the lowest" if n else "none"
        raise Unmeasurable(
            f"{n} non-members can show {shown}, not a rate of {fpr:g}: give at least "
            f"{math.ceil(1 / fpr)}"
        )
    return tpr_at_fprs(score, member, np.array([fpr]), confidence, ranked)[0]


def tpr_at_fprs(
    score: Score,
    member: Member,
    fprs: Float64[np.ndarray, " rates"],
    confidence: float = CONFIDENCE,
    ranked: RankedScores | None = None,
) -> list[Estimate]:
    """What `tpr_at_fpr` gives, at many rates of at least one non-member each; sorts once."""
    corners = (ranked or rank(score, member)).corners
    n = int(corners.alarms[-1])
    tail = (1 - confidence) / 2
    fewest = np.asarray(stats.binom.ppf(tail, n, fprs)) - 1
    most = np.asarray(stats.binom.isf(tail, n, fprs))
    allowed = fprs * n
    whole = np.rint(allowed)
    allowed = np.where(np.abs(allowed - whole) < _ROUNDING, whole, allowed)
    return [
        _estimate_tpr(corners, at, Interval(low, high), confidence)
        for at, low, high in zip(allowed.tolist(), fewest.tolist(), most.tolist(), strict=True)
    ]


def _estimate_tpr(corners: Corners, allowed: float, reach: Interval, confidence: float) -> Estimate:
    """The TPR where so many false accusations are allowed, and the truth has ``reach`` of them."""
    m = int(corners.hits[-1])
    hits = corners.hits_at(allowed)
    value = hits / m
    from_threshold = Interval(
        min(value, corners.hits_at(reach.low) / m),
        max(value, corners.hits_at(reach.high) / m),
    )
    low, high = combine_intervals(value, clopper_pearson(hits, m, confidence), from_threshold)
    start, end = corners.around(allowed)
    if corners.alarms[start] >= reach.low:
        low = min(low, clopper_pearson(int(corners.hits[start]), m, confidence).low)
    if corners.alarms[end] <= reach.high:
        high = max(high, clopper_pearson(int(corners.hits[end]), m, confidence).high)
    return Estimate(value, max(0.0, low), min(1.0, high))


def fewest_nonmembers(fpr: float, confidence: float = CONFIDENCE) -> int:
    """The smallest number of non-members with which the TPR at this FPR has a lower limit.

    With fewer, a threshold whose true rate is ``fpr`` has no non-member above it more often than
    the interval may err on that side. It may then lie above every score that was seen, members'
    too, so that nothing but 0 is a valid lower limit, even where scores are perfectly separated.

    Examples:
        >>> [fewest_nonmembers(fpr) for fpr in (0.1, 0.01, 0.001)]
        [36, 368, 3688]
    """
    return math.floor(math.log((1 - confidence) / 2) / math.log1p(-fpr)) + 1


def missing_lower_limit(nonmembers: int, fpr: float, confidence: float = CONFIDENCE) -> str:
    """Why the TPR at this FPR has no lower limit, and how many would do; empty if it has one.

    Examples:
        >>> missing_lower_limit(200, 0.01)
        '200 non-members cannot support a lower limit: give at least 368'
    """
    fewest = fewest_nonmembers(fpr, confidence)
    if nonmembers >= fewest:
        return ""
    return f"{nonmembers} non-members cannot support a lower limit: give at least {fewest}"


def precision_at_fpr(tpr: Estimate, fpr: float, prior: float) -> Estimate:
    """Of those accused, the share that are members, if a share ``prior`` of all records are.

    Args:
        tpr: the estimate that `tpr_at_fpr` gave at the same ``fpr``.
        fpr: false-positive rate.
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
