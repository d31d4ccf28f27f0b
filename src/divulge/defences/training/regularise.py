"""Defend by regularisation: dropout before all layers but the first, and small logits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.conv import _ConvNd

from divulge._util.arguments import check_arguments
from divulge.core import Range, SearchSpace
from divulge.defences.training.base import TrainingDefence
from divulge.errors import SpecError
from divulge.training.recipe import Recipe


@check_arguments
@dataclass(frozen=True, slots=True)
class Regularise(TrainingDefence):
    """Dropout, and a penalty on large logits: the baseline Reg of DAP's paper.

    Dropout precedes every linear or convolutional layer except the first. The penalty is ``l2``
    times the mean over records of the sum of the squared logits.

    Args:
        dropout: the chance that a value is dropped; the paper tunes over 0.2, 0.33 and 0.5.
        l2: the weight of the penalty; the paper tunes over 0.1, 0.01 and 0.001.

    References:
        Lomurno et al. (2023), Discriminative adversarial privacy, section 4, model Reg ("l2
        regularisation to the model output"); after Lomurno and Matteucci (2022).

    Raises:
        SpecError: dropout is not from 0 to below 1, or l2 is below 0.
    """

    dropout: float = 0.33
    l2: float = 0.01

    name: ClassVar[str] = "regularise"
    paper: ClassVar[str] = "Lomurno and Matteucci 2022"
    search: ClassVar[SearchSpace] = {
        "dropout": Range(0.1, 0.7),
        "l2": Range(1e-4, 1.0, log=True),
    }

    def __post_init__(self) -> None:
        if not (0 <= self.dropout < 1 and self.l2 >= 0):
            raise SpecError(
                "expected dropout from 0 to below 1 and l2 from 0, got "
                f"dropout={self.dropout} and l2={self.l2}"
            )

    def defended_recipe(self) -> Recipe:
        """The same recipe with layers that drop out, and the penalty."""
        network = NetworkWithDropout(self.recipe.network, self.dropout)
        return replace(self.recipe, network=network, loss=_LogitPenaltyLoss(self.l2))


@dataclass(frozen=True)
class NetworkWithDropout:
    """A network that drops a part of what enters each layer with weights but the first.

    Each such layer becomes a pair in its place: dropout, and the layer. A ``forward`` that reaches
    for a layer's weights instead of calling it does not find them.
    """

    network: Callable[[], nn.Module]
    chance: float

    @property
    def __wrapped__(self) -> Callable[[], nn.Module]:
        """Where the code is that processes have to be sent."""
        return self.network

    def __call__(self) -> nn.Module:
        """The network with its dropout."""
        module = self.network()
        layers = {
            name: part
            for name, part in module.named_modules()
            if isinstance(part, nn.Linear | _ConvNd)
        }
        # section 4: each intermediate layer, so not before the first
        for name in list(layers)[1:]:
            module.set_submodule(name, nn.Sequential(nn.Dropout(self.chance), layers[name]))
        return module


@dataclass(frozen=True, slots=True)
class _LogitPenaltyLoss:
    l2: float

    def __call__(self, logits: torch.Tensor, y: torch.Tensor, epoch: int) -> torch.Tensor:
        del epoch
        return cross_entropy(logits, y) + self.l2 * logits.square().sum(dim=1).mean()
