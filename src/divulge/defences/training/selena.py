"""Defend by SELENA: a model learns from predictions of models that never saw the record."""

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
class SELENA(SelfDistillation):
    """Self-distillation from an ensemble in which every record has models that never saw it.

    Each training record is left out by ``left_out`` of ``models`` sub-models, drawn for it alone;
    its soft label is the mean of their probabilities. One more model learns the records with their
    soft labels; only this model is published. A record that is twice in the training set reveals
    its label by the other copy.

    Args:
        models: sub-models, K in the paper.
        left_out: how many sub-models leave a record out, L in the paper.

    References:
        Tang et al. (2022), Mitigating membership inference attacks by self-distillation through a
        novel ensemble architecture, algorithms 1 and 2; the paper has K = 25 and L = 10.

    Raises:
        SpecError: left_out is not from 1 to below models.
    """

    models: int = 25
    left_out: int = 10

    name: ClassVar[str] = "selena"
    paper: ClassVar[str] = "Tang et al. 2022"
    search: ClassVar[SearchSpace] = {"models": (5, 10), "left_out": (2, 3)}

    def __post_init__(self) -> None:
        if not 1 <= self.left_out < self.models:
            raise SpecError(
                f"expected left_out from 1 to below models, got left_out={self.left_out} of "
                f"models={self.models}: the paper leaves a record out of 10 of 25"
            )

    @property
    def teachers(self) -> int:
        """The sub-models."""
        return self.models

    def exclude(self, records: int, seed: int) -> Exclusions:
        """Which sub-model leaves out which record."""
        order = stream(seed, "split").permuted(
            np.tile(np.arange(self.models), (records, 1)), axis=1
        )
        # algorithm 1: each record draws its own L of the K sub-models that never see it
        unseen: np.ndarray = self.left_out > order.T
        return unseen
