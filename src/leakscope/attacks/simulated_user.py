"""A user as the server of a recommender can make one up: a private embedding, labels, training."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from leakscope.core import Learner, UpdateView

POSITIVE = 0.2
"""Share of the items handed out that users acted on: the protocol has four negatives to each."""


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """Trains on what the victim was handed, with labels and a private embedding that are made up.

    Args:
        learner: how the victim trains.
        view: against the victim.
        rows: the tensor that has a row for each item.
    """

    learner: Learner
    view: UpdateView
    rows: str

    def moved(
        self, label: Bool[np.ndarray, " items"], rng: np.random.Generator
    ) -> Float[np.ndarray, "items width"]:
        """How training moves each item's row; the private embedding is standard normal."""
        import torch

        assert self.view.inputs is not None
        sent = {name: torch.from_numpy(w.copy()) for name, w in self.view.rounds[0].sent.items()}
        items = torch.from_numpy(self.view.inputs.copy())
        own = self.learner.private
        private = items.new_tensor(rng.normal(size=own)) if own else None
        change = self.learner.update(sent, items, items.new_tensor(label), private)
        rows: Float[np.ndarray, "items width"] = change[self.rows].numpy()
        return rows
