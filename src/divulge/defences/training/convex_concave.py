"""Defend by the convex-concave loss: weaken the pull on records that are learned already."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch.nn.functional import log_softmax

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.recipe import Recipe


@check_arguments
@dataclass(frozen=True, slots=True)
class ConvexConcaveLoss(TrainingDefence):
    """Mix the cross-entropy with a concave term, so that losses of training records stay spread.

    A step makes alpha · (cross-entropy) - (1 - alpha) · exp(p) smaller, with p the probability of
    the true class. The second term counts most where p is near 1, so a record that is learned
    already is pulled on, and losses of training records differ more from each other.

    Args:
        alpha: the share of the cross-entropy; 1 is no defence.

    References:
        Liu, Feng, Zhuang, Cao and Wei (2024), Mitigating privacy risk in membership inference by
        convex-concave loss (ICML), with its concave exponential term, and their released code.

    Raises:
        SpecError: alpha is not above 0 and at most 1.
    """

    alpha: float = 0.5

    name: ClassVar[str] = "convex-concave"
    paper: ClassVar[str] = "Liu et al. 2024"
    search: ClassVar[SearchSpace] = {"alpha": Range(0.02, 0.9, log=True)}

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise SpecError(f"expected alpha above 0, at most 1, got {self.alpha}")

    def defended_recipe(self) -> Recipe:
        """The same recipe with the mixed loss."""
        return replace(self.recipe, loss=_MixedLoss(self.alpha))


@dataclass(frozen=True, slots=True)
class _MixedLoss:
    alpha: float

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        del epoch
        own = log_softmax(logits, dim=1).gather(1, y[:, None])[:, 0]
        # the concave exponential term: both its derivatives by p are negative on [0, 1]
        return (-self.alpha * own - (1 - self.alpha) * own.exp().exp()).mean()
