"""How much of a record a layer's update does not span: what a projection leaves of its input.

The gradient of a linear layer's weights is a sum over records of what comes back times what went
in, so that each row of it is a sum of inputs (Zhu et al. 2019 and many after; Deng et al. 2026 name
members by it). Steps add up, and so momentum, several local steps and clipping of whole updates
stay in the span, as long as the inputs stay the same: exactly for the first layer.
"""

import numpy as np
from jaxtyping import Float, Float64

Basis = Float64[np.ndarray, "directions inputs"]


def row_space(change: Float[np.ndarray, "outputs inputs"]) -> Basis:
    """Orthonormal directions that the rows of an update span, without those of rounding.

    Noise on the update turns the directions and adds others; all count, since a record's own is
    as likely among the weak ones. Only where nothing would be left beside them are the weaker half
    of as many as there are inputs left out.

    Args:
        change: of the weights of a linear layer.

    Examples:
        >>> np.abs(row_space(np.array([[0.0, 2.0, 0.0], [0.0, 1.0, 0.0]]))).round(3).tolist()
        [[0.0, 1.0, 0.0]]
    """
    _, sizes, directions = np.linalg.svd(np.asarray(change, np.float64), full_matrices=False)
    # weights are single precision, and the change is a difference of two of them
    rounding = np.finfo(np.float32).eps * max(change.shape)
    rank = int((sizes > rounding * sizes.max(initial=0.0)).sum())
    inputs = change.shape[1]
    basis: Basis = directions[: rank if rank < inputs else inputs // 2]
    return basis


def projection_residual(
    inputs: Float[np.ndarray, "records *places features"], basis: Basis
) -> Float64[np.ndarray, " records"]:
    """What is left of each record's input beside these directions, as a share of its length.

    0 for what they span, 1 for what is orthogonal to them. Where a layer sees several inputs of one
    record, such as those of tokens, their squares are added up.

    Args:
        inputs: of the layer, for each record.
        basis: orthonormal rows.

    Examples:
        >>> projection_residual(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[0.0, 1.0]])).tolist()
        [0.6, 0.0]
    """
    flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1, basis.shape[1])
    # the difference itself, and not one less the share: a residual of rounding is what tells
    rest = flat - (flat @ basis.T) @ basis
    left, whole = (np.einsum("ijk,ijk->i", part, part) for part in (rest, flat))
    residual: Float64[np.ndarray, " records"] = np.sqrt(left / np.where(whole > 0, whole, 1.0))
    return residual
