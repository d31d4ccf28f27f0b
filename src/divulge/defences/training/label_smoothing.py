"""Defend by label smoothing: spread a part of every label evenly over the classes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch.nn.functional import cross_entropy

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.recipe import Recipe


@check_arguments
@dataclass(frozen=True, slots=True)
class LabelSmoothing(TrainingDefence):
    """Train towards labels of which a part is spread evenly over all classes.

    The loss is (1 - amount) times the cross-entropy plus amount times the mean over classes of -log
    p. The model is not rewarded for certainty.

    Args:
        amount: the part of a label that is spread, from 0 to below 1.

    References:
        Szegedy et al. (2016), Rethinking the Inception architecture, section 7; Kaya and Dumitras
        (2021), When does data augmentation help with membership inference attacks?, for what it
        does to attacks.

    Raises:
        SpecError: the amount is not from 0 to below 1.
    """

    amount: float = 0.1

    name: ClassVar[str] = "label-smoothing"
    paper: ClassVar[str] = "Szegedy et al. 2016"
    search: ClassVar[SearchSpace] = {"amount": Range(0.05, 0.7)}

    def __post_init__(self) -> None:
        if not 0 <= self.amount < 1:
            raise SpecError(f"expected amount from 0 to below 1, got {self.amount}")

    def defended_recipe(self) -> Recipe:
        """The same recipe with smooth labels."""
        return replace(self.recipe, loss=_SmoothedCrossEntropy(self.amount))


@dataclass(frozen=True, slots=True)
class _SmoothedCrossEntropy:
    amount: float

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        del epoch
        # section 7 of Szegedy et al.: the cross-entropy with (1 - amount) label + amount / classes
        return cross_entropy(logits, y, label_smoothing=self.amount)
