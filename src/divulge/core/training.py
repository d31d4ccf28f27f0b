"""Trainers of models, and the privacy that they promise."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge.core.records import Records
from divulge.core.targets import Target
from divulge.errors import SpecError

Noise = Literal["any", "gaussian", "independent-gaussian"]
"""What is known about a private training besides ε and δ: nothing; that its trade-off curve is the
Gaussian one; or also that it treats records independently of each other, as canaries that do not
interact."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A differential-privacy guarantee, as it is claimed for a model."""

    epsilon: float
    delta: float
    mechanism: str = ""
    """What it rests on, in a few words: ``DP-SGD, noise multiplier 1.1, 500 steps``."""
    noise: Noise = "any"

    def __post_init__(self) -> None:
        if self.noise != "any" and self.delta == 0:
            raise SpecError(
                "expected delta above 0 beside Gaussian noise, got 0: Gaussian noise has an "
                "epsilon only for a delta, such as 1e-5"
            )
        if not (0 < self.epsilon < math.inf and 0 <= self.delta < 1):
            raise SpecError(
                f"expected epsilon above 0 and finite, and delta from 0 to below 1, got "
                f"epsilon={self.epsilon} and delta={self.delta}: see what the accountant of the "
                "training said"
            )


@dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee that an audit holds its measurements against."""

    guarantee: Guarantee
    derived: bool = False
    """Nobody stated it: it is what the trainer of the shadow models promises."""


@runtime_checkable
class Trainer(Protocol):
    """Trains models of the target's kind."""

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One model a row of ``subsets``, in order, each trained on those records of the pool.

        Args:
            pool: the records to draw from.
            subsets: which of them each model is trained on.
            seeds: one a model, for its own randomness.

        Raises:
            TargetError: a model could not be trained.
        """
        ...


@runtime_checkable
class Private(Protocol):
    """What a trainer has besides, if its models come with a guarantee."""

    def guarantee(self, n_records: int, rounds: int = 1) -> Guarantee | None:
        """What a model trained on so many records promises; None where that is nothing.

        Args:
            n_records: on which it was trained.
            rounds: how many trainings on them, one after another, are promised for together.
        """
        ...
