"""Simulate users who walk down a list, click by relevance, and stop (click models)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Int

from divulge._util.arguments import check_arguments
from divulge.errors import SpecError

Habit = Literal["navigational", "informational"]

_ATTEMPTS = 10_000


@check_arguments
@dataclass(frozen=True, slots=True)
class ClickModel:
    """A dependent click model: each place is looked at in turn, until a click ends the search.

    Args:
        click: probability of a click for each grade of relevance.
        stop: probability that a click was the last one, for each grade.

    Raises:
        SpecError: not one probability in [0, 1] of each kind a grade.

    References:
        Guo, Liu and Wang (2009), Efficient multiple-click models in web search; Wang et al. (2021),
        Effective and privacy-preserving federated online learning to rank, table 2.
    """

    click: tuple[float, ...]
    stop: tuple[float, ...]

    def __post_init__(self) -> None:
        given = (*self.click, *self.stop)
        if len(self.click) != len(self.stop) or not all(0 <= p <= 1 for p in given) or not given:
            raise SpecError(f"expected probabilities of click and stop for each grade, got {self}")

    def draw(
        self, grades: Int[np.ndarray, " places"], rng: np.random.Generator
    ) -> Bool[np.ndarray, " places"]:
        """Draw the clicks on one list, again until there are clicks and places without one.

        Raises:
            SpecError: the list is too short, or such clicks are next to impossible.
        """
        click, stop = np.array(self.click)[grades], np.array(self.stop)[grades]
        for _ in range(_ATTEMPTS):
            wanted = rng.random(len(grades)) < click
            ends = np.flatnonzero(wanted & (rng.random(len(grades)) < stop))
            examined = np.arange(len(grades)) <= (ends[0] if len(ends) else len(grades))
            clicks: Bool[np.ndarray, " places"] = wanted & examined
            if clicks.any() and not clicks.all():
                return clicks
        raise SpecError(
            f"expected clicks on some of {len(grades)} places and not on all, got none such in "
            f"{_ATTEMPTS} draws: leave this list out, or change the click model"
        )


@check_arguments
def published_click_model(habit: Habit, grades: int) -> ClickModel:
    """Look up a click model of the federated ranking literature.

    Args:
        habit: ``navigational`` users look for one document, ``informational`` ones for many.
        grades: number of grades of relevance: 3 as in MQ2007 and MQ2008, or 5 as in MSLR.

    Raises:
        SpecError: there is none of this habit or for so many grades.
    """
    models: dict[tuple[str, int], ClickModel] = {
        ("navigational", 3): ClickModel((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        ("informational", 3): ClickModel((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        ("navigational", 5): ClickModel((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        ("informational", 5): ClickModel((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    }
    if (habit, grades) not in models:
        raise SpecError(
            f"expected one of {', '.join(get_args(Habit))} with 3 or 5 grades, got {habit!r} "
            f"with {grades}"
        )
    return models[habit, grades]
