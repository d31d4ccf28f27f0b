"""Estimate a client's class shares from the change of the output layer's biases."""

import math

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy.optimize import nnls

from divulge._util.arguments import check_arguments
from divulge.errors import DataError


def solve_on_simplex(
    matrix: Float[np.ndarray, "equations classes"], right: Float[np.ndarray, " equations"]
) -> Float64[np.ndarray, " classes"]:
    """Solve linear equations for shares (from 0, with sum 1) in least squares.

    For shares s, ``matrix s - right`` is ``(matrix - right 1ᵀ) s``. Of all u = t s with t >= 0,
    the best t for ``|M u|² + (sum(u) - 1)²`` leaves |Ms|² / (1 + |Ms|²), which grows with |Ms|:
    one non-negative least squares problem has the same shares as its solution.

    Examples:
        >>> solve_on_simplex(np.eye(2), np.array([0.9, 0.3])).round(6).tolist()
        [0.8, 0.2]
    """
    # the last equation asks for a sum of 1; without it the best solution would be 0
    system = np.vstack([matrix - right[:, None], np.ones(matrix.shape[1])])
    scaled, _ = nnls(system, np.append(np.zeros(len(right)), 1.0))
    shares: np.ndarray = scaled / scaled.sum()
    return shares


@check_arguments
def shares_of_biases(
    change: Float[np.ndarray, " classes"],
    step: float,
    answers: Float[np.ndarray, "classes classes"],
    null: Bool[np.ndarray, " classes"] | None = None,
) -> Float64[np.ndarray, " classes"]:
    """Shares of the classes among a client's records, from the change of its last biases.

    The gradient of the mean cross-entropy with respect to the output biases is the mean answer of
    the model less the shares of the classes. T steps of plain gradient descent with learning rate
    η therefore change the biases by ηT (s - Pᵀs) for shares s, where P holds the mean answers on
    records of each class, in the mean over these steps.

    Args:
        change: change of the output biases, new minus sent, one a class.
        step: learning rate times number of local steps.
        answers: mean predictions P, one row a class of records; equal numbers for a model that
            knows nothing.
        null: mask of the classes that are known to be absent.

    Raises:
        DataError: there is only one class, the step is not above 0, or the change is not finite.

    References:
        Ma et al. (2023), Instance-wise batch label restoration via gradients in federated learning
        (iLRG), has the same balance for one step; the mean over several steps is ours.

    Examples:
        >>> nothing = np.full((4, 4), 0.25)
        >>> shares_of_biases(np.array([0.25, 0.05, -0.15, -0.15]), 1.0, nothing).round(2).tolist()
        [0.5, 0.3, 0.1, 0.1]
    """
    if len(change) < 2:
        raise DataError(
            f"expected output biases of two classes or more, got {len(change)}: "
            "name the bias of the last layer"
        )
    if not 0 < step < math.inf or not np.isfinite(change / step).all():
        raise DataError(
            f"expected finite changes and a step above 0, got a step of {step}: "
            "check the training and its learning rate"
        )
    if answers.shape != (len(change),) * 2 or (null is not None and null.shape != change.shape):
        raise DataError(
            f"expected answers of shape ({len(change)}, {len(change)}) and one flag a class, got "
            f"{answers.shape} and {None if null is None else null.shape}: give one row a class"
        )
    there = np.full(len(change), True) if null is None else ~null  # noqa: FBT003 (a fill value)
    shares = np.zeros(len(change))
    # change / (ηT) = s - Pᵀs, by the mean gradient of the cross-entropy over the steps
    balance = (np.eye(len(change)) - answers.T)[:, there]
    shares[there] = solve_on_simplex(balance, change.astype(np.float64) / step)
    return shares
