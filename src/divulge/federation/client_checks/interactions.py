"""What one update tells the server about what its client acted on: the client attacks itself."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from divulge.core import (
    InteractionAttack,
    Interactions,
    Learner,
    LocalTraining,
    Received,
    Round,
    UpdateView,
)
from divulge.errors import DataError, NotApplicable
from divulge.federation.client_checks.base import Outgoing
from divulge.metrics import interactions


@dataclass(frozen=True, slots=True)
class OwnInteractions:
    """How well an attack on an update that is about to leave finds out its client's interactions.

    A test for a guardrail. The client knows the truth, so it can say what the server would learn:
    the score is 2 AUC - 1, or 0 where that is below 0.

    Args:
        attack: what a server would do.
        items: features of the items that the client was handed.
        acted: what it did with them.
        learner: how it trains; None where the attack does without.
        seed: of the attack.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section VIII-C.
    """

    attack: InteractionAttack
    items: Float[np.ndarray, "items features"]
    acted: Bool[np.ndarray, " items"]
    learner: Learner | None
    seed: int = 0

    def __call__(self, outgoing: Outgoing) -> float:
        """The score of one update.

        Raises:
            DataError: the attack cannot run on it, or the client acted on all items or on none.
        """
        view = UpdateView("me", (_round(outgoing),), inputs=self.items, learner=self.learner)
        try:
            guess = self.attack(view, np.random.default_rng(self.seed))
        except NotApplicable as error:
            raise DataError(f"expected an update that can be attacked: {error}") from error
        auc = interactions.of_user(guess, Interactions(self.acted)).auc
        return max(0.0, 2 * auc - 1)


def _round(outgoing: Outgoing) -> Round:
    received = {"me": Received(outgoing.update, outgoing.records)}
    training: LocalTraining = outgoing.training
    return Round(0, "update", outgoing.sent, received, training=training)
