"""Small networks that learn a yes or no, all trained side by side.

scikit-learn's perceptron trains six of them one after another in 4 times the CPU time, for as many
steps on 32,000 rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int
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

DRAWN = 64
"""Steps whose batches are drawn together."""

_DECAYS = (0.9, 0.999)  # of Adam's two means

Features = Float[np.ndarray, "rows features"]


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
        x: features, about of size 1; their digits beyond single precision do not count.
        y: what is predicted.
        rows: from which each network learns.
        rng: of the first weights and the batches.
    """
    x, target = x.astype(np.float32), y.astype(np.float32)
    layers = np.zeros(_size(len(rows), x.shape[1]), np.float32)
    weights = _Layers.of(layers, len(rows), x.shape[1])
    for layer in weights:
        inputs = layer.shape[1] - 1
        # He et al. (2015): ReLUs halve the variance, which the 2 makes up for
        layer[:, :inputs] = rng.normal(0.0, np.sqrt(2 / inputs), layer[:, :inputs].shape)
    gradient = np.empty_like(layers)
    slopes = _Layers.of(gradient, len(rows), x.shape[1])
    adam = _Adam(layers)
    steps = max(STEPS, EPOCHS * max(map(len, rows)) // BATCH)
    for step, batch in enumerate(_batches(rows, steps, rng)):
        _differentiate(weights, x[batch], target[batch], slopes)
        adam.move(gradient, RATE * (1 - step / steps))
    return Networks(weights)


def _batches(
    rows: Sequence[Int[np.ndarray, " _"]], steps: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, "networks batch"]]:
    """The rows that each network learns from, step by step."""
    of_all, sizes = np.concatenate(rows), np.array([[len(own)] for own in rows])
    first = np.cumsum(sizes)[:, None] - sizes
    for begun in range(0, steps, DRAWN):
        drawn = rng.integers(sizes, size=(min(DRAWN, steps - begun), len(rows), BATCH))
        yield from of_all[first + drawn]


class _Adam:
    """Kingma and Ba (2015), algorithm 1, without arrays made anew in each step."""

    def __init__(self, weights: Float32[np.ndarray, " weights"]) -> None:
        self._weights, self._steps = weights, 0
        self._mean, self._square, self._change, self._size = (
            np.zeros_like(weights) for _ in range(4)
        )

    def move(self, gradient: Float32[np.ndarray, " weights"], rate: float) -> None:
        """One step, in place."""
        self._steps += 1
        change, size = self._change, self._size
        for mean, value, decay in (
            (self._mean, gradient, _DECAYS[0]),
            (self._square, np.square(gradient, out=size), _DECAYS[1]),
        ):
            np.subtract(value, mean, out=change)
            change *= 1 - decay
            mean += change
        # both bias corrections, one number each
        of_mean, of_square = (1 - decay**self._steps for decay in _DECAYS)
        np.sqrt(self._square, out=size)
        size *= of_square**-0.5
        size += 1e-8
        np.divide(self._mean, size, out=change)
        change *= rate / of_mean
        self._weights -= change


class Networks(NamedTuple):
    """Trained networks."""

    weights: _Layers

    def log_odds(self, network: int, x: Features) -> Float64[np.ndarray, " rows"]:
        """The log odds that a network gives each row, wherever among the others it stands.

        In double precision: on some processors the last digits of a product depend on the row's
        place, which single precision would show.
        """
        own = _Layers(*(layer[network : network + 1].astype(np.float64) for layer in self.weights))
        odds: Float64[np.ndarray, " rows"] = _forward(own, x[None].astype(np.float64))[-1][0, :, 0]
        return odds


def _size(networks: int, features: int) -> int:
    return networks * ((features + 1) * HIDDEN + (HIDDEN + 1) * (HIDDEN + 1))


def _forward(weights: _Layers, x: np.ndarray) -> list[np.ndarray]:
    """What each layer gives the next, with x first and the log odds last."""
    outputs = [x]
    for layer in weights:
        out = outputs[-1] @ layer[:, :-1]
        out += layer[:, -1:]
        outputs.append(out if layer is weights.last else np.maximum(out, 0.0, out=out))
    return outputs


def _differentiate(weights: _Layers, x: np.ndarray, y: np.ndarray, slopes: _Layers) -> None:
    """Write the gradient of the mean logistic loss."""
    x, first, second, odds = _forward(weights, x)
    # derivative of the mean logistic loss by the log odds
    back = expit(odds)
    back -= y[..., None]
    back /= y.shape[1]
    for layer, slope, into in zip(
        reversed(weights), reversed(slopes), (second, first, x), strict=True
    ):
        np.matmul(into.transpose(0, 2, 1), back, out=slope[:, :-1])
        np.add.reduce(back, axis=1, keepdims=True, out=slope[:, -1:])
        if into is not x:
            back = back @ layer[:, :-1].transpose(0, 2, 1)
            back *= into > 0
