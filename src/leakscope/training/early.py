"""Stopping a model when it gets no better on records held out for it."""

import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakscope.training.network import state
from leakscope.training.pool import Tensors

_BATCH = 1024


class Best:
    """The best epoch of one model so far, by its loss on the records held out for it.

    Attributes:
        state: what training had made of the model by the end of that epoch.
    """

    def __init__(self, patience: int, data: Tensors, held_out: torch.Tensor) -> None:
        self._patience, self._data, self._rows = patience, data, held_out.to(data.x.device)
        self._loss, self._waited = math.inf, 0
        self.state: dict[str, torch.Tensor] = {}

    def hopeful(self, module: nn.Module) -> bool:
        """Take note of the module at the end of an epoch: is it worth another one?"""
        loss = self._held_out_loss(module)
        if loss < self._loss or not self.state:  # the first epoch counts, were its loss not finite
            self._loss, self._waited = loss if math.isfinite(loss) else math.inf, 0
            self.state = {name: tensor.clone() for name, tensor in state(module).items()}
        else:
            self._waited += 1
        return self._waited < self._patience

    def _held_out_loss(self, module: nn.Module) -> float:
        module.eval()
        total = 0.0
        with torch.no_grad():
            for rows in torch.split(self._rows, _BATCH):
                x, y = self._data.batch(rows)
                total += float(cross_entropy(module(x), y, reduction="sum"))
        return total / len(self._rows)
