"""Signals turn a model's prediction on a record into one number; membership attacks share them.

Every signal is turned so that HIGHER means MORE LIKELY A MEMBER. Differences from one are never
computed as ``1 - p``: a memorised record has p = 1 - 1e-12, and the ranking among such records is
just what an audit is about, so the other classes' probabilities are summed instead.
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


# Each of the following may overwrite p, its own copy, and spare, which has the same shape.


def _loss(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the cross-entropy: log p_y (Yeom et al. 2018)."""
    del spare
    true = _take_out(p, y)
    return _log_share(true, _sums(p))


def _scaled_logit(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """φ = log p_y - log(1 - p_y), nearly Gaussian (Carlini et al. 2022, eq. 3)."""
    del spare
    true = _take_out(p, y)
    score: Signals = _log(true) - _log(_sums(p))
    return score


def _confidence(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """The largest probability, whatever the label (Salem et al. 2019), as its log odds."""
    del y
    return _scaled_logit(p, p.argmax(axis=1), spare)


def _margin(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Difference of log p_y and the log of the largest other probability."""
    del spare
    true = _take_out(p, y)
    # argmax, since NumPy takes twice as long for max along rows this short.
    score: Signals = _log(true) - _log(_take_out(p, p.argmax(axis=1)))
    return score


def _entropy(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the entropy of the answer, whatever the label (Salem et al. 2019)."""
    del y
    np.add(p, _NOTHING, out=spare)
    np.log(spare, out=spare)
    score: Signals = np.vecdot(p, spare)
    return score


def _modified_entropy(p: Probabilities, y: Labels, spare: Probabilities) -> Signals:
    """Minus the modified entropy (Song and Mittal 2021, eq. 6).

    Mentr = -(1 - p_y) log p_y - Σ_{j≠y} p_j log(1 - p_j), which unlike entropy is large for a
    confident wrong answer.
    """
    true = _take_out(p, y)
    # Of the other classes only the largest can be near one; each that is left is below one half.
    largest = _take_out(p, p.argmax(axis=1))
    left = _sums(p)
    np.negative(p, out=spare)
    np.log1p(spare, out=spare)
    rest = largest + left
    score: Signals = rest * _log_share(true, rest)
    score += largest * _log_share(true + left, largest)
    score += np.vecdot(p, spare)
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


def _log(p: Signals) -> Signals:
    logarithm: Signals = np.log(np.maximum(p, SMALLEST))
    return logarithm


def _log_share(share: Signals, rest: Signals) -> Signals:
    """The logarithm of a share of one, taken from the rest where the share is near one."""
    logarithm: Signals = np.where(share > 0.5, np.log1p(-np.minimum(rest, 0.5)), _log(share))
    return logarithm
