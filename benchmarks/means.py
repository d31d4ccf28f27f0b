"""Means of independent values, as benchmarks print them."""

from collections.abc import Sequence

import numpy as np

from divulge.metrics.intervals import student_mean


def format_mean(values: Sequence[float]) -> str:
    """The mean, with Student's 95 % interval.

    Examples:
        >>> format_mean([0.4, 0.5, 0.6])
        '0.500 (0.252 to 0.748)'
    """
    low, high = student_mean(values)
    return f"{np.mean(values):.3f} ({low:.3f} to {high:.3f})"
