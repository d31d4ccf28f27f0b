"""Stage 2 of MRAD measures how far a reconstructed record lies from those of its class."""

from typing import Literal

import numpy as np
from jaxtyping import Float64, Int

from divulge.core import LastLayer

Detector = Literal["cade", "msad", "nci"]
Points = Float64[np.ndarray, "records features"]
Own = Float64[np.ndarray, "own features"]
Column = Float64[np.ndarray, " records"]

NEAREST = 2
"""Number of nearest own records whose cosine distances MSAD adds up."""

_CONSISTENT = 1.4826  # the median absolute deviation of a Gaussian, times this, is its deviation
_TINY = 1e-12


def cade(
    z: Points, y: Int[np.ndarray, " records"], own: Own, own_y: Int[np.ndarray, " own"]
) -> Column:
    """The distance from the class's centre, less the median one, by its dispersion (MAD).

    A class without own records is taken as all of them.
    """
    deviation = np.empty(len(z))
    for label in np.unique(y):
        mine = own[_class_mask(own_y, int(label))]
        centre = mine.mean(axis=0)
        usual = np.linalg.norm(mine - centre, axis=1)
        middle = np.median(usual)
        # algorithm 2: the median absolute deviation of the class's own distances
        spread = _CONSISTENT * np.median(np.abs(usual - middle))
        rows = y == label
        distance = np.linalg.norm(z[rows] - centre, axis=1)
        deviation[rows] = np.abs(distance - middle) / max(float(spread), _TINY)
    return deviation


def msad(
    z: Points, y: Int[np.ndarray, " records"], own: Own, own_y: Int[np.ndarray, " own"]
) -> Column:
    """The cosine distances to the nearest own records of the class, seen from its centre."""
    deviation = np.empty(len(z))
    for label in np.unique(y):
        mine = _unit_vectors(own[_class_mask(own_y, int(label))])
        centre = _unit_vectors(mine.mean(axis=0, keepdims=True))
        rows = y == label
        # mean-shifted: seen from the class's centre, cosines are not all near one
        directions, own_directions = (
            _unit_vectors(_unit_vectors(z[rows]) - centre),
            _unit_vectors(mine - centre),
        )
        distance = np.sort(1 - directions @ own_directions.T, axis=1)[:, :NEAREST]
        deviation[rows] = distance.sum(axis=1)
    return deviation


OF_DISTANCES = {"cade": cade, "msad": msad}
"""By name, the detectors that measure how far a record lies from those of its class."""


def nci(at: LastLayer, own: LastLayer, alpha: float) -> Column:
    """How far the features point away from the weights of the class that the model predicts.

    The sign is turned: the published score is high for what looks like training data.
    """
    z = at.features - own.features.mean(axis=0)
    predicted = (at.features @ at.weights.T).argmax(axis=1)
    along = np.einsum("rh,rh->r", z, at.weights[predicted]) / np.maximum(_norms(z)[:, 0], _TINY)
    score: Column = -(along + alpha * np.abs(at.features).sum(axis=1))
    return score


def _class_mask(labels: Int[np.ndarray, " own"], label: int) -> np.ndarray:
    mine = labels == label
    return mine if mine.any() else np.ones_like(mine)


def _unit_vectors(z: np.ndarray) -> np.ndarray:
    unit: np.ndarray = z / np.maximum(_norms(z), _TINY)
    return unit


def _norms(z: np.ndarray) -> np.ndarray:
    length: np.ndarray = np.linalg.norm(z, axis=1, keepdims=True)
    return length
