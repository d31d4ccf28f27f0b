"""Defend by coarser predictions: fewer digits, or the label alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped

from divulge._util.arguments import check_arguments
from divulge.core import Need
from divulge.errors import SpecError

Predictions = Float[np.ndarray, "records classes"]
Inputs = Shaped[np.ndarray, "records *features"]


@check_arguments
@dataclass(frozen=True, slots=True)
class Rounding:
    """Answer with few digits: no defence against attacks that read labels alone.

    Each probability except the largest is rounded down to a multiple of 10⁻ᵈ for d = ``digits``,
    and the largest gets the rest. So rows stay distributions and the label stays.

    Args:
        digits: how many digits of each probability are kept, from 1 to 9.

    References:
        Shokri et al. (2017), Membership inference attacks against machine learning models, section
        VIII-A ("coarsen the precision"). Departure: they round to the nearest.

    Raises:
        SpecError: there are fewer, or more.
    """

    digits: int = 1

    name: ClassVar[str] = "rounding"
    paper: ClassVar[str] = "Shokri et al. 2017"
    keeps_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 9:
            raise SpecError(
                f"expected digits from 1 to 9, got {self.digits}: for none use the label alone, "
                "which is top-1"
            )

    def offers(self, before: Need) -> Need:
        """As before."""
        return before

    def change(self, answers: Predictions, x: Inputs, key: int) -> Predictions:
        """See `divulge.core.AnswerDefence.change`."""
        del x, key
        unit = 10**self.digits
        units = np.floor(answers * unit)  # whole numbers, so that their sums are exact
        top = answers.argmax(axis=1)
        rows = np.arange(len(answers))
        units[rows, top] = 0
        # departure from rounding to the nearest: rows stay distributions, and the label stays
        units[rows, top] = unit - units.sum(axis=1)
        return np.asarray(units / unit)


@dataclass(frozen=True, slots=True)
class TopOne:
    """Answer with the most likely class alone: no defence against attacks that read labels.

    The first of equal classes gets 1, all others 0.

    References:
        Shokri et al. (2017), Membership inference attacks against machine learning models, section
        VIII-A (the prediction vector restricted to the top class).
    """

    name: ClassVar[str] = "top-1"
    paper: ClassVar[str] = "Shokri et al. 2017"
    keeps_label: ClassVar[bool] = True

    def offers(self, before: Need) -> Need:
        """Labels in place of probabilities."""
        return before & ~Need.PROBABILITIES

    def change(self, answers: Predictions, x: Inputs, key: int) -> Predictions:
        """See `divulge.core.AnswerDefence.change`."""
        del x, key
        return np.asarray(np.eye(answers.shape[1])[answers.argmax(axis=1)])
