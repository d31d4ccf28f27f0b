"""Answer about texts from a table of the log-probabilities of their tokens."""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core import Need
from divulge.core.tokens import Tokens
from divulge.errors import NotApplicable
from divulge.targets.cache import RecentAnswers
from divulge.targets.recorded import TableTarget


@final
class TokenTableTarget:
    """Log-probabilities of tokens, looked up by row number; there are no features.

    Args:
        tokens: of all texts of a table, in its order.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._means = TableTarget(tokens.average(tokens.logprob)[:, None], Need.SCORES)
        self._recent = RecentAnswers[Tokens](most=1)

    @property
    def offers(self) -> Need:
        """The tokens, and one number a text."""
        return Need.TOKENS | Need.SCORES

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The mean log-probability of the texts in these rows, counted from 0.

        Raises:
            TargetError: there are no such rows.
        """
        return self._means.predict(x)

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the model says of the tokens of these texts.

        Raises:
            TargetError: there are no such rows.
            NotApplicable: texts were to stand before them.
        """
        if after is not None:
            raise NotApplicable(
                "expected a model that can be asked about texts behind others, got a table: audit "
                "the model itself"
            )
        known = self._recent.find(x)
        if known is not None:
            return known
        return self._recent.remember(x, self._tokens.take(self._means.find_rows(x)))
