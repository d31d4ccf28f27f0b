"""Interaction-level membership inference: try random labels, without gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.arguments import check_arguments
from divulge.attacks.shared.simulated_user import POSITIVE_SHARE, SimulatedUser, row_names
from divulge.core import Need, Reconstruction, UpdateView
from divulge.errors import NotApplicable, SpecError

Label = Bool[np.ndarray, " items"]
Distance = Callable[[Label], Float[np.ndarray, " items"]]
"""Function from labels to each item's distance between its simulated and its received movement."""


@check_arguments
@dataclass(frozen=True, slots=True)
class InteractionSearch:
    """Label items at random, simulate training, and keep the labels that fit best.

    In each try the open items get random labels. Training is simulated with a random private
    embedding, and the share ``kept`` of open items whose simulated embeddings are nearest to the
    received ones keep their labels. After the last try the rest keep the labels that came nearest.

    Args:
        tries: number of simulated trainings.
        kept: share of the open items that each simulated training settles.
        positive: share of items that are labelled as acted on.

    References:
        Yuan et al. (2023), Interaction-level membership inference attack against federated
        recommender systems, section 4. Departures: the published code settles 0.9 of all items at a
        time and ends as soon as enough are settled as acted on.

    Raises:
        SpecError: a setting makes no sense.
    """

    tries: int = 20
    kept: float = 0.1
    positive: float = POSITIVE_SHARE

    name: ClassVar[str] = "interaction-search"
    paper: ClassVar[str] = "Yuan et al. 2023"

    def __post_init__(self) -> None:
        if self.tries < 1 or not 0 < self.kept < 1 or not 0 < self.positive < 1:
            raise SpecError(f"expected tries, and shares between 0 and 1, got {self}")

    @property
    def needs(self) -> Need:
        """The victim's own update, and what was handed out."""
        return Need.UPDATES | Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        """Labels as scores: 1 where the user is said to have acted.

        Raises:
            NotApplicable: the learner is not known, or the update has no row for each item.
        """
        assert view.inputs is not None
        learner = view.learner
        change = view.rounds[0].change(view.victim)
        rows = row_names(view)
        if learner is None or not rows:
            raise NotApplicable(
                "expected a learner and an update with a row for each item handed out, got "
                f"{'no learner' if learner is None else 'no such rows'}: say how clients train"
            )
        user = SimulatedUser(learner, view, rows[0])

        def distance(label: Label) -> Float[np.ndarray, " items"]:
            (movement,) = user.simulate_movements(label[None], user.draw_private(rng)[None])
            apart: np.ndarray = np.linalg.norm(movement - change[rows[0]], axis=1)
            return apart.astype(np.float64)

        label = self._search(len(view.inputs), distance, rng)
        return Reconstruction(
            label.astype(np.float64), label, f"search: {self.tries} simulated trainings"
        )

    def _search(self, many: int, distance: Distance, rng: np.random.Generator) -> Label:
        label = np.zeros(many, bool)
        nearest = np.full(many, np.inf)
        open_ = np.ones(many, bool)
        best = label.copy()
        for _ in range(self.tries):
            label[open_] = rng.random(int(open_.sum())) < self.positive
            apart = distance(label)
            better = open_ & (apart < nearest)
            best[better], nearest[better] = label[better], apart[better]
            at = np.flatnonzero(open_)
            # section 4: the nearest keep their labels; here a share of the open items, not of all
            settled = at[np.argsort(apart[at], kind="stable")[: max(1, int(self.kept * len(at)))]]
            best[settled] = label[settled]
            open_[settled] = False
            if not open_.any():
                break
        return best
