"""Interactions read off the update of item embeddings, without simulating any training."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from leakscope.core import EmbeddingLearner

DRAWS = 256
"""Private embeddings that are averaged over. More do not change the answer."""

_AT_A_TIME = 2**20
"""Numbers of pulls that are held at a time."""


class Signal(NamedTuple):
    """How each item moved along the direction that most of the movements have in common."""

    along: Float[np.ndarray, " items"]
    """Cosine of the movement with that direction: positive where the item was acted on."""
    strength: float
    """Mean of its square: near 1, the direction is all there is."""
    noise: float
    """What strength the main direction of so many random movements would have."""

    @property
    def clear(self) -> bool:
        """The direction stands out from what noise alone would leave."""
        return self.strength > 1.5 * self.noise


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
    # the edge of the spectrum of noise, as Marchenko and Pastur (1967) have it
    noise = (1 + np.sqrt(moved.shape[1] / len(moved))) ** 2 / moved.shape[1]
    return Signal(-along if along.sum() > 0 else along, strength, float(noise))


def along_expected_pulls(
    moved: Float[np.ndarray, "items width"],
    learner: EmbeddingLearner,
    sent: Mapping[str, Any],
    items: Any,
    rng: np.random.Generator,
) -> Float[np.ndarray, " items"]:
    """How far each item moved in the way that acting on it pulls it, whoever the user is.

    The private embedding decides the pull of each item; what is taken is the mean over embeddings
    as clients draw them, standard normal.
    """
    total = np.zeros(len(moved))
    size = max(1, _AT_A_TIME // moved.size)
    for start in range(0, DRAWS, size):
        many = min(size, DRAWS - start)
        drawn = items.new_tensor(rng.standard_normal((many, learner.private)))
        pulls = learner.pull(sent, items, drawn).sum(0).numpy()
        total += np.einsum("iw,iw->i", moved, pulls)
    return total / DRAWS


def joined(*scores: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
    """The sum of scores, each in units of its own spread."""
    return np.asarray(sum((one - one.mean()) / max(one.std(), 1e-300) for one in scores))
