"""Location-30: 446 places that people were at or not, and to which of 30 groups each belongs."""

import os
from pathlib import Path

import numpy as np
from torch import nn

with np.load(Path(os.environ["DIVULGE_DATA"]) / "location30/location30.npz") as file:
    _X = np.unpackbits(file["x_bits"], axis=1)[:, :446].astype(np.float32)
    _Y = file["y"].astype(np.int64)

_ORDER = np.random.default_rng(0).permutation(len(_X))
records = (_X[_ORDER[:4000]], _Y[_ORDER[:4000]])
others = (_X[_ORDER[4000:]], _Y[_ORDER[4000:]])


def network() -> nn.Module:
    """A perceptron with one hidden layer."""
    return nn.Sequential(nn.Linear(446, 256), nn.ReLU(), nn.Linear(256, 30))
