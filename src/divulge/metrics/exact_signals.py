"""Signals of `divulge.metrics.signals` for whoever ranks records by them: none is saturated.

Where a probability is too small for that module, it is taken from its logarithm here.
"""

from collections.abc import Callable, Iterable

import numpy as np

from divulge.core import ModelView, Records, stream_answers
from divulge.metrics import signals
from divulge.metrics.tiny_probabilities import keep_order, log_probabilities

_NOTHING_LEFT = 1e-300  # the loss below which the other classes are not in double precision


def compute_exactly(
    signal: signals.SignalName, probabilities: signals.Probabilities, labels: signals.Labels
) -> signals.Signals:
    """One signal a record; those that `divulge.metrics.signals` saturates are in their order.

    A probability below that module's smallest is taken as it is, and zero as less than any other.

    Args:
        signal: the name of the signal.
        probabilities: the model's predictions, as a target gives them.
        labels: the true class of each record.
    """
    return _compute(signal, [(np.arange(len(labels)), probabilities)], labels)


def rank_records(signal: signals.SignalName, view: ModelView, records: Records) -> signals.Signals:
    """The signal of the target's answers to these records, see `compute_exactly`."""
    return _compute(signal, stream_answers(view.target, records.x), records.y)


def _compute(
    signal: signals.SignalName,
    parts: Iterable[tuple[signals.Labels, signals.Probabilities]],
    labels: signals.Labels,
) -> signals.Signals:
    """The signals of answers that come by parts, with their positions."""
    score, places, exact_parts = np.empty(len(labels)), [], []
    for part, probabilities in parts:
        own = signals.compute_signal(signal, probabilities, labels[part])
        score[part] = own
        # a signal is the difference to a class that has one part in so many, or more
        most = signals.SATURATED - np.log(max(2, probabilities.shape[1]))
        sure = signal == "loss" and own > -_NOTHING_LEFT
        far = np.flatnonzero((np.abs(own) >= most) | sure)
        if signal in _EXACT and len(far):
            places.append(part[far])
            log_p = log_probabilities(probabilities[far])
            exact_parts.append(_EXACT[signal](log_p, labels[part[far]]))
    if not places:
        return score
    beyond, exact = np.concatenate(places), np.concatenate(exact_parts)
    rough, known = score[beyond], np.isfinite(exact)
    furthest = float(np.max(np.abs(exact), initial=0.0, where=known)) + np.log(2.0) * known.any()
    score[beyond] = np.where(known, exact, np.sign(rough) * np.maximum(np.abs(rough), furthest))
    return score


# Each of the following takes logarithms of probabilities, which it may overwrite.


def _exact_loss(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    true = _take_out_log(log_p, y)
    left = _log_sums(log_p)
    loss: signals.Signals = np.where(
        true < np.log(0.5), true, -keep_order(np.exp(left), lambda: left)
    )
    return loss


def _exact_scaled_logit(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    odds: signals.Signals = _take_out_log(log_p, y) - _log_sums(log_p)
    return odds


def _exact_confidence(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    del y
    return _exact_scaled_logit(log_p, log_p.argmax(axis=1))


def _exact_margin(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    true = _take_out_log(log_p, y)
    margin: signals.Signals = true - log_p.max(axis=1)
    return margin


def _exact_modified_entropy(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    true = _take_out_log(log_p, y)
    largest = _take_out_log(log_p, log_p.argmax(axis=1))
    left, small = _log_sums(log_p), np.exp(log_p)
    with np.errstate(invalid="ignore"):  # where a class is ruled out
        score: signals.Signals = np.exp(np.logaddexp(largest, left)) * true
        score += np.exp(largest) * np.logaddexp(true, left)
    score += np.vecdot(small, np.log1p(-small))
    return score


_EXACT: dict[str, Callable[[signals.Probabilities, signals.Labels], signals.Signals]] = {
    "loss": _exact_loss,
    "confidence": _exact_confidence,
    "margin": _exact_margin,
    "modified_entropy": _exact_modified_entropy,
    "scaled_logit": _exact_scaled_logit,
}
"""Signals that saturate."""


def _take_out_log(log_p: signals.Probabilities, y: signals.Labels) -> signals.Signals:
    """Log p_y, which leaves the logarithm of zero behind."""
    rows = np.arange(len(log_p))
    taken: signals.Signals = log_p[rows, y]
    log_p[rows, y] = -np.inf
    return taken


def _log_sums(log_p: signals.Probabilities) -> signals.Signals:
    from scipy.special import logsumexp

    sums: signals.Signals = logsumexp(log_p, axis=1)
    return sums
