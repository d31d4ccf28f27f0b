"""Train by adversarial regularisation: an attacker learns beside the model, which deceives it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    logsigmoid,
    one_hot,
)

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.losses import BatchLoss
from divulge.training.optimisers import without_compiler
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors

_HIDDEN_UNITS = 64


@check_arguments
@dataclass(frozen=True, slots=True)
class AdversarialRegularisation(TrainingDefence):
    """Train against an attacker that learns to distinguish the batch from held-out records.

    In each step the attacker h first learns, by the model's probabilities and the label; then the
    model minimises cross-entropy + weight · (mean over the batch of log h). The held-out records of
    the recipe are its reference set.

    Args:
        weight: λ, how much the attacker's success counts.
        attacker_lr: the attacker's learning rate, for Adam.

    References:
        Nasr, Shokri and Houmansadr (2018), Machine learning with membership privacy using
        adversarial regularization, eqs. 9 and 10, algorithm 1 with k = 1. Departure: the attacker
        has two hidden layers of 64, where theirs has two branches of up to 1,024 units.

    Raises:
        SpecError: a number makes no sense, or the recipe holds no records out.
    """

    weight: float = 1.0
    attacker_lr: float = 1e-3

    name: ClassVar[str] = "adversarial-regularisation"
    paper: ClassVar[str] = "Nasr, Shokri and Houmansadr 2018"
    search: ClassVar[SearchSpace] = {
        "weight": Range(0.1, 30.0, log=True),
        "select": ("aop", "accuracy"),
    }

    def __post_init__(self) -> None:
        self.check_held_out()
        if self.weight < 0 or self.attacker_lr <= 0:
            raise SpecError(
                "expected weight from 0 and attacker_lr above 0, got "
                f"weight={self.weight} and attacker_lr={self.attacker_lr}"
            )

    def defended_recipe(self) -> Recipe:
        """The same recipe with an attacker beside it."""
        return replace(self.recipe, loss=_MembershipAdversary(self.weight, self.attacker_lr))


@dataclass(frozen=True, slots=True)
class _MembershipAdversary:
    weight: float
    attacker_lr: float

    def against(
        self, module: nn.Module, data: PoolTensors, held_out: torch.Tensor
    ) -> Callable[[int], BatchLoss]:
        """A loss with an attacker of this model's own, which learns in every step."""
        classes = _count_classes(module, data, held_out)
        attacker = nn.Sequential(
            *(nn.Linear(2 * classes, _HIDDEN_UNITS), nn.ReLU()),
            *(nn.Linear(_HIDDEN_UNITS, _HIDDEN_UNITS), nn.ReLU()),
            nn.Linear(_HIDDEN_UNITS, 1),
        ).to(data.x.device)
        optimiser = without_compiler(torch.optim.Adam)(attacker.parameters(), self.attacker_lr)

        def attacker_logits(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            label = one_hot(y, classes).to(logits.dtype)
            logits_of_membership: torch.Tensor = attacker(
                torch.cat([logits.softmax(dim=1), label], dim=1).float()
            )
            return logits_of_membership

        def loss(rows: torch.Tensor) -> torch.Tensor:
            x, y = data.batch(rows)
            logits = module(x)
            drawn = torch.randint(len(held_out), (len(x),), device=held_out.device)
            with torch.no_grad():
                others, labels = data.batch(held_out[drawn])
                answers = module(others)
            # algorithm 1: the attacker's step first (eq. 9), on as many held-out records
            inside, outside = attacker_logits(logits.detach(), y), attacker_logits(answers, labels)
            optimiser.zero_grad()
            torch.autograd.backward(
                binary_cross_entropy_with_logits(inside, torch.ones_like(inside))
                + binary_cross_entropy_with_logits(outside, torch.zeros_like(outside))
            )
            optimiser.step()
            # eq. 10's regulariser: the log of the attacker's belief in members
            gain = logsigmoid(attacker_logits(logits, y)).mean()
            return cross_entropy(logits, y) + self.weight * gain

        return lambda epoch: loss  # noqa: ARG005 (the same in all epochs)


def _count_classes(module: nn.Module, data: PoolTensors, held_out: torch.Tensor) -> int:
    """How many classes the model answers with."""
    mode = module.training
    with torch.no_grad():
        answers = module.eval()(data.batch(held_out[:1])[0])
    module.train(mode)
    return int(answers.shape[1])
