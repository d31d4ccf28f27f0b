"""The server of a recommender can simulate a user: private embedding, labels and training."""

import numpy as np
from jaxtyping import Bool, Float

from divulge.core import Learner, UpdateView

POSITIVE_SHARE = 0.2
"""Share of the items shown that users acted on: the protocol adds four negatives to each."""


class SimulatedUser:
    """A user that trains on the victim's items, with an invented private embedding and labels.

    Args:
        learner: how the victim trains.
        view: the view against the victim.
        rows: name of the tensor that has a row for each item.
    """

    def __init__(self, learner: Learner, view: UpdateView, rows: str) -> None:
        import torch

        assert view.inputs is not None
        self._learner, self._rows = learner, rows
        self._sent = {name: torch.from_numpy(w.copy()) for name, w in view.rounds[0].sent.items()}
        self._items = torch.from_numpy(view.inputs.copy())

    def simulate_movement(
        self, label: Bool[np.ndarray, " items"], rng: np.random.Generator
    ) -> Float[np.ndarray, "items width"]:
        """How training moves each item's row; the private embedding is standard normal."""
        items, own = self._items, self._learner.private
        private = items.new_tensor(rng.normal(size=own)) if own else None
        change = self._learner.update(self._sent, items, items.new_tensor(label), private)
        rows: Float[np.ndarray, "items width"] = change[self._rows].numpy()
        return rows
