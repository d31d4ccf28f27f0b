"""Decaf's steps as functions on arrays: null classes, decomposition, shares."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

Change = Float[np.ndarray, "classes inputs"]
"""What training did to the weights of the last layer, new less sent, per unit of learning rate.

References:
    Dai et al. (2024), Decaf, equation 4, with the sign for which a class that is there grows.
"""

Solver = Literal["nnls", "descent"]

_RIDGE = 1e-12
"""Of the largest diagonal entry: keeps the reduced system definite."""


def null_classes(change: Change, threshold: float = 0.0) -> Bool[np.ndarray, " classes"]:
    """The classes without a single entry above the threshold.

    With inputs from 0, as after ReLU, and plain softmax, a record of another class moves a weight
    of this class by -p x <= 0: a class without records has no positive entry, whatever
    sign-preserving optimiser is used. Weight decay, inputs below 0, label smoothing and noise break
    that. The other direction is a habit and no theorem: what the records of a rare class add may
    be outweighed by what all others take off.

    References:
        Dai et al. (2024), Decaf, algorithm 1 and equations 15 to 18; 0.001 there with LeakyReLU.

    Examples:
        >>> null_classes(np.array([[0.2, -0.1], [-0.3, 0.0]])).tolist()
        [False, True]
    """
    absent: np.ndarray = change.max(axis=1) <= threshold
    return absent


def decompose(
    change: Change, bases: Float[np.ndarray, "bases classes inputs"], solver: Solver = "nnls"
) -> Float64[np.ndarray, " bases"]:
    """Scale factors from 0 that rebuild a change from bases, best in least squares.

    ``nnls`` solves the problem exactly on its normal equations, of which there are as many as
    bases, however wide the layer; ``descent`` is the paper's 1,000 epochs of gradient descent.

    Args:
        change: of the victim.
        bases: the change that each class alone causes, and the calibrator, which is the change
            that all auxiliary records together cause.
        solver: how.

    References:
        Dai et al. (2024), Decaf, equations 19 and 20.
    """
    columns = bases.reshape(len(bases), -1).T.astype(np.float64)
    right = change.ravel().astype(np.float64)
    return _descended(columns, right) if solver == "descent" else _exact(columns, right)


def loss(
    change: Change,
    bases: Float[np.ndarray, "bases classes inputs"],
    scales: Float[np.ndarray, " bases"],
) -> float:
    """The mean squared error that `decompose` makes small.

    References:
        Dai et al. (2024), Decaf, equation 20.
    """
    return float(((np.tensordot(scales, bases, 1) - change) ** 2).mean())


def shares(scales: Float64[np.ndarray, " bases"]) -> Float64[np.ndarray, " _"]:
    """Shares of the classes that are there, from their scale factors and last the calibrator's.

    The calibrator holds about one of every basis, so its factor counts for each class. Where all
    factors are 0, nothing tells the classes apart: equal shares.

    References:
        Dai et al. (2024), Decaf, equation 21.

    Examples:
        >>> shares(np.array([0.0, 1.0, 0.5])).tolist()
        [0.25, 0.75]
    """
    raw = scales[:-1] + scales[-1]
    total = raw.sum()
    each: np.ndarray = raw / total if total > 0 else np.full(len(raw), 1 / len(raw))
    return each


def _exact(
    columns: Float64[np.ndarray, "entries bases"], right: Float64[np.ndarray, " entries"]
) -> Float64[np.ndarray, " bases"]:
    normal = columns.T @ columns
    normal[np.diag_indices_from(normal)] += _RIDGE * max(normal.diagonal().max(), 1e-300)
    root = cholesky(normal, lower=True)
    found: np.ndarray = nnls(root.T, solve_triangular(root, columns.T @ right, lower=True))[0]
    return found


def _descended(
    columns: Float64[np.ndarray, "entries bases"],
    right: Float64[np.ndarray, " entries"],
    epochs: int = 1000,
    lr: float = 0.01,
) -> Float64[np.ndarray, " bases"]:
    """Adam (Kingma and Ba 2015, algorithm 1) from equal factors, cut off at 0 after each step.

    The paper names the epochs, and neither optimiser, rate nor start.
    """
    bases = columns.shape[1]
    scales = np.full(bases, 1 / bases)
    mean, square = np.zeros(bases), np.zeros(bases)
    for epoch in range(1, epochs + 1):
        gradient = 2 / len(right) * (columns.T @ (columns @ scales - right))
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        unbiased = mean / (1 - 0.9**epoch), square / (1 - 0.999**epoch)
        scales = np.maximum(scales - lr * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8), 0.0)
    return scales
