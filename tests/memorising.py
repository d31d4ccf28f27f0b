"""A model that is trained in no time and remembers: a smooth vote of the nearest records."""

import numpy as np

from divulge.core import Records
from divulge.targets.function import FunctionTarget

WIDTH = 0.15


def draw(records: int, seed: int = 0) -> Records:
    """Records of two classes; a third of the labels is noise that only memory can fit."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, 3))
    y = (x[:, 0] > 0).astype(np.int64)
    noisy = rng.random(records) < 1 / 3
    y[noisy] = rng.integers(0, 2, noisy.sum())
    return Records(x, y)


def train(x: np.ndarray, y: np.ndarray, seed: int) -> FunctionTarget:
    """As `divulge.audit` and others take it: features, labels and a seed to a model."""
    softness = 0.3 + 0.1 * np.random.default_rng(seed).random()

    def answer(asked: np.ndarray) -> np.ndarray:
        distance = ((asked[:, None] - x[None]) ** 2).sum(axis=2)
        votes = np.exp(-distance / WIDTH) @ np.eye(2)[y] + softness
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    return FunctionTarget(answer)
