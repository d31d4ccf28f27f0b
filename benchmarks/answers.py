"""Draw synthetic predictions of a model that memorises its training records a little."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int


class Answers(NamedTuple):
    """What a model said about candidates, held in memory."""

    p: Float64[np.ndarray, "records classes"]
    y: Int[np.ndarray, " records"]
    member: Bool[np.ndarray, " records"]

    def part(self, rows: slice) -> "Answers":
        """Some of the candidates."""
        return Answers(self.p[rows], self.y[rows], self.member[rows])


def synthetic(records: int, classes: int, seed: int = 0) -> Answers:
    """Softmax over Gaussian logits; that of the true class is higher for members, on average.

    Every second candidate is a member.
    """
    rng = np.random.default_rng(seed)
    member = np.arange(records) % 2 == 0
    y = rng.integers(0, classes, records)
    logits = rng.normal(size=(records, classes))
    logits[np.arange(records), y] += np.where(
        member, rng.normal(9, 3, records), rng.normal(7, 4, records)
    )
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Answers(weights / weights.sum(axis=1, keepdims=True), y, member)
