"""Defend by HAMP: labels of high entropy, and a reward for answers of high entropy."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import torch
from torch.nn.functional import kl_div, log_softmax

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.recipe import Recipe


@check_arguments
@dataclass(frozen=True, slots=True)
class HAMP(TrainingDefence):
    """Train towards uncertain labels, and reward uncertain answers: the first half of HAMP.

    A label becomes a distribution with ``entropy`` times the highest entropy: one probability for
    the class, the others equal. A step makes KL(label, answer) - weight · (entropy of the answer)
    smaller. The second half changes the answers of the trained model: `RankOrder`.

    Args:
        entropy: the entropy of a label over the highest one, gamma in the paper; the authors take
            0.5 to 0.95.
        weight: how much the entropy of answers counts, alpha in the paper.

    References:
        Chen and Pattabiraman (2024), Overconfidence is a dangerous thing: mitigating membership
        inference attacks by enforcing less confident prediction (NDSS), section IV, and their
        released code. Departures: the probability of the class is solved for, not searched in steps
        of 0.01; KL is summed over classes, where the code takes the mean, so its weight of 0.001 is
        0.001 times the number of classes here.

    Raises:
        SpecError: entropy is not from 0 to below 1, or weight is below 0.
    """

    entropy: float = 0.5
    weight: float = 0.01

    name: ClassVar[str] = "hamp"
    paper: ClassVar[str] = "Chen and Pattabiraman 2024"
    search: ClassVar[SearchSpace] = {
        "entropy": Range(0.2, 0.97),
        "weight": Range(0.001, 1.0, log=True),
    }

    def __post_init__(self) -> None:
        if not (0 <= self.entropy < 1 and self.weight >= 0):
            raise SpecError(
                "expected entropy from 0 to below 1 and weight from 0, got "
                f"entropy={self.entropy} and weight={self.weight}"
            )

    def defended_recipe(self) -> Recipe:
        """The same recipe with uncertain labels, and the reward."""
        return replace(self.recipe, loss=_HighEntropyLoss(self.entropy, self.weight))


@dataclass(frozen=True, slots=True)
class _HighEntropyLoss:
    entropy: float
    weight: float

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        del epoch
        classes = logits.shape[1]
        own = true_class_probability(self.entropy, classes)
        log_p = log_softmax(logits, dim=1)
        labels = torch.full_like(log_p, (1 - own) / (classes - 1)).scatter(1, y[:, None], own)
        # section IV: the entropy of the answers, which the loss rewards
        answered = -(log_p.exp() * log_p).sum(dim=1).mean()
        # departure: KL is summed over classes, where the released code takes their mean
        return kl_div(log_p, labels, reduction="batchmean") - self.weight * answered


@lru_cache
def true_class_probability(share: float, classes: int) -> float:
    """The probability of the true class with which a label has this share of the highest entropy.

    Args:
        share: from 0 (the label alone) to below 1 (all classes alike).
        classes: the number of classes; the others have equal probabilities.

    Examples:
        >>> true_class_probability(0.0, 10)
        1.0
        >>> round(true_class_probability(0.95, 10), 3)
        0.27
    """
    # bisection in place of the paper's search in steps of 0.01
    wanted = share * math.log(classes)
    low, high = 1 / classes, 1.0  # entropy falls from one end to the other
    while (middle := (low + high) / 2) not in (low, high):
        if _entropy(middle, classes) > wanted:
            low = middle
        else:
            high = middle
    return high


def _entropy(own: float, classes: int) -> float:
    rest = (1 - own) / (classes - 1)
    return -own * math.log(own) - (1 - own) * math.log(rest)
