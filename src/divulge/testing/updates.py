"""What small federations learn from: overlapping clouds of four classes, and a small network."""

import numpy as np
from torch import nn

from divulge.core import Records

CLASSES, FEATURES = 4, 12


def relu() -> nn.Module:
    """A network of one hidden layer."""
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def records(per_class: int, seed: int) -> Records:
    """Overlapping clouds, one a class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(CLASSES), per_class)
    x = rng.normal(size=(len(y), FEATURES)) + 1.2 * np.eye(CLASSES, FEATURES)[y]
    return Records(x.astype(np.float32), y)


def reference(per_class: int = 60) -> Records:
    """What the attacker owns."""
    return records(per_class, 1)
