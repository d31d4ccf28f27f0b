"""The log probability of the true class, had a model divided its logits by a temperature."""

import numpy as np

from divulge.metrics.signals import SMALLEST, Labels, Probabilities, Signals, sum_in_any_order

TEMPERATURE = 2.0
"""The temperature of BASE's authors, at which a number is kept of each shadow and record."""


def softened_log_probability(probabilities: Probabilities, labels: Labels) -> Signals:
    """Log p_y at `TEMPERATURE`, in nats, of the same shape as the labels.

    Dividing each logit by T raises each probability to 1 / T, and shares out anew (Lassila et al.
    2025, the likelihood of BASE). So the probabilities are enough, and no logit is needed.

    Args:
        probabilities: the model's predictions; rows sum to one.
        labels: the true class of each record.

    Examples:
        >>> p = np.array([[0.9, 0.1], [0.5, 0.5]])
        >>> softened_log_probability(p, np.array([0, 0])).round(3).tolist()
        [-0.288, -0.693]
    """
    rows = np.arange(len(probabilities))
    softened = np.maximum(probabilities, 0.0) ** (1 / TEMPERATURE)
    true = np.maximum(softened[rows, labels], SMALLEST ** (1 / TEMPERATURE))
    softened[rows, labels] = 0.0
    # the others' share alone, and not one less p_y: p_y of a memorised record rounds to one
    log_p: Signals = -np.log1p(sum_in_any_order(softened) / true)
    return log_p
