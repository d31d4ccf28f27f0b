"""What a classifier learns of a model's answer about a record."""

from typing import get_args

import numpy as np
from jaxtyping import Float64

from divulge.core import ModelView, Records
from divulge.metrics import signals

OTHER_CLASSES = 5
"""Number of wrong classes whose probabilities are features, the likeliest first."""


def answer_features(view: ModelView, records: Records) -> Float64[np.ndarray, "records features"]:
    """All signals of each answer, and the log probabilities of the likeliest other classes."""
    p = view.target.predict(records.x)
    named = [signals.compute_signal(name, p, records.y) for name in get_args(signals.SignalName)]
    others = p.copy()
    others[np.arange(len(p)), records.y] = 0.0
    likeliest = -np.sort(-others, axis=1)[:, : min(OTHER_CLASSES, p.shape[1] - 1)]
    return np.column_stack([*named, np.log(np.maximum(likeliest, signals.SMALLEST))])
