"""Interactions are 0 or 1: expectation propagation finds how likely each one is 1."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit
from sklearn.covariance import ledoit_wolf

PRIOR_MEAN, PRIOR_VARIANCE = 0.5, 0.25
"""Of a fair coin."""
_ITERATIONS = 150
_DAMPING = 0.3
_SMALLEST_MOVE = 1e-4
_LEAST_VARIANCE = 1e-8
_LEAST_PRECISION = 1e-6


class WhiteSystem(NamedTuple):
    """A linear system whose noise has variance 1 in each equation."""

    matrix: Float[np.ndarray, "equations items"]
    rest: Float[np.ndarray, " equations"]
    """What ``matrix`` times the interactions is to explain."""


def whiten(
    matrix: Float[np.ndarray, "numbers items"],
    rest: Float[np.ndarray, " numbers"],
    drifts: Float[np.ndarray, "draws numbers"],
) -> WhiteSystem:
    """Whiten a system whose noise is partly known by examples.

    The noise is a sum: of what ``drifts`` vary by, and of equal noise in all numbers, whose size
    makes ``rest`` most probable. Few draws leave their covariance uncertain: it is shrunk, in the
    coordinates in which ``rest`` is white, so that no direction counts as free of noise.

    Args:
        matrix: numbers of an update by interaction.
        rest: the update less its part that does not depend on interactions.
        drifts: draws of the structured noise, around 0; all zeros if there is none.

    References:
        MacKay (1992), Bayesian interpolation, equation 2.13 (the evidence); Ledoit and Wolf (2004),
        A well-conditioned estimator for large-dimensional covariance matrices.
    """
    many, outside, beyond = len(rest), 0.0, 0
    if many > matrix.shape[1] + len(drifts):  # the other directions hold equal noise alone
        basis, _ = np.linalg.qr(np.concatenate([matrix, drifts.T], axis=1))
        inside = basis.T @ rest
        outside, beyond = max(float(rest @ rest - inside @ inside), 0.0), many - len(inside)
        matrix, rest, drifts = basis.T @ matrix, inside, drifts @ basis
    signal = PRIOR_VARIANCE * matrix @ matrix.T
    drift = _shrink(signal, drifts)
    left = rest - matrix.sum(axis=1) * PRIOR_MEAN
    values, vectors = np.linalg.eigh(signal + drift)
    values, power = values.clip(min=0.0), (vectors.T @ left) ** 2
    total = max(float(left @ left) + outside, 1e-200)
    noises = total / many * np.exp(np.linspace(-24, 2, 105))
    spread = values + noises[:, None]
    surprise = (np.log(spread) + power / spread).sum(axis=1)
    surprise += beyond * np.log(noises) + outside / noises
    noise = noises[int(surprise.argmin())]
    size, axes = np.linalg.eigh(drift)
    white = (axes / np.sqrt(size.clip(min=0.0) + noise)).T
    return WhiteSystem(white @ matrix, white @ rest)


def _shrink(
    signal: Float[np.ndarray, "numbers numbers"], drifts: Float[np.ndarray, "draws numbers"]
) -> Float[np.ndarray, "numbers numbers"]:
    """Covariance of the drifts, shrunk in the coordinates in which the update is white."""
    if not drifts.any():
        return np.zeros_like(signal)
    values, vectors = np.linalg.eigh(signal + drifts.T @ drifts / len(drifts))
    counted = values > values[-1] * 1e-13
    root, axes = np.sqrt(values[counted]), vectors[:, counted]
    shrunk, _ = ledoit_wolf(drifts @ (axes / root), assume_centered=True)
    back = axes * root
    covariance: Float[np.ndarray, "numbers numbers"] = back @ shrunk @ back.T
    return covariance


def propagate(system: WhiteSystem) -> Float[np.ndarray, " items"]:
    """Probability that each interaction is 1, where all are fair coins before the update.

    Each coin is stood in for by a normal factor, which is fitted in turn to what the coin makes of
    what all others say about it, with damping. Items without a trace stay at one half exactly.

    References:
        Minka (2001), Expectation propagation for approximate Bayesian inference.
    """
    matrix, rest = system
    items = matrix.shape[1]
    precision, shift = (
        np.full(items, 1 / PRIOR_VARIANCE),
        np.full(items, PRIOR_MEAN / PRIOR_VARIANCE),
    )
    probability = np.full(items, PRIOR_MEAN)
    for _ in range(_ITERATIONS):
        mean, variance = _marginals(matrix, rest, precision, shift)
        others = (1 / variance - precision).clip(min=_LEAST_PRECISION)
        centre = (mean / variance - shift) / others
        before, probability = probability, expit((centre - 0.5) * others)
        own = (probability * (1 - probability)).clip(min=_LEAST_VARIANCE)
        fitted, pull = 1 / own - others, probability / own - centre * others
        sound = fitted > _LEAST_PRECISION
        precision = np.where(sound, precision + _DAMPING * (fitted - precision), precision)
        shift = np.where(sound, shift + _DAMPING * (pull - shift), shift)
        if np.abs(probability - before).max() < _SMALLEST_MOVE:
            break
    return np.where(matrix.any(axis=0), probability, PRIOR_MEAN)


def _marginals(
    matrix: Float[np.ndarray, "equations items"],
    rest: Float[np.ndarray, " equations"],
    precision: Float[np.ndarray, " items"],
    shift: Float[np.ndarray, " items"],
) -> tuple[Float[np.ndarray, " items"], Float[np.ndarray, " items"]]:
    """Means and variances of interactions with normal factors, through the smaller inverse."""
    equations, items = matrix.shape
    if items <= equations:
        covariance = np.linalg.inv(matrix.T @ matrix + np.diag(precision))
        return covariance @ (matrix.T @ rest + shift), np.diag(covariance).clip(min=1e-300)
    scaled = matrix / precision
    half = np.linalg.solve(np.eye(equations) + scaled @ matrix.T, scaled)
    start = shift / precision
    variance = 1 / precision - (scaled * half).sum(axis=0)
    return start + half.T @ (rest - matrix @ start), variance.clip(min=1e-300)
