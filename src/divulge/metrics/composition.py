"""These metrics say how far guessed class shares are from the true ones, over many clients."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from divulge.core import Estimate, Measurements, Proportions
from divulge.errors import DataError
from divulge.metrics import intervals

METRICS = ("l1", "l2", "linf", "null_accuracy", "null_precision", "null_recall")
"""The names of all metrics of guessed proportions."""

_Cells = Bool[np.ndarray, "clients classes"]

_LARGEST = {"l1": 2.0, "l2": 2**0.5, "linf": 1.0}


def distance(guess: Proportions, truth: Proportions) -> dict[str, float]:
    """The L1, L2 and L∞ distance between shares, by name: at most 2, √2 and 1.

    References:
        Dai et al. (2024), Decaf: Data distribution decompose attack against federated learning,
        equation 3.

    Examples:
        >>> a, b = Proportions.of(np.array([1, 1])), Proportions.of(np.array([3, 1]))
        >>> {name: round(value, 3) for name, value in distance(a, b).items()}
        {'l1': 0.5, 'l2': 0.354, 'linf': 0.25}
    """
    if guess.share.shape != truth.share.shape:
        raise DataError(
            f"expected shares of {len(truth.share)} classes, got {len(guess.share)}: guess those "
            "that the network tells apart"
        )
    # eq. 3, for p = 1, 2 and ∞
    off = np.abs(guess.share - truth.share)
    return {
        "l1": float(off.sum()),
        "l2": float(np.sqrt((off**2).sum())),
        "linf": float(off.max()),
    }


def measure(
    guesses: Sequence[Proportions],
    truths: Sequence[Proportions],
    confidence: float = intervals.CONFIDENCE,
) -> Measurements:
    """Every metric of guesses about several clients, names being `METRICS`.

    Raises:
        DataError: shares are of other classes.
    """
    if len(truths) < 2:
        why = f"needs two clients or more for an interval, there is {len(truths)}"
        return Measurements({}, dict.fromkeys(METRICS, why))
    nulls, unmeasured = measure_null_classes(guesses, truths, confidence)
    return Measurements({**distances(guesses, truths, confidence), **nulls}, unmeasured)


def distances(
    guesses: Sequence[Proportions],
    truths: Sequence[Proportions],
    confidence: float = intervals.CONFIDENCE,
) -> dict[str, Estimate]:
    """The mean distances over two clients or more, each with Student's interval over clients."""
    each = [distance(guess, truth) for guess, truth in zip(guesses, truths, strict=True)]
    estimates = {}
    for name, largest in _LARGEST.items():
        values = [by_name[name] for by_name in each]
        limits = intervals.student_mean_within(values, 0.0, largest, confidence)
        estimates[name] = Estimate(float(np.mean(values)), *limits)
    return estimates


def measure_null_classes(
    guesses: Sequence[Proportions],
    truths: Sequence[Proportions],
    confidence: float = intervals.CONFIDENCE,
) -> tuple[Mapping[str, Estimate], Mapping[str, str]]:
    """How well null classes are told from others, over two clients or more.

    Returns:
        The share of classes judged right, of classes declared null that are (precision), and of
        null classes that were declared so (recall), with intervals that count clients as groups;
        and those that cannot be measured, with the reason.
    """
    declared = np.array([guess.null for guess in guesses])
    true = np.array([truth.null for truth in truths])
    hits = declared & true
    cases: dict[str, tuple[_Cells, _Cells, str]] = {
        "null_accuracy": (declared == true, np.ones_like(true), ""),
        "null_precision": (hits, declared, "classes declared null in two clients or more"),
        "null_recall": (hits, true, "null classes in two clients or more"),
    }
    estimates, unmeasured = {}, {}
    for name, (good, counted, wanted) in cases.items():
        trials = counted.sum(axis=1)
        some = trials > 0
        if some.sum() < 2:
            unmeasured[name] = f"needs {wanted}, there are {int(some.sum())}"
            continue
        right = good.sum(axis=1)
        low, high = intervals.clustered_proportion(right[some], trials[some], confidence)
        estimates[name] = Estimate(float(right.sum() / trials.sum()), low, high)
    return estimates, unmeasured
