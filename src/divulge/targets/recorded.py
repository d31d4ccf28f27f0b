"""Answers that a model gave before, as a target: the model itself may be gone."""

from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core import Need, Records
from divulge.errors import TargetError
from divulge.targets.answers import offers
from divulge.targets.rows import row_keys


@final
class Recorded:
    """A target that looks up probabilities of the records that the model was asked about.

    Args:
        queries: what the model was asked about.
        answers: its probabilities, one set of records after another.
        allowed: what they allow, where that is less than probabilities do.
    """

    def __init__(
        self,
        queries: tuple[Records, ...],
        answers: Float[np.ndarray, "records classes"],
        allowed: Need | None = None,
    ) -> None:
        self._allowed = offers("probabilities") if allowed is None else allowed
        self._queries = queries
        self._answers = answers
        starts = np.cumsum([len(group) for group in queries])[:-1]
        self._parts = np.split(answers, starts)

    @property
    def offers(self) -> Need:
        """What the answers allow."""
        return self._allowed

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The probabilities, read-only where a whole set of records is asked about.

        Raises:
            TargetError: the model was not asked about one of these records.
        """
        for group, part in zip(self._queries, self._parts, strict=True):
            if x is group.x:
                return part
        try:
            return self._answers[[self._rows[key] for key in row_keys(x)]]
        except KeyError:
            raise TargetError(
                "expected records that the model was asked about while it was there, got others: "
                "audit that model by itself"
            ) from None

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        keys = [key for group in self._queries for key in row_keys(group.x)]
        return {key: row for row, key in enumerate(keys)}
