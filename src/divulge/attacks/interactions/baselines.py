"""Random guesses are the baseline of every attack on interactions: a coin for each item."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.core import Need, Reconstruction, UpdateView


@dataclass(frozen=True, slots=True)
class RandomInteractions:
    """Guess without information: scores uniform in [0, 1].

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section VI: an AUC of one half.
    """

    name: ClassVar[str] = "random-interactions"
    paper: ClassVar[str] = "Pham, Kulkarni and Houmansadr 2024"

    @property
    def needs(self) -> Need:
        """The items shown, for their number alone."""
        return Need.INPUTS

    def __call__(self, view: UpdateView, rng: np.random.Generator) -> Reconstruction:
        """A coin for each item."""
        assert view.inputs is not None
        score = rng.random(len(view.inputs))
        return Reconstruction(score, score > 0.5, "a coin for each item")
