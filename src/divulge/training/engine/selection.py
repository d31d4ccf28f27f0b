"""Select a model's best epoch by records held out for it, and stop when it gets no better."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.metrics import membership, utility
from divulge.training.recipe import HeldOutRows, Recipe, Rows, Select, TrainingRows
from divulge.training.tensors import PoolTensors
from divulge.training.weights import state

_BATCH_SIZE = 1024


class BestEpoch:
    """The best epoch of one model so far, by records held out for it.

    Attributes:
        state: parameters and buffers of the model at the end of that epoch, by name.
    """

    def __init__(
        self, recipe: Recipe, data: PoolTensors, fit: TrainingRows, held_out: HeldOutRows
    ) -> None:
        assert recipe.selects is not None
        self._select, self._patience = recipe.selects, recipe.patience or math.inf
        self._data, self._fit, self._held_out = data, fit, held_out
        self._merit, self._waited = -math.inf, 0
        self.state: dict[str, torch.Tensor] = {}

    def should_continue(self, module: nn.Module) -> bool:
        """Take note of the module at the end of an epoch: is it worth another one?"""
        value = merit(self._select, module, self._data, self._fit, self._held_out)
        if value > self._merit or not self.state:  # the first counts, were its merit not finite
            self._merit, self._waited = value if math.isfinite(value) else -math.inf, 0
            self.state = {name: tensor.clone() for name, tensor in state(module).items()}
        else:
            self._waited += 1
        return self._waited < self._patience


def merit(
    select: Select, module: nn.Module, data: PoolTensors, fit: TrainingRows, held_out: HeldOutRows
) -> float:
    """How good a model is, higher is better; not finite where its answers are not.

    ``loss`` and ``accuracy`` look at the records held out. ``aop`` looks at as many as these of
    those that it was trained on as well: AOP(2) of the accuracy and of the AUC of a threshold on
    the loss between the two. The model is left in evaluation mode.

    References:
        Lomurno et al. (2023), Discriminative adversarial privacy, eq. 4; their released code
        stops and selects by it, at λ = 10.
    """
    module.eval()
    outside, right = _losses_and_accuracy(module, data, held_out)
    if select == "loss":
        return -float(outside.mean())
    if select == "accuracy":
        return right
    # spread over all: a pool may be in the order of its classes
    some = fit[np.linspace(0, len(fit) - 1, min(len(fit), len(held_out))).astype(np.int64)]
    inside, _ = _losses_and_accuracy(module, data, some)
    score = -np.concatenate([inside, outside])
    if not np.isfinite(score).all():
        return math.nan
    area = membership.auc(score, np.arange(len(score)) < len(inside)).value
    # DAP, eq. 4, with the AUC by which the loss tells trained records from held-out ones
    return utility.aop(right, area)


def _losses_and_accuracy(
    module: nn.Module, data: PoolTensors, rows: Rows
) -> tuple[np.ndarray, float]:
    """The cross-entropy of each record, and the share that is classified rightly."""
    losses, hits = [], 0
    with torch.no_grad():
        for some in torch.split(torch.from_numpy(rows).to(data.x.device), _BATCH_SIZE):
            x, y = data.batch(some)
            logits = module(x)
            losses.append(cross_entropy(logits, y, reduction="none").double().cpu().numpy())
            hits += int((logits.argmax(dim=1) == y).sum())
    return np.concatenate(losses), hits / len(rows)
