"""Interactions read off the update of item embeddings, without simulating any training."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Signal(NamedTuple):
    """How each item moved along the direction that most of the movements have in common."""

    along: Float[np.ndarray, " items"]
    """Cosine of the movement with that direction: positive where the item was acted on."""
    strength: float
    """Mean of its square: near 1, the direction is all there is."""


def along_main_direction(moved: Float[np.ndarray, "items width"]) -> Signal:
    """The first right singular direction of the movements' directions, with its sign settled.

    The gradient of the loss in an item's embedding is that of the network, which is much alike for
    all items of a user, times prediction less label: items acted on move one way, the others move
    the other way. Rows are given equal length, so that no item outweighs others. The sign is the
    one for which the directions sum up to less than 0: users act on fewer than half of the items
    that they are handed, which is part of the protocol, as is the share of negatives.

    Items that did not move count as neither.
    """
    length = np.linalg.norm(moved, axis=1, keepdims=True)
    direction = moved / np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(direction.T @ direction)
    along = direction @ vectors[:, -1]
    strength = float(values[-1] / max(values.sum(), 1.0))
    return Signal(-along if along.sum() > 0 else along, strength)
