"""Counting, and limiting, what a model is asked."""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from leakscope.core import Need, Target
from leakscope.errors import BudgetSpent


@final
class Counting:
    """A target that counts the records it is asked about, up to a budget.

    Examples:
        >>> from leakscope.targets.function import FunctionTarget
        >>> target = Counting(FunctionTarget(lambda x: np.full((len(x), 2), 0.5)), budget=3)
        >>> _ = target.predict(np.zeros((2, 1)))
        >>> target.asked
        2
    """

    def __init__(self, target: Target, budget: int | None = None) -> None:
        self._target = target
        self._budget = budget
        self._asked = 0

    @property
    def asked(self) -> int:
        """How many records were asked about."""
        return self._asked

    @property
    def offers(self) -> Need:
        """What the answers allow."""
        return self._target.offers

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The inner target's probabilities.

        Raises:
            BudgetSpent: these records would exceed the budget; none of them was asked about.
            TargetError: the inner target failed.
        """
        if self._budget is not None and self._asked + len(x) > self._budget:
            raise BudgetSpent(
                f"expected at most {self._budget} questions, got {len(x)} more after "
                f"{self._asked}: raise the budget or audit fewer records"
            )
        # Counted before asking: an answer that gets lost on its way was paid for all the same.
        self._asked += len(x)
        return self._target.predict(x)
