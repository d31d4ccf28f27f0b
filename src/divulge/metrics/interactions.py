"""These metrics say how well a reconstruction finds interactions: per user, and on average."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from divulge.core import Estimate, Interactions, Measurements, Reconstruction
from divulge.errors import DataError
from divulge.metrics import membership
from divulge.metrics.intervals import CONFIDENCE, bounded_mean

METRICS = ("auc", "f1", "precision_at_count")
"""The names of all metrics of an attack on interactions."""


class UserMetrics(NamedTuple):
    """Metrics of an attack on one user."""

    auc: float
    """AUC of the scores, over the user's items."""
    f1: float
    """F1 score of the decisions."""
    precision_at_count: float
    """Precision of the k highest scores, where k is the number of items that the user acted on."""
    acted: int
    """Number of items that the user acted on."""
    recovered: int
    """Number of these items that the attack also decided on."""


def measure_user(guess: Reconstruction, truth: Interactions) -> UserMetrics:
    """All metrics of one user.

    Raises:
        DataError: the user acted on all items, or on none: there is nothing to tell apart.

    Examples:
        >>> guess = Reconstruction(np.array([0.9, 0.8, 0.1]), np.array([True, True, False]))
        >>> measure_user(guess, Interactions(np.array([True, False, False]))).f1
        0.666...
    """
    return UserMetrics(
        membership.auc(guess.score, truth.acted).value,
        f1(guess.decided, truth.acted),
        precision_at_count(guess.score, truth.acted),
        int(truth.acted.sum()),
        int((guess.decided & truth.acted).sum()),
    )


def f1(decided: Bool[np.ndarray, " items"], acted: Bool[np.ndarray, " items"]) -> float:
    """The harmonic mean of precision and recall; 0 where nothing is right.

    Raises:
        DataError: nothing was acted on and nothing decided.
    """
    both = int(decided.sum()) + int(acted.sum())
    if both == 0:
        raise DataError("expected items that were acted on, or said to be, got none: leave it out")
    # 2 TP / (decided + acted): no division by a precision or recall of zero
    return 2 * int((decided & acted).sum()) / both


def precision_at_count(
    score: Float[np.ndarray, " items"], acted: Bool[np.ndarray, " items"]
) -> float:
    """Precision of the k highest scores, k being the number of items acted on.

    At this k precision and recall are the same. Where scores tie at the edge, the mean over all
    orders of the tie is taken.

    Raises:
        DataError: nothing was acted on, or a score is not finite.

    Examples:
        >>> precision_at_count(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))
        0.75
    """
    inside, _ = membership.split_by_membership(score, acted)
    k = len(inside)
    edge = np.sort(score)[-k]
    above, at = score > edge, score == edge
    left = k - int(above.sum())
    # the mean over all orders of the tie at the edge
    return float((acted[above].sum() + left * acted[at].mean()) / k)


def mean_over_users(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """The mean over users of a figure in [0, 1], and its interval over users.

    The interval is `divulge.metrics.intervals.bounded_mean`, for users of any distribution: users
    who are all alike never shrink it to a point.

    Raises:
        DataError: there is no user.

    Examples:
        >>> mean_over_users([1.0] * 50).low
        0.9...
    """
    if not len(values):
        raise DataError("expected figures of one user or more, got none: attack somebody")
    return Estimate(sum(values) / len(values), *bounded_mean(values, confidence=confidence))


def measure(
    guesses: Sequence[Reconstruction],
    truths: Sequence[Interactions],
    confidence: float = CONFIDENCE,
) -> Measurements:
    """Every metric as a mean over users, with its interval over users; names are `METRICS`.

    Users who acted on all items or on none are left out: there is nothing to tell apart.
    """
    users = [
        measure_user(guess, truth)
        for guess, truth in zip(guesses, truths, strict=True)
        if is_mixed(truth)
    ]
    if not users:
        why = "needs a user who acted on some of the items and left others alone, there is none"
        return Measurements({}, dict.fromkeys(METRICS, why))
    means = {
        name: mean_over_users([getattr(user, name) for user in users], confidence)
        for name in METRICS
    }
    return Measurements(means, {})


def is_mixed(truth: Interactions) -> bool:
    """Whether the user acted on some of the items, and left others alone."""
    return bool(truth.acted.any() and not truth.acted.all())
