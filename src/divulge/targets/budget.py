"""Count the queries to a model, and limit them by a budget."""

from collections.abc import Generator
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import Need, Target, stream_answers
from divulge.core.tokens import Tokens, as_token_target, stream_tokens
from divulge.errors import BudgetSpent
from divulge.targets.look_through import LookThrough


@final
class CountingTarget(LookThrough):
    """A target that counts the records it is asked about, up to a budget.

    Examples:
        >>> from divulge.targets import FunctionTarget
        >>> target = CountingTarget(FunctionTarget(lambda x: np.full((len(x), 2), 0.5)), budget=3)
        >>> _ = target.predict(np.zeros((2, 1)))
        >>> target.query_count
        2
    """

    def __init__(self, target: Target, budget: int | None = None) -> None:
        self._target = target
        self._budget = budget
        self._asked = 0

    @property
    def query_count(self) -> int:
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
        self._count(len(x))
        return self._target.predict(x)

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The inner target's probabilities as they come; all records are counted at once.

        Raises:
            BudgetSpent: see `predict`.
            TargetError: the inner target failed.
        """
        self._count(len(x))
        yield from stream_answers(self._target, x)

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the inner target says of the tokens of texts; each text counts like an answer.

        Raises:
            BudgetSpent: see `predict`.
            NotApplicable: the inner target is no language model.
        """
        inner = as_token_target(self._target)
        self._count(len(x))
        return inner.tokens(x, after)

    def stream_tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Generator[tuple[Int[np.ndarray, " part"], Tokens], None, None]:
        """The same as they come; all texts are counted at once.

        Raises:
            BudgetSpent: see `predict`.
            NotApplicable: the inner target is no language model.
        """
        as_token_target(self._target)
        self._count(len(x))
        yield from stream_tokens(self._target, x, after)

    def _pass_on(
        self,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"] | None = None,
    ) -> tuple[Any, Any]:
        """The same; each record that is looked at counts like an answer."""
        self._count(len(x))
        return x, y

    def _count(self, records: int) -> None:
        if self._budget is not None and self._asked + records > self._budget:
            raise BudgetSpent(
                f"expected at most {self._budget} questions, got {records} more after "
                f"{self._asked}: raise the budget or audit fewer records"
            )
        # Counted before asking: an answer that gets lost on its way was paid for all the same.
        self._asked += records
