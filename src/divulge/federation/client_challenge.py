"""Turn one client's update into a challenge: the server's view, and the true interactions."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from divulge.core import (
    Game,
    Interactions,
    Learner,
    LocalTraining,
    Round,
    UpdateDefence,
    UpdateView,
)
from divulge.federation import server

VICTIM = "0"


def make_challenge(
    sent: Mapping[str, Tensor],
    items: Float[np.ndarray, "items features"],
    acted: Bool[np.ndarray, " items"],
    change: Mapping[str, Tensor],
    learner: Learner,
    defence: UpdateDefence,
    seed: int,
) -> Game[UpdateView, Interactions]:
    """The server's view of a client's update, with the client's interactions as the truth.

    Args:
        sent: global weights that the client started from, by name of the tensor.
        items: features of the items that the client was shown, one row an item.
        acted: whether the client interacted with each item.
        change: trained weights minus the global ones, by name of the tensor.
        learner: the client's local training.
        defence: update defence applied before the server sees the update.
        seed: seed of the defence's randomness.

    Raises:
        DivulgeError: the defence refused.
    """
    results = {name: tensor.detach().numpy() for name, tensor in change.items()}
    weights = {
        name: sent[name].numpy() if name in sent else np.zeros_like(result)
        for name, result in results.items()
    }
    me = int(VICTIM)
    received, masked = server.exchange_updates(
        defence, 0, weights, {me: results}, {me: len(items)}, {me: defence.guarantee()}, seed
    )
    training = LocalTraining(lr=getattr(learner, "lr", None), epochs=getattr(learner, "epochs", 1))
    played = Round(0, "update", {n: w.numpy() for n, w in sent.items()}, received, masked, training)
    view = UpdateView(VICTIM, (played,), inputs=items, learner=learner)
    return Game(view, Interactions(acted))
