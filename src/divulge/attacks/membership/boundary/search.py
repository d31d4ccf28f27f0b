"""What both searches for a boundary share: questions about points, within an allowance."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge.attacks.shared.perturbation import Flat, Space
from divulge.core import Target

_SMALLEST_ROUND = 16
"""Neighbours below which another round shows nothing of the normal."""


class Allowance(NamedTuple):
    """How the questions about a record are spent."""

    start: int
    """On the first bisection."""
    rounds: int
    neighbours: int
    """In each round."""
    tries: int
    """Lengths of the step that are tried in each round."""
    bisection: int
    """On the bisection in each round."""


def share_out(questions: int, bisection: int, tries: int) -> Allowance:
    """As many rounds as there are questions for, after a first bisection.

    Examples:
        >>> share_out(100, 8, 3)
        Allowance(start=8, rounds=3, neighbours=19, tries=3, bisection=8)
        >>> share_out(5, 8, 3)
        Allowance(start=5, rounds=0, neighbours=0, tries=3, bisection=8)
    """
    left = questions - bisection
    # as many rounds as keep enough neighbours each: more rounds beat better normals
    rounds = left // (_SMALLEST_ROUND + tries + bisection) if left > 0 else 0
    neighbours = left // rounds - tries - bisection if rounds else 0
    return Allowance(min(questions, bisection), rounds, neighbours, tries, bisection)


@dataclass(frozen=True, slots=True)
class Search:
    """Records whose boundary is searched for, and whom to ask."""

    target: Target
    space: Space
    x: Flat
    y: Int[np.ndarray, " records"]
    questions: int
    rng: np.random.Generator

    def crossed(
        self, points: Flat, rows: Int[np.ndarray, " asked"] | slice = slice(None)
    ) -> Bool[np.ndarray, " asked"]:
        """Whether the model gives these points another label than their records; one question each.

        Args:
            points: a point for each record, or for each of the rows.
            rows: the records' positions; all, unless given.
        """
        answers = self.target.predict(self.space.ask(points))
        return np.asarray(answers.argmax(axis=1) != self.y[rows])
