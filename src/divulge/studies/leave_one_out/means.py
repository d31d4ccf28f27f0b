"""Means over targets that are audited in turn, with Student's interval."""

from collections.abc import Sequence

from divulge.core import Estimate
from divulge.metrics import intervals

_CAN_BE_NEGATIVE = ("advantage",)


def mean_over_targets(
    name: str, each: Sequence[Estimate], best_of: int = 1, covariance: float = 0.0
) -> Estimate:
    """The mean over targets with Student's interval, which ends where the metric's range does.

    Where all targets show the same, as none of any thousand records, they say nothing of how much
    they differ: then the interval is the widest that one of them gives by itself.

    The highest of several means is too high on average. With ``best_of`` the intervals of all
    attacks hold at once with 95 % (Bonferroni), and so does that of whichever is the highest.

    Args:
        name: of the metric.
        each: one a target.
        best_of: how many attacks it was chosen from.
        covariance: of any two targets.

    References:
        Dunn (1961), Multiple comparisons among means, section 3.
    """
    values = [estimate.value for estimate in each]
    low, high = intervals.student_mean(values, 1 - (1 - intervals.CONFIDENCE) / best_of, covariance)
    if min(values) == max(values):
        low = min(estimate.low for estimate in each)
        high = max(estimate.value if estimate.high is None else estimate.high for estimate in each)
    least = -1.0 if name in _CAN_BE_NEGATIVE else 0.0
    return Estimate(sum(values) / len(values), max(low, least), min(high, 1.0))


def mean_difference(
    these: Sequence[Estimate], those: Sequence[Estimate], covariance: float = 0.0
) -> Estimate:
    """The mean difference of two rates, target by target, with Student's interval.

    Where all differences are the same they do not tell how they vary: then the interval is what
    the two means leave open.

    Args:
        these: one a target.
        those: of the same targets, or of others that were trained on the same records.
        covariance: of the differences of any two targets.
    """
    each = [this.value - other.value for this, other in zip(these, those, strict=True)]
    low, high = intervals.student_mean(each, covariance=covariance)
    if min(each) == max(each):
        this, other = mean_over_targets("", these), mean_over_targets("", those)
        assert this.high is not None
        assert other.high is not None
        low, high = this.low - other.high, this.high - other.low
    return Estimate(sum(each) / len(each), max(-1.0, low), min(1.0, high))
