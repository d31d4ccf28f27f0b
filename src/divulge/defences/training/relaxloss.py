"""Defend by RelaxLoss: keep the training loss at a level, where members look like others."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch.nn.functional import cross_entropy, log_softmax

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.recipe import Recipe


@check_arguments
@dataclass(frozen=True, slots=True)
class RelaxLoss(TrainingDefence):
    """Keep the mean loss of a batch near a level instead of minimising it to zero.

    In even epochs, from 0, a step makes |mean loss - alpha| smaller: below the level the loss
    rises. In odd epochs the loss falls while it is above the level; below it, the loss of every
    record rises, and answers to records that are classified wrongly move to soft labels: the
    probability of the true class as it is, ``upper`` at most, and the rest spread evenly over the
    other classes.

    Args:
        alpha: the level of the mean cross-entropy, in nats; 0 is no defence.
        upper: the largest probability that a soft label gives the true class.

    References:
        Chen, Yu and Fritz (2022), RelaxLoss: defending membership inference attacks without losing
        utility, algorithm 1, in the form of their released code.

    Raises:
        SpecError: alpha is below 0, or upper is not above 0 and at most 1.
    """

    alpha: float = 0.5
    upper: float = 1.0

    name: ClassVar[str] = "relaxloss"
    paper: ClassVar[str] = "Chen, Yu and Fritz 2022"
    search: ClassVar[SearchSpace] = {"alpha": Range(0.05, 2.0, log=True)}

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and 0 < self.upper <= 1):
            raise SpecError(
                "expected alpha from 0 and upper above 0, at most 1, got "
                f"alpha={self.alpha} and upper={self.upper}"
            )

    def defended_recipe(self) -> Recipe:
        """The same recipe with the relaxed loss."""
        return replace(self.recipe, loss=_RelaxedCrossEntropy(self.alpha, self.upper))


@dataclass(frozen=True, slots=True)
class _RelaxedCrossEntropy:
    alpha: float
    upper: float

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        each = cross_entropy(logits, y, reduction="none")
        mean = each.mean()
        if epoch % 2 == 0:
            # algorithm 1, even epochs: descent above the level, ascent below it
            return (mean - self.alpha).abs()
        wrong = logits.argmax(dim=1) != y
        # where, not an if: a stack of models takes both
        flattened = torch.where(wrong, self._soft_label_loss(logits, y), 0.0) - each
        # algorithm 1, odd epochs: descent above the level, flattened posteriors below it
        return torch.where(mean > self.alpha, mean, flattened.mean())

    def _soft_label_loss(self, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The cross-entropy of each record with its soft label."""
        log_p = log_softmax(logits, dim=1)
        own = log_p.detach().exp().gather(1, y[:, None]).clamp(max=self.upper)
        # posterior flattening: what the true class leaves, spread evenly
        others = (1 - own) / (logits.shape[1] - 1)
        soft = others.expand(-1, logits.shape[1]).scatter(1, y[:, None], own)
        return -(soft * log_p).sum(dim=1)
