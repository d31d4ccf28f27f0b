"""One client that learns from what it was handed, as a challenge: the server's view, the truth."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from divulge.core import (
    Challenge,
    Interactions,
    Learner,
    LocalTraining,
    Round,
    UpdateDefence,
    UpdateView,
)
from divulge.federation import server

VICTIM = "0"


def challenge(
    sent: Mapping[str, Tensor],
    items: Float[np.ndarray, "items features"],
    acted: Bool[np.ndarray, " items"],
    change: Mapping[str, Tensor],
    learner: Learner,
    defence: UpdateDefence,
    seed: int,
) -> Challenge[UpdateView, Interactions]:
    """What the server has of a client's update, and what the client acted on.

    Args:
        sent: the global weights.
        items: features of the items handed out.
        acted: what the client did with each.
        change: what its training changed.
        learner: how it trains.
        defence: what the update goes through.
        seed: of the defence.

    Raises:
        DivulgeError: the defence refused.
    """
    results = {name: tensor.detach().numpy() for name, tensor in change.items()}
    weights = {
        name: sent[name].numpy() if name in sent else np.zeros_like(result)
        for name, result in results.items()
    }
    me = int(VICTIM)
    received, masked = server.seen(
        defence, 0, weights, {me: results}, {me: len(items)}, {me: defence.guarantee()}, seed
    )
    training = LocalTraining(lr=getattr(learner, "lr", None), epochs=getattr(learner, "epochs", 1))
    seen = Round(0, "update", {n: w.numpy() for n, w in sent.items()}, received, masked, training)
    view = UpdateView(VICTIM, (seen,), inputs=items, learner=learner)
    return Challenge(view, Interactions(acted))
