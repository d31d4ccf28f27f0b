"""Accuracy weighed against privacy (AOP)."""

from divulge.core import Estimate
from divulge.errors import SpecError
from divulge.metrics.intervals import Interval, combine_intervals

LAMBDA = 2.0
"""The weight of privacy in the paper's tables."""


def aop(accuracy: float, auc: float, weight: float = LAMBDA) -> float:
    """Accuracy over privacy: accuracy / (2 max(AUC, 1/2))^λ.

    It is the accuracy where the attack is no better than chance, and falls to accuracy / 2^λ where
    the attack is always right. An average case in one number: at an AUC near one half it is next to
    accuracy alone, whatever a few exposed records suffer, so read it beside TPR at a low FPR. An
    AUC below one half counts as chance here, though the reversed attack would be above it.

    Args:
        accuracy: share of records that the model classifies correctly.
        auc: AUC of the attack.
        weight: λ, how much privacy counts; 1 or more in the paper.

    Raises:
        SpecError: accuracy or AUC is not from 0 to 1, or the weight is below 0.

    References:
        Lomurno et al. (2023), Discriminative adversarial privacy, eq. 4.

    Examples:
        >>> aop(0.8, 0.5), round(aop(0.8, 0.75), 6), aop(0.8, 1.0)
        (0.8, 0.355556, 0.2)
    """
    if not (0 <= accuracy <= 1 and 0 <= auc <= 1 and weight >= 0):
        raise SpecError(
            f"expected accuracy and AUC from 0 to 1 and a weight from 0, got accuracy {accuracy}, "
            f"AUC {auc} and weight {weight}: give rates, and not percentages"
        )
    # divided, not multiplied by a negative power, which overflows where the weight is large
    share: float = (0.5 / max(auc, 0.5)) ** weight
    return accuracy * share


def aop_estimate(accuracy: Estimate, auc: Estimate, weight: float = LAMBDA) -> Estimate:
    """`aop` with the interval that follows from those of accuracy and AUC.

    Each of the two intervals is carried through the formula with the other value held, and both
    are combined by MOVER, which takes accuracy and AUC to be measured independently. They share
    non-members where the records that the model is scored on are those that the attack is asked
    about; the accuracy of the model and the rank of its losses then lean the same way a little.

    Raises:
        SpecError: see `aop`; or an interval has no upper end.

    Examples:
        >>> found = aop_estimate(Estimate(0.8, 0.75, 0.85), Estimate(0.6, 0.55, 0.65))
        >>> round(found.low, 3), round(found.value, 3), round(found.high, 3)
        (0.466, 0.556, 0.667)
    """
    if accuracy.high is None or auc.high is None:
        raise SpecError("expected intervals with two ends, got a lower bound: estimate both rates")
    value = aop(accuracy.value, auc.value, weight)
    low, high = combine_intervals(
        value,
        Interval(aop(accuracy.low, auc.value, weight), aop(accuracy.high, auc.value, weight)),
        Interval(aop(accuracy.value, auc.high, weight), aop(accuracy.value, auc.low, weight)),
    )
    return Estimate(value, max(0.0, low), min(1.0, high))
