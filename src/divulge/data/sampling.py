"""What an accountant is told about the batches of a private training, and what was seen of them."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pydantic
from jaxtyping import Int64

from divulge._util.arguments import Count, check_arguments

SampleRate = Annotated[float, pydantic.Field(gt=0, le=1)]


@check_arguments
@dataclass(frozen=True, slots=True)
class StatedSampling:
    """What an accountant of DP-SGD is told: every record is in a batch by a coin of its own.

    Args:
        records: the number of records in the training set, inserted canaries included.
        rate: the probability that a record is in a batch.
        steps: the number of steps.
    """

    records: Count
    rate: SampleRate
    steps: Count


@dataclass(frozen=True, slots=True)
class SeenBatches:
    """The batches of a training, beside what its accountant was told."""

    sizes: Int64[np.ndarray, " steps"]
    """The number of records of each step."""
    stated: StatedSampling

    def as_array(self) -> np.ndarray:
        """All numbers in one array: what is stated first, then the sizes."""
        stated = self.stated
        return np.array([stated.records, stated.rate, stated.steps, *self.sizes], np.float64)

    @classmethod
    def from_array(cls, held: np.ndarray) -> "SeenBatches":
        """What `as_array` made.

        Raises:
            ValueError: it is no such array.
        """
        sizes = held[3:]
        if held.dtype != np.float64 or len(held) < 4 or not (np.isfinite(held) & (held >= 0)).all():
            raise ValueError("its batches are no numbers")
        if (held[[0, 2]] % 1).any() or (sizes % 1).any() or held.max() > 2**53:
            raise ValueError("its batches are no whole numbers of records")
        stated = StatedSampling(int(held[0]), float(held[1]), int(held[2]))
        return cls(sizes.astype(np.int64), stated)
