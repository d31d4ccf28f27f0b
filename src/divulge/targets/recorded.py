"""Answer from recorded predictions, looked up by content or by row number."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import Need, Records, Target
from divulge.errors import TargetError
from divulge.targets.answer_file import find_rows
from divulge.targets.cache import record_keys
from divulge.targets.logits import LogitTarget
from divulge.targets.outputs import access_of, to_probabilities


@final
class RecordedTarget:
    """A target that looks up probabilities of the records that the model was asked about.

    Args:
        queries: the sets of records that the model was asked about.
        answers: its probabilities, shape (records, classes), one set after another.
        allowed: the access that the answers give, where that is less than probabilities give.
    """

    def __init__(
        self,
        queries: tuple[Records, ...],
        answers: Float[np.ndarray, "records classes"],
        allowed: Need | None = None,
    ) -> None:
        self._allowed = access_of("probabilities") if allowed is None else allowed
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
            return self._answers[[self._rows[key] for key in record_keys(x)]]
        except KeyError:
            raise TargetError(
                "expected records that the model was asked about while it was there, got others: "
                "audit that model by itself"
            ) from None

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        keys = [key for group in self._queries for key in record_keys(group.x)]
        return {key: row for row, key in enumerate(keys)}


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Answers looked up by row number; there are no features."""

    answers: Any
    """Probabilities or values, shape (rows, classes): an array, or an `AnswerFile`."""
    offers: Need
    raw: Float[np.ndarray, "rows classes"] | None = None
    """The logits whose softmax the answers are, where they are known."""
    declared: bool = False
    """Whether somebody said that the answers are probabilities, and no model did."""

    @classmethod
    def record(cls, target: Target, x: Shaped[np.ndarray, " records *features"]) -> "TableTarget":
        """A table of all that a classifier answers about these records, asked once.

        Raises:
            TargetError: the classifier failed.
        """
        raw = target.logits(x) if isinstance(target, LogitTarget) else None
        answers = target.predict(x) if raw is None else to_probabilities(raw, "logits", len(raw))
        return cls(answers, Need.PROBABILITIES | Need.HARD_LABELS, raw)

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The answers in these rows, counted from 0, given as (records,) or (records, 1).

        Raises:
            TargetError: there are no such rows.
        """
        chosen: Float[np.ndarray, "records classes"] = self.answers[self.find_rows(x)]
        return chosen

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The same by parts, in the order of the table.

        Raises:
            TargetError: there are no such rows.
        """
        yield from find_rows(self.answers, self.find_rows(x))

    def logits(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"] | None:
        """The logits in these rows; None where the table has none.

        Raises:
            TargetError: there are no such rows.
        """
        return None if self.raw is None else self.raw[self.find_rows(x)]

    def find_rows(self, x: Shaped[np.ndarray, " records *features"]) -> Int[np.ndarray, " records"]:
        """The row numbers that records without features stand for.

        Raises:
            TargetError: there are no such rows.
        """
        rows = x.astype(np.int64, copy=False)
        last = len(self.answers) - 1
        if (
            x.size != len(x)
            or (rows is not x and (rows != x).any())
            or (len(x) and not 0 <= x.min() <= x.max() <= last)
        ):
            raise TargetError(
                f"expected row numbers from 0 to {last}, got an array of shape {x.shape} with "
                "others: a table cannot be asked about records that are not in it"
            )
        places: Int[np.ndarray, " records"] = rows.reshape(-1)
        return places
