"""A trainer makes models of one kind; some trainers come with a differential-privacy guarantee."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from divulge._util.arguments import check_arguments
from divulge.core.records import Records
from divulge.core.targets import Target
from divulge.errors import SpecError

NoiseAssumption = Literal["any", "gaussian", "independent-gaussian"]
"""What is known about a private training besides ε and δ: nothing; that its trade-off curve is the
Gaussian one; or also that it treats records independently of each other, as canaries that do not
interact."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Guarantee:
    """A differential-privacy guarantee, as it is claimed for a model."""

    epsilon: float
    delta: float
    mechanism: str = ""
    """The mechanism in a few words, such as ``DP-SGD, noise multiplier 1.1, 500 steps``."""
    noise: NoiseAssumption = "any"
    unit: Literal["record", "person"] = "record"
    """Who is hidden: neighbouring data differ in one record, or in all records of a person."""

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

    def for_group(self, records: int) -> "Guarantee | None":
        """What it promises somebody with so many records; None where δ reaches 1.

        Args:
            records: how many, from 1.

        References:
            Vadhan (2017), The complexity of differential privacy, lemma 2.2.

        Examples:
            >>> Guarantee(0.5, 0.0).for_group(4).epsilon
            2.0
        """
        # δ (1 + e^ε + ... + e^((k-1)ε)), in logarithms: its terms overflow for a large ε
        delta = 0.0
        if self.delta:
            growth = _log_expm1(records * self.epsilon) - _log_expm1(self.epsilon)
            log_delta = math.log(self.delta) + growth
            if log_delta >= 0:
                return None
            delta = math.exp(log_delta)
        name = f"{self.mechanism}, " if self.mechanism else ""
        return Guarantee(
            records * self.epsilon,
            delta,
            f"{name}ε = {self.epsilon:g} per record for people with up to {records} records",
            unit="person",
        )


def _log_expm1(x: float) -> float:
    """log(e^x - 1) for x above 0."""
    return x + math.log(-math.expm1(-x))


@dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee that an audit holds its measurements against."""

    guarantee: Guarantee
    derived: bool = False
    """Whether nobody stated the guarantee, so that it is that of the trainer of the shadows."""


@runtime_checkable
class Trainer(Protocol):
    """Trains models of the target's kind."""

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """Train one model for each row of ``subsets``, in order, on the records of that row.

        Args:
            pool: the records to draw from.
            subsets: which of the records each model is trained on.
            seeds: one seed a model, for all of its randomness.

        Raises:
            TargetError: a model could not be trained.
        """
        ...


@runtime_checkable
class CheckedTrainer(Protocol):
    """A trainer that tries a model before it trains any."""

    def check(self, pool: Records) -> str:
        """Refuse records of a kind that no model can be trained on.

        Returns:
            What a user has to know of the way models will be trained; empty where it is as set.
        """
        ...


def check_trainer(trainer: object, pool: Records) -> str:
    """What a user has to know of a trainer, for such records; see `CheckedTrainer`."""
    return trainer.check(pool) if isinstance(trainer, CheckedTrainer) else ""


@runtime_checkable
class PrivateTrainer(Protocol):
    """A trainer whose models come with a differential-privacy guarantee."""

    def guarantee(self, n_records: int, rounds: int = 1) -> Guarantee | None:
        """The guarantee of a model trained on so many records; None if it has none.

        Args:
            n_records: how many records the model was trained on.
            rounds: how many trainings on the same records the guarantee holds for together.
        """
        ...
