"""Accuracy of the models of a federation, each on the class mix of its own client."""

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.core import Estimate
from divulge.metrics import intervals


def mean_accuracy(
    hits: Bool[np.ndarray, "models records"],
    y: Int[np.ndarray, " records"],
    shares: Float64[np.ndarray, "clients classes"],
) -> Estimate:
    """The mean over clients of their models' accuracy, by each client's own class mix.

    The interval is of the draw of the test records, class by class; the clients are as they are.

    Args:
        hits: which records each client's model classifies rightly; one row if all have the same.
        y: the class of each record.
        shares: class shares of each client; classes without a test record are left out.
    """
    there = np.bincount(y, minlength=shares.shape[1]) > 0
    known = np.where(there, shares, 0.0)
    known /= np.maximum(known.sum(axis=1, keepdims=True), 1e-12)
    each = np.broadcast_to(hits, (len(shares), len(y)))
    worth = (known[:, y] * each).mean(axis=0)  # times the number of its class: a record's part
    groups = [worth[y == k] for k in np.flatnonzero(there)]
    value = float(sum(group.mean() for group in groups))
    variance = sum(group.var(ddof=1) / len(group) for group in groups if len(group) > 1)
    # as many records, drawn from one class mix, would have this variance
    size = round(value * (1 - value) / variance) if variance else len(y)
    size = max(1, min(size, len(y)))
    return Estimate(value, *intervals.wilson(round(value * size), size))
