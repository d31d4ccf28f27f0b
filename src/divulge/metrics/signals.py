"""Signals turn a model's prediction on a record into one number; membership attacks share them.

Every signal is turned so that HIGHER means MORE LIKELY A MEMBER. Differences from one are never
computed as ``1 - p``: a memorised record has p = 1 - 1e-12, and the ranking among such records is
just what an audit is about, so the other classes' probabilities are summed instead.

Records that tie in exact arithmetic tie here: sums of the same numbers in another order, or of
others with the same total, differ in their last bits, and a threshold would tell such records
apart. So each sum is settled (`_settle`) and coarsened (`_coarsen`) before its logarithm is taken,
and signals of one quantity are computed from the same bits of it.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float64, Int

from divulge.core import ModelView, Records
from divulge.errors import SpecError

Probabilities = Float64[np.ndarray, "records classes"]
Labels = Int[np.ndarray, " records"]
Signals = Float64[np.ndarray, " records"]
SignalName = Literal["loss", "confidence", "entropy", "modified_entropy", "margin", "scaled_logit"]

SMALLEST = 1.4e-45
"""Float32's smallest number: most models answer in float32, where less than this reads zero."""

PSEUDO_COUNT = 10
"""Number of records from which a class's own statistic outweighs that of all classes together."""

BLOCK = 2**16
"""Numbers worked on at a time, so that they and their temporaries stay in the processor's cache."""

SATURATED = -np.log(SMALLEST) - 0.1
"""The size from which a signal in nats says "beyond"."""

_NOTHING = np.finfo(np.float64).tiny  # added to a zero, so that 0 log 0 is zero

_EPSILON = float(np.finfo(np.float64).eps)

_UNIT = 1e12
"""A probability of at most 12 decimals is a whole number of these parts, which doubles hold."""

_SPLITTER = 2.0**13 + 1
"""Leaves 40 of the 53 bits of a double."""


def check_name(signal: str) -> None:
    """Refuse a signal that does not exist.

    Raises:
        SpecError: names the signals there are.
    """
    if signal not in get_args(SignalName):
        raise SpecError(
            f"expected signal to be one of {', '.join(get_args(SignalName))}, got {signal!r}"
        )


def compute_for_records(signal: SignalName, view: ModelView, records: Records) -> Signals:
    """The signal of the target's answers to these records."""
    return compute_signal(signal, view.target.predict(records.x), records.y)


def compute_signal(signal: SignalName, probabilities: Probabilities, labels: Labels) -> Signals:
    """One signal a record.

    Args:
        signal: the name of the signal.
        probabilities: the model's predictions; rows sum to one.
        labels: the true class of each record.

    Examples:
        >>> p = np.array([[0.9, 0.1], [0.6, 0.4]])
        >>> compute_signal("scaled_logit", p, np.array([0, 0])).round(3).tolist()
        [2.197, 0.405]
    """
    records, classes = probabilities.shape
    score = np.empty(records)
    rows = max(1, min(records, BLOCK // max(1, classes)))
    # Allocated once: fresh temporaries for each block would cost more than the arithmetic on them.
    copy, spare = np.empty((2, rows, classes))
    for start in range(0, records, rows):
        block = slice(start, min(start + rows, records))
        size = block.stop - start
        copy[:size] = probabilities[block]
        score[block] = _SIGNALS[signal](copy[:size], labels[block], spare[:size])
    return score


def compute_phi(answers: Float64[np.ndarray, "records columns"], records: Records) -> Signals:
    """φ, which is kept of each shadow model's answers: the scaled logit, or the residual y - f(x).

    The residual keeps all that an answer says: attacks take its size, or its density, from it.
    """
    if not records.regression:
        return compute_signal("scaled_logit", answers, records.y)
    residual: Signals = records.y - answers[:, 0]
    return residual


def compute_residuals(view: ModelView, records: Records) -> Signals:
    """The residuals y - f(x) of the target's answers to these records, in the unit of y."""
    return compute_phi(view.target.predict(records.x), records)


def tame(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same signals, with saturated ones just beyond the largest that is not saturated.

    A probability of exactly zero stands for anything below what the model can express: below
    half a vote for a forest, below `SMALLEST` for a network. Taken as `SMALLEST` it is an outlier
    of a hundred nats that ruins every mean and variance; here it is log 2 nats beyond the rest.
    The order of signals is kept. Arrays that are compared must be tamed together.
    """
    largest = max(map(largest_unsaturated, arrays), default=0.0)
    return tuple(tame_beyond(largest, array) for array in arrays)


def largest_unsaturated(array: np.ndarray) -> float:
    """The largest size of a signal that is not saturated; 0 where there is none."""
    sizes = np.abs(array)
    return float(np.max(sizes, initial=0.0, where=sizes < SATURATED))


def tame_beyond(largest: float, array: np.ndarray) -> np.ndarray:
    """The same signals, with saturated ones log 2 nats beyond the largest of the others."""
    limit = largest + np.log(2.0)
    return np.where(np.abs(array) < SATURATED, array, np.sign(array) * limit)


def class_statistics(
    statistic: Callable[[Signals], float],
    signal: Signals,
    labels: Labels,
    *,
    of: Int[np.ndarray, " candidates"],
) -> Float64[np.ndarray, " candidates"]:
    """A statistic of each class, looked up for the labels ``of``.

    Small classes are shrunk towards the statistic of all records: a class of n records has
    weight n / (n + `PSEUDO_COUNT`), an absent one none.
    """
    pooled = float(statistic(signal))
    values = np.full(max(labels.max(initial=0), of.max(initial=0)) + 1, pooled)
    for label in np.unique(labels):
        own = signal[labels == label]
        weight = len(own) / (len(own) + PSEUDO_COUNT)
        values[label] = weight * float(statistic(own)) + (1 - weight) * pooled
    looked_up: Float64[np.ndarray, " candidates"] = values[of]
    return looked_up


def sum_in_any_order(terms: Float64[np.ndarray, "records terms"]) -> Signals:
    """The sums of rows of numbers of one sign, the same to the last bit in any order of columns.

    Whole parts of the largest number of a row are summed, which 62 bits hold exactly. What is cut
    off is as little as the rounding of a sum of doubles.

    Examples:
        >>> sums = sum_in_any_order(np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]))
        >>> bool(sums[0] == sums[1]), round(float(sums[0]), 12)
        (True, 0.6)
    """
    # Across rows that lie one after another: NumPy takes ten times as long along short rows.
    largest = np.abs(terms).T.copy().max(axis=0, initial=0.0)
    bits = 62 - terms.shape[1].bit_length()
    # below 2^-900 fewer parts, since a double is less than 2^1024
    scale = np.ldexp(1.0, bits - np.maximum(np.frexp(largest)[1], -900))
    parts = (terms * scale[:, np.newaxis]).astype(np.int64)
    sums: Signals = np.einsum("ij->i", parts) / scale
    return sums


# Each of the following may overwrite p, its own copy, and spare, which has the same shape.


def _loss(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the cross-entropy: log p_y (Yeom et al. 2018)."""
    del spare
    true = _take_out(p, y)
    return _log_share(true, _sums(p), p.shape[1])[0]


def _scaled_logit(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """φ = log p_y - log(1 - p_y), nearly Gaussian (Carlini et al. 2022, eq. 3)."""
    del spare
    true = _take_out(p, y)
    log_true, log_rest = _log_share(true, _sums(p), p.shape[1])
    score: Signals = log_true - log_rest
    return score


def _confidence(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """The largest probability, whatever the label (Salem et al. 2019), as its log odds."""
    del y
    return _scaled_logit(p, p.argmax(axis=1), spare)


def _margin(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Difference of log p_y and the log of the largest other probability."""
    del spare
    true = np.maximum(_take_out(p, y), SMALLEST)
    # argmax, since NumPy takes twice as long for max along rows this short.
    other = np.maximum(_take_out(p, p.argmax(axis=1)), SMALLEST)
    low, high = _settle(np.minimum(true, other), 1), _settle(np.maximum(true, other), 1)
    score: Signals = np.copysign(np.log(_coarsen(low / high)), true - other)
    return score


def _entropy(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the entropy of the answer, whatever the label (Salem et al. 2019)."""
    del y
    np.add(p, _NOTHING, out=spare)
    np.log(spare, out=spare)
    np.multiply(spare, p, out=spare)
    return sum_in_any_order(spare)


def _modified_entropy(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the modified entropy (Song and Mittal 2021, eq. 6).

    Mentr = -(1 - p_y) log p_y - Σ_{j≠y} p_j log(1 - p_j), which unlike entropy is large for a
    confident wrong answer.
    """
    classes = p.shape[1]
    true = _take_out(p, y)
    # Of the other classes only the largest can be near one; each that is left is below one half.
    largest = _take_out(p, p.argmax(axis=1))
    left = _sums(p)
    np.negative(p, out=spare)
    np.log1p(spare, out=spare)
    log_true, _ = _log_share(true, largest + left, classes)
    score: Signals = -np.expm1(log_true) * log_true
    score += largest * _log_share(largest, true + left, classes)[1]
    np.multiply(spare, p, out=spare)
    score += sum_in_any_order(spare)
    return score


_SIGNALS: dict[str, Callable[[Probabilities, Labels, Probabilities], Signals]] = {
    "loss": _loss,
    "confidence": _confidence,
    "entropy": _entropy,
    "modified_entropy": _modified_entropy,
    "margin": _margin,
    "scaled_logit": _scaled_logit,
}


def _take_out(p: Probabilities, y: Labels) -> Signals:
    """p_y, which leaves a zero behind."""
    rows = np.arange(len(p))
    taken: Signals = p[rows, y]
    p[rows, y] = 0.0
    return taken


def _sums(p: Probabilities) -> Signals:
    # Twice as fast as p.sum(axis=1); the terms are all positive, so nothing cancels.
    sums: Signals = np.einsum("ij->i", p)
    return sums


def _log_share(true: Signals, rest: Signals, terms: int) -> tuple[Signals, Signals]:
    """The logarithms of two shares that sum to one, both from the smaller one.

    Args:
        true: the first share, a number as it was given.
        rest: the other one, a sum.
        terms: how many numbers were summed at most.
    """
    below = true <= 0.5
    smaller = _coarsen(_settle(np.where(below, true, rest), terms) / _UNIT)
    log_smaller = np.log(np.maximum(smaller, SMALLEST))
    log_larger = np.log1p(-np.minimum(smaller, 0.5))
    return np.where(below, log_smaller, log_larger), np.where(below, log_larger, log_smaller)


def _settle(share: Signals, terms: int) -> Signals:
    """The share in parts of 1e-12, a whole number where rounding alone is between it and one.

    So a sum of numbers with at most 12 decimals is exact. n terms that are rounded to the nearest
    double, and summed in any order, are off by less than n times the machine's epsilon.
    """
    parts = share * _UNIT
    whole = np.rint(parts)
    return np.where(np.abs(parts - whole) <= (terms + 1) * _EPSILON * parts, whole, parts)


def _coarsen(share: Signals) -> Signals:
    """The share to 40 bits: equal fractions with other last bits become equal (Dekker 1971).

    Fractions a/b that were computed with an error of n machine epsilons are equal afterwards if
    b < 2^11 / n, such as the shares of the votes of as many trees.
    """
    split = share * _SPLITTER
    coarse: Signals = split - (split - share)
    return coarse
