"""`measure` computes all metrics of one membership attack."""

from divulge.core import Measurements, Membership, Scores
from divulge.metrics import advantage, membership
from divulge.metrics.epsilon import epsilon_lower_bound
from divulge.metrics.intervals import CONFIDENCE

FPRS = (0.1, 0.01, 0.001)
"""False-positive rates at which the TPR is reported: 10 %, 1 %, 0.1 %."""

PRIORS = (0.5, 0.1, 0.01)
"""Shares of members among an attacker's candidates for which precision is reported."""

PRECISION_FPR = 0.01
"""False-positive rate at which precision is reported."""

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
    metrics = {"auc": membership.auc(score, member, confidence)}
    unmeasured: dict[str, str] = {}
    for fpr in FPRS:
        try:
            metrics[f"tpr@{fpr:g}"] = membership.tpr_at_fpr(score, member, fpr, confidence)
            missing = membership.missing_lower_limit(nonmembers, fpr, confidence)
        except membership.Unmeasurable as error:
            missing = str(error)
        if missing:
            unmeasured[f"tpr@{fpr:g}"] = missing
    try:
        metrics["advantage"] = advantage.advantage(score, member, confidence)
        metrics["balanced_accuracy"] = advantage.balanced_accuracy(metrics["advantage"])
    except membership.Unmeasurable as error:
        unmeasured["advantage"] = unmeasured["balanced_accuracy"] = str(error)
    for prior in PRIORS:
        name, tpr = f"precision@{PRECISION_FPR:g}:{prior:g}", f"tpr@{PRECISION_FPR:g}"
        if tpr in metrics:
            metrics[name] = membership.precision_at_fpr(metrics[tpr], PRECISION_FPR, prior)
        if tpr in unmeasured:
            unmeasured[name] = unmeasured[tpr]
    metrics["epsilon"] = epsilon_lower_bound(
        score, member, delta, drawn=truth.drawn, tries=together
    )
    return Measurements(metrics, unmeasured)
