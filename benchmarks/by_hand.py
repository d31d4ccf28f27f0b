"""Compute the same signals as one would write them with NumPy, SciPy and scikit-learn."""

import numpy as np
from jaxtyping import Float
from scipy import special, stats

from benchmarks.answers import Answers

Signal = Float[np.ndarray, " records"]

_CLIP = 1e-12  # as scikit-learn and SciPy users keep logarithms finite


def signals(answers: Answers) -> dict[str, Signal]:
    """The six signals and whether the label is right, higher for members."""
    p, y, _ = answers
    rows = np.arange(len(y))
    true = np.clip(p[rows, y], _CLIP, 1 - _CLIP)
    wrong = p.copy()
    wrong[rows, y] = 0
    surprise = (wrong * np.log(np.clip(1 - wrong, _CLIP, 1))).sum(axis=1)
    return {
        "loss": np.log(true),
        "confidence": p.max(axis=1),
        "entropy": -stats.entropy(p, axis=1),
        "modified_entropy": (1 - true) * np.log(true) + surprise,
        "margin": true - wrong.max(axis=1),
        "scaled_logit": special.logit(true),
        "gap": (p.argmax(axis=1) == y).astype(np.float64),
    }
