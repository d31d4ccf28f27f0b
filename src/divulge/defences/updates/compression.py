"""Compress updates to fewer entries or to their signs, which keeps no data private."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge.core import ClientContext, Range, SearchSpace, Update, UpdateDefence
from divulge.defences.updates import vectors
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class TopK(UpdateDefence):
    """Keep the entries of largest magnitude over the whole update; the others become 0.

    Of equal entries the first ones are kept, with tensors in the order of their names. What is
    dropped is lost, so the update is biased towards zero.

    Args:
        share: the share of the entries that are kept, above 0 and up to 1; at least one is.

    References:
        Aji and Heafield (2017), Sparse communication for distributed gradient descent, section 3.
        Departure: no residual is kept for the next round.

    Raises:
        SpecError: the share is none.
    """

    share: float = 0.1

    name: ClassVar[str] = "top-k"
    paper: ClassVar[str] = "Aji and Heafield 2017"
    search: ClassVar[SearchSpace] = {"share": Range(0.01, 0.5, log=True)}

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise SpecError(
                f"expected share above 0 and up to 1, got {self.share}: 0.1 keeps a tenth"
            )

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """The update with its small entries set to 0.

        Raises:
            DataError: the update is empty, not of floating point, or not finite.
        """
        del context
        vector = vectors.flatten_update(update)
        size = np.abs(vector)
        keep = math.ceil(self.share * vector.size)
        # section 3: one threshold for the whole update, whatever the size of its tensors
        threshold = np.partition(size, -keep)[-keep]
        mask = size > threshold
        ties = np.flatnonzero(size == threshold)
        mask[ties[: keep - np.count_nonzero(mask)]] = True
        return vectors.split_like(np.where(mask, vector, 0.0), update)


@check_arguments
@dataclass(frozen=True, slots=True)
class Sign(UpdateDefence):
    """Keep the sign of each entry, times the mean magnitude of its tensor.

    Entries below the mean magnitude become too large and those above it too small, so the update is
    biased. An entry of 0 stays 0.

    Args:
        scale: what the mean magnitude is multiplied with, above 0.

    References:
        Bernstein et al. (2018), signSGD, algorithm 1; with the mean magnitude as the scale of
        Karimireddy et al. (2019), Error feedback fixes signSGD, section 4, without the feedback.

    Raises:
        SpecError: the scale is not above 0.
    """

    scale: float = 1.0

    name: ClassVar[str] = "sign"
    paper: ClassVar[str] = "Bernstein et al. 2018"
    search: ClassVar[SearchSpace] = {"scale": Range(0.1, 2.0, log=True)}

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise SpecError(f"expected scale above 0, got {self.scale}: 1 keeps the mean magnitude")

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """Signs times the mean magnitude of each tensor.

        Raises:
            DataError: the update is empty, not of floating point, or not finite, or its type
                cannot hold the scaled mean.
        """
        del context
        vectors.check_update(update, "the update")
        return vectors.cast_like(
            {name: self._signs(value) for name, value in update.items()}, update
        )

    def _signs(self, value: np.ndarray) -> np.ndarray:
        largest = float(np.abs(value).max(initial=0.0))
        if largest == 0:
            return value
        mean = largest * float((np.abs(value) / largest).mean(dtype=np.float64))  # cannot overflow
        # signSGD's sign, at the mean magnitude of Karimireddy et al., section 4
        return np.asarray(np.sign(value, dtype=np.float64) * (self.scale * mean))
