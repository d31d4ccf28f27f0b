"""The update of item embeddings shows interactions: items acted on move in one direction."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from divulge.attacks.shared.simulated_user import POSITIVE_SHARE, SimulatedUser

SIMULATIONS = 16
"""Number of simulated trainings. Twice as many add a few thousandths of AUC."""


class MovementSignal(NamedTuple):
    """How each item moved along the direction that most of the movements have in common."""

    along: Float[np.ndarray, " items"]
    """Cosine of the movement with that direction: positive where the item was acted on."""
    strength: float
    """Mean square of ``along``: near 1, all movements lie along the direction."""
    noise: float
    """Strength that the main direction of equally many random movements would have."""

    @property
    def clear(self) -> bool:
        """Whether the direction is clearly stronger than that of noise alone."""
        return self.strength > 1.5 * self.noise


def main_direction_signal(moved: Float[np.ndarray, "items width"]) -> MovementSignal:
    """The first right singular direction of the movements' directions, with its sign settled.

    The gradient of the loss in an item's embedding is that of the network, which is much alike for
    all items of a user, times prediction less label: items acted on move one way, the others move
    the other way. Rows are given equal length, so that no item outweighs others. The sign is the
    one for which the directions sum up to less than 0: users act on fewer than half of the items
    that they are handed, which is part of the protocol, as is the share of negatives.

    Items that did not move count as neither.
    """
    direction = _directions(moved)
    # width by width, and not items by items: the same right singular directions
    values, vectors = np.linalg.eigh(direction.T @ direction)
    along = direction @ vectors[:, -1]
    strength = float(values[-1] / max(values.sum(), 1.0))
    # the edge of the spectrum of noise, as Marchenko and Pastur (1967) have it
    noise = (1 + np.sqrt(moved.shape[1] / len(moved))) ** 2 / moved.shape[1]
    return MovementSignal(-along if along.sum() > 0 else along, strength, float(noise))


def simulated_signal(
    moved: Float[np.ndarray, "items width"], user: SimulatedUser, rng: np.random.Generator
) -> Float[np.ndarray, " items"]:
    """How far each item moved the way that acting on it moves it in simulated trainings.

    That way is the covariance of an item's movement with its label, over trainings with labels at
    random and a private embedding of its own each: neither is known, so both are averaged over.
    """
    drawn = [
        (rng.random(len(moved)) < POSITIVE_SHARE, user.draw_private(rng))
        for _ in range(SIMULATIONS)
    ]
    labels, privates = (np.stack(each) for each in zip(*drawn, strict=True))
    movements = user.simulate_movements(labels, privates)
    # covariance with centred labels: what all items share, acted on or not, drops out
    way = np.einsum("ti,tiw->iw", labels - POSITIVE_SHARE, movements)
    along: Float[np.ndarray, " items"] = (moved * _directions(way)).sum(axis=1)
    return along


def _directions(rows: Float[np.ndarray, "items width"]) -> Float[np.ndarray, "items width"]:
    """Rows of length 1; those of length 0 stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    directions: Float[np.ndarray, "items width"] = rows / np.where(length > 0, length, 1.0)
    return directions
