"""The server of a recommender can simulate users: private embedding, labels and training."""

import numpy as np
from jaxtyping import Bool, Float

from divulge.core import JointLearner, Learner, UpdateView

POSITIVE_SHARE = 0.2
"""Share of the items shown that users acted on: the protocol adds four negatives to each."""


def row_names(view: UpdateView) -> list[str]:
    """Names of the tensors of the victim's update that have a row for each item."""
    assert view.inputs is not None
    change = view.rounds[0].change(view.victim)
    return [name for name, value in change.items() if value.shape == view.inputs.shape]


class SimulatedUser:
    """A user that starts from the victim's network, with invented private embedding and labels.

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

    def draw_private(self, rng: np.random.Generator) -> Float[np.ndarray, " private"]:
        """Draw a private embedding, which is standard normal."""
        return rng.normal(size=self._learner.private)

    def simulate_movements(
        self,
        labels: Bool[np.ndarray, "trainings items"],
        privates: Float[np.ndarray, "trainings private"],
        items: Float[np.ndarray, "trainings items width"] | None = None,
    ) -> Float[np.ndarray, "trainings items width"]:
        """How each training moves each item's row; all trainings in one call, where it can be.

        Args:
            labels: of each training, which items are acted on.
            privates: private embedding of each training.
            items: items that each training is shown; the victim's unless given.
        """
        import torch

        shown = self._items.expand(len(labels), -1, -1) if items is None else torch.tensor(items)
        interactions, own = shown.new_tensor(labels), shown.new_tensor(privates)
        learner = self._learner
        together = (
            learner.join([learner] * len(labels)) if isinstance(learner, JointLearner) else None
        )
        if together is not None:
            private = own if learner.private else None
            moved = together.update(self._sent, shown, interactions, private)[self._rows]
        else:
            each = [
                learner.update(self._sent, listed, label, private if learner.private else None)
                for listed, label, private in zip(shown, interactions, own, strict=True)
            ]
            moved = torch.stack([change[self._rows] for change in each])
        rows: Float[np.ndarray, "trainings items width"] = moved.numpy()
        return rows
