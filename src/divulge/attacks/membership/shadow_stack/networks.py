"""Small networks that learn a yes or no, all trained side by side.

scikit-learn's perceptron trains six of them one after another in 4 times the CPU time, for as many
steps on 32,000 rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy.special import expit

HIDDEN = 16
"""Units of each of the two hidden layers."""

STEPS = 800
"""Fewest steps of Adam."""

EPOCHS = 4
"""Times that a network sees each row where `STEPS` are too few for it."""

BATCH = 128
"""Rows of a step."""

RATE = 0.01
"""Adam's learning rate at the first step; it falls to zero in a straight line."""

_DECAYS = (0.9, 0.999)  # of Adam's two means

Features = Float64[np.ndarray, "rows features"]


class _Layers(NamedTuple):
    """Weights of each layer, or their gradients: (networks, inputs, units), the bias last."""

    first: np.ndarray
    second: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, flat: np.ndarray, networks: int, features: int) -> "_Layers":
        """Views on one long array."""
        shapes = ((features + 1, HIDDEN), (HIDDEN + 1, HIDDEN), (HIDDEN + 1, 1))
        ends = np.cumsum([networks * rows * units for rows, units in shapes])
        parts = np.split(flat, ends[:-1])
        return cls(*(p.reshape(networks, *s) for p, s in zip(parts, shapes, strict=True)))


def train(
    x: Features,
    y: Bool[np.ndarray, " rows"],
    rows: Sequence[Int[np.ndarray, " _"]],
    rng: np.random.Generator,
) -> "Networks":
    """Train one network on each of these choices of the rows.

    Each has two hidden layers of rectified units, and learns by Adam to predict y by the logistic
    loss of random batches.

    Args:
        x: features, about of size 1.
        y: what is predicted.
        rows: from which each network learns.
        rng: of the first weights and the batches.
    """
    layers, moved = (np.zeros(_size(len(rows), x.shape[1])) for _ in range(2))
    weights = _Layers.of(layers, len(rows), x.shape[1])
    for layer in weights:
        inputs = layer.shape[1] - 1
        # He et al. (2015): ReLUs halve the variance, which the 2 makes up for
        layer[:, :inputs] = rng.normal(0.0, np.sqrt(2 / inputs), layer[:, :inputs].shape)
    gradient = np.empty_like(layers)
    slopes = _Layers.of(gradient, len(rows), x.shape[1])
    squares = np.zeros_like(layers)
    steps = max(STEPS, EPOCHS * max(map(len, rows)) // BATCH)
    for step in range(steps):
        batch = np.stack([own[rng.integers(len(own), size=BATCH)] for own in rows])
        _differentiate(weights, x[batch], y[batch], slopes)
        # Adam (Kingma and Ba 2015, algorithm 1), both means and their bias corrections
        moved += (1 - _DECAYS[0]) * (gradient - moved)
        squares += (1 - _DECAYS[1]) * (gradient**2 - squares)
        mean, square = (
            of / (1 - decay ** (step + 1))
            for of, decay in zip((moved, squares), _DECAYS, strict=True)
        )
        layers -= RATE * (1 - step / steps) * mean / (np.sqrt(square) + 1e-8)
    return Networks(weights)


class Networks(NamedTuple):
    """Trained networks."""

    weights: _Layers

    def log_odds(self, network: int, x: Features) -> Float64[np.ndarray, " rows"]:
        """The log odds that a network gives each row."""
        own = _Layers(*(layer[network : network + 1] for layer in self.weights))
        odds: Float64[np.ndarray, " rows"] = _forward(own, x[None])[-1][0, :, 0]
        return odds


def _size(networks: int, features: int) -> int:
    return networks * ((features + 1) * HIDDEN + (HIDDEN + 1) * (HIDDEN + 1))


def _forward(weights: _Layers, x: np.ndarray) -> list[np.ndarray]:
    """What each layer says, with x first."""
    outputs = [x]
    for layer in weights:
        into = outputs[-1] if len(outputs) == 1 else np.maximum(outputs[-1], 0.0)
        outputs.append(into @ layer[:, :-1] + layer[:, -1:])
    return outputs


def _differentiate(weights: _Layers, x: np.ndarray, y: np.ndarray, slopes: _Layers) -> None:
    """Write the gradient of the mean logistic loss."""
    x, first, second, odds = _forward(weights, x)
    # derivative of the mean logistic loss by the log odds
    back = (expit(odds) - y[..., None]) / y.shape[1]
    for layer, slope, into in zip(
        reversed(weights), reversed(slopes), (second, first, x), strict=True
    ):
        inputs = into if into is x else np.maximum(into, 0.0)
        np.matmul(inputs.transpose(0, 2, 1), back, out=slope[:, :-1])
        np.sum(back, axis=1, keepdims=True, out=slope[:, -1:])
        if into is not x:
            back = (back @ layer[:, :-1].transpose(0, 2, 1)) * (into > 0)
