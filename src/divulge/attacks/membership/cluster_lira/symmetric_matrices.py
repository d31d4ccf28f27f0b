"""Algebra of many small symmetric matrices at once, an entry at a time."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

Matrices = Float64[np.ndarray, "groups clusters dimensions dimensions"]

Entries = Sequence[Float64[np.ndarray, "groups clusters"]]
"""One entry of a vector a cluster, or those of a matrix in the order of `coordinate_pairs`."""


def coordinate_pairs(dimensions: int) -> list[tuple[int, int]]:
    """Pairs of coordinates, whose products follow in this order."""
    return [(i, j) for i in range(dimensions) for j in range(i + 1)]


def _dimensions(entries: Entries) -> int:
    """Of matrices with these entries."""
    return int((2 * len(entries)) ** 0.5)


def as_entries(matrices: Matrices) -> Entries:
    """The entries on and below the diagonal."""
    return [matrices[..., i, j] for i, j in coordinate_pairs(matrices.shape[-1])]


def as_matrices(entries: Entries) -> Matrices:
    """Symmetric matrices of these entries."""
    d = _dimensions(entries)
    place = np.empty((d, d), np.int64)
    for k, (i, j) in enumerate(coordinate_pairs(d)):
        place[i, j] = place[j, i] = k
    matrices: Matrices = np.stack(entries, axis=-1)[..., place]
    return matrices


Factor = list[list[np.ndarray]]
"""Rows of a lower triangular matrix, whose product with its transpose is inverse to a matrix."""


def inverse_factor(entries: Entries) -> Factor:
    """The inverse of the Cholesky factor of matrices: few dimensions, so an entry at a time."""
    d = _dimensions(entries)
    factor, inverse = ([[np.zeros(())] * d for _ in range(d)] for _ in range(2))
    for (i, j), entry in zip(coordinate_pairs(d), entries, strict=True):
        # Cholesky and Banachiewicz, row by row; each entry is an array over all matrices
        rest = entry - sum(factor[i][k] * factor[j][k] for k in range(j))
        if i == j:
            factor[i][i] = np.sqrt(rest)
            inverse[i][i] = 1 / factor[i][i]
        else:
            factor[i][j] = rest * inverse[j][j]
    for i, j in coordinate_pairs(d):
        if i > j:
            # forward substitution of the identity
            inner = sum(factor[i][k] * inverse[k][j] for k in range(j, i))
            inverse[i][j] = -inner * inverse[i][i]
    return inverse


def precision(inverse: Factor) -> Entries:
    """The entries of the inverse of a matrix."""
    d = len(inverse)
    return [np.asarray(sum(inverse[row][i] * inverse[row][j] for row in range(i, d)))
            for i, j in coordinate_pairs(d)]  # fmt: skip


def log_det(inverse: Factor) -> np.ndarray:
    """The log determinant of a matrix."""
    return np.asarray(-2 * sum(np.log(inverse[i][i]) for i in range(len(inverse))))
