"""Defend by complementary distillation: each part of the records is labelled by the others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from divulge._util.arguments import check_arguments
from divulge._util.random import stream
from divulge.core import SearchSpace
from divulge.defences.training.distillation import Exclusions, SelfDistillation
from divulge.errors import SpecError


@check_arguments
@dataclass(frozen=True, slots=True)
class ComplementaryDistillation(SelfDistillation):
    """Distillation in which the teacher of a part of the records was trained on all other parts.

    The records are cut at random into ``folds`` parts. Each part gets soft labels by a teacher that
    was trained on the others. One more model learns all records with their soft labels; only this
    model is published. `SELENA` is alike, with teachers drawn for each record.

    Args:
        folds: the number of parts, and of teachers.
        temperature: of the soft labels, and of the answers that match them; 1 changes nothing.

    References:
        Zheng, Cao and Wang (2021), Resisting membership inference attacks through knowledge
        distillation, Neurocomputing 452 (algorithm CKD). Only its abstract was at hand: the two
        defaults are those of a public implementation by others, the factor of the squared
        temperature is that of Hinton, Vinyals and Dean (2015).

    Raises:
        SpecError: there are fewer than two parts, or the temperature is not above 0.
    """

    folds: int = 10
    temperature: float = 3.0

    name: ClassVar[str] = "complementary-distillation"
    paper: ClassVar[str] = "Zheng, Cao and Wang 2021"
    search: ClassVar[SearchSpace] = {"folds": (2, 5), "temperature": (1.0, 3.0)}

    def __post_init__(self) -> None:
        if self.folds < 2 or self.temperature <= 0:
            raise SpecError(
                "expected folds from 2 and temperature above 0, got "
                f"folds={self.folds} and temperature={self.temperature}"
            )

    @property
    def teachers(self) -> int:
        """One a part."""
        return self.folds

    @property
    def softness(self) -> float:
        """The temperature."""
        return self.temperature

    def exclude(self, records: int, seed: int) -> Exclusions:
        """Which part a record is in: that of the one teacher that never sees it."""
        part = stream(seed, "split").permutation(records) % self.folds
        # each part is labelled by the one teacher that was trained on all others
        unseen: np.ndarray = np.arange(self.folds)[:, None] == part
        return unseen
