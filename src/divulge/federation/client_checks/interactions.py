"""Score what an update reveals of its client's interactions, by an attack on oneself."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.arguments import Seed, check_arguments
from divulge.core import (
    InteractionAttack,
    Interactions,
    Learner,
    LocalTraining,
    ReceivedUpdate,
    Round,
    UpdateView,
)
from divulge.errors import DataError, NotApplicable
from divulge.federation.client_checks.base import Outgoing
from divulge.metrics import interactions


@check_arguments
@dataclass(frozen=True, slots=True)
class OwnInteractions:
    """Success of an attack that infers the client's interactions from an update before it is sent.

    This is a test for a guardrail. The client knows the truth, so it can measure what the server
    would learn: the score is 2 AUC - 1, or 0 where that is below 0.

    Args:
        attack: interaction attack that the server would run.
        items: features of the items that the client was shown, one row an item.
        acted: whether the client interacted with each item.
        learner: the client's local training; None where the attack needs none.
        seed: seed of the attack's randomness.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section VIII-C.
    """

    attack: InteractionAttack
    items: Float[np.ndarray, "items features"]
    acted: Bool[np.ndarray, " items"]
    learner: Learner | None
    seed: Seed = 0

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
        auc = interactions.measure_user(guess, Interactions(self.acted)).auc
        return max(0.0, 2 * auc - 1)


def _round(outgoing: Outgoing) -> Round:
    received = {"me": ReceivedUpdate(outgoing.update, outgoing.records)}
    training: LocalTraining = outgoing.training
    return Round(0, "update", outgoing.sent, received, training=training)
