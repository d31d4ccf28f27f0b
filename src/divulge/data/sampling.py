"""What an accountant is told about the batches of a private training, and what was seen of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pydantic
from jaxtyping import Int64

from divulge._util.arguments import Count, check_arguments

SampleRate = Annotated[float, pydantic.Field(gt=0, le=1)]
Divisor = Annotated[float, pydantic.Field(gt=0, le=2**53)]


@check_arguments
@dataclass(frozen=True, slots=True)
class StatedSampling:
    """What an accountant of DP-SGD is told: every record is in a batch by a coin of its own.

    Args:
        records: the number of records in the training set, inserted canaries included.
        rate: the probability that a record is in a batch.
        steps: the number of steps.
        divisor: what every sum of clipped gradients is divided by, chosen without a look at the
            number of records. Give it where that number is secret, and it is held against what the
            optimiser of Opacus divides by. By default the number is public.
    """

    records: Count
    rate: SampleRate
    steps: Count
    divisor: Divisor | None = None


@dataclass(frozen=True, slots=True)
class SeenBatches:
    """The batches of a training, beside what its accountant was told."""

    sizes: Int64[np.ndarray, " steps"]
    """The number of records of each step."""
    stated: StatedSampling
    divisors: tuple[float, float] | None = None
    """The smallest and the largest number that sums of gradients were divided by; None where the
    optimiser does not say it."""

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All numbers by name: what is stated and the sizes, and what is known of divisors."""
        stated = self.stated
        stored = {"batches": [stated.records, stated.rate, stated.steps, *self.sizes]}
        if self.divisors is not None:
            stored["divisors"] = [stated.divisor or 0, *self.divisors]
        return {name: np.array(numbers, np.float64) for name, numbers in stored.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "SeenBatches | None":
        """What `as_arrays` made; None where there is nothing of it.

        Raises:
            ValueError: they are no such arrays.
            SpecError: what is stated makes no sense.
        """
        if "batches" not in arrays:
            return None
        stored, divisors = arrays["batches"], arrays.get("divisors", np.zeros(0))
        sizes = stored[3:]
        if (
            stored.dtype != np.float64
            or len(stored) < 4
            or not (np.isfinite(stored) & (stored >= 0)).all()
        ):
            raise ValueError("its batches are no numbers")
        if (stored[[0, 2]] % 1).any() or (sizes % 1).any() or stored.max() > 2**53:
            raise ValueError("its batches are no whole numbers of records")
        listed = divisors.tolist()
        if (
            divisors.dtype != np.float64
            or len(listed) not in (0, 3)
            or not np.isfinite(listed).all()
        ):
            raise ValueError("its divisors are no numbers")
        chosen, *divisor_rest = listed or [0.0]
        stated = StatedSampling(int(stored[0]), float(stored[1]), int(stored[2]), chosen or None)
        return cls(
            sizes.astype(np.int64),
            stated,
            (divisor_rest[0], divisor_rest[1]) if divisor_rest else None,
        )
