"""Rank records by a number that somebody else computed: a loss, or the score of any attack."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge.core import ModelView, Need, Scores


@dataclass(frozen=True, slots=True)
class GivenScore:
    """Rank records by a number from a table: a score as it is, or minus a loss.

    Only the order counts, so a loss and its negative as a score give the same metrics.

    References:
        Yeom et al. (2018), Privacy risk in machine learning, adversary 2, where the number is the
        loss; for another score, the paper of the attack that computed it.
    """

    name: ClassVar[str] = "given-score"
    paper: ClassVar[str] = "divulge 2026"
    needs: ClassVar[Need] = Need.SCORES

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The score of each candidate, in the unit of the table."""
        del rng
        return Scores(view.target.predict(view.records.x)[:, 0])
