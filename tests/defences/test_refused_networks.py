"""What keeps or mixes records is refused before DP-SGD trains it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from divulge.core import Records
from divulge.defences.training.dp_sgd.trainer import DPSGD
from divulge.errors import SpecError
from divulge.training.recipe import Recipe

from .networks import CLASSES, WIDTH


class Averaging(nn.Linear):
    """Keeps a running mean of what it gets."""

    def __init__(self, *, saved: bool) -> None:
        super().__init__(WIDTH, CLASSES)
        self.mean: Any = torch.zeros(WIDTH)
        if saved:
            del self.mean
            self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


class Imitating(nn.Linear):
    """Keeps the last record that it got alone."""

    kept: Any = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            self.kept = x.detach()
        return super().forward(x + self.kept)


class Renormed(nn.Module):
    """An embedding that shortens the rows of the words it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2, WIDTH, max_norm=0.1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.last(self.table((x[:, 0] > 0).long()))
        return answers


class Detached(nn.Linear):
    """Sees the mean of its batch, without a gradient by it."""

    def __init__(self) -> None:
        super().__init__(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + x.detach().sort(0).values)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: Averaging(saved=True), "changes 'mean'"),
        (lambda: Averaging(saved=False), "changes what it answers later"),
        (lambda: Imitating(WIDTH, CLASSES), "changes what it answers later"),
        (Renormed, "changes 'table.weight'"),
        (
            lambda: nn.Sequential(
                nn.Unflatten(1, (2, 3)),
                nn.InstanceNorm1d(2, track_running_stats=True),
                nn.Flatten(),
                nn.Linear(WIDTH, CLASSES),
            ),
            "changes '1.running_mean'",
        ),
        (lambda: spectral_norm(nn.Linear(WIDTH, CLASSES)), "changes 'parametrizations.*_u'"),
        (Detached, "depends on the others of its batch"),
        (lambda: nn.Linear(WIDTH, CLASSES).half(), r"'weight' \(torch.float16\)"),
    ],
)
def test_what_keeps_or_mixes_records_is_refused(network: Any, message: str) -> None:
    how = DPSGD(Recipe(network, epochs=1), 1e-5, 1.0, jobs=1)
    pool = Records(np.random.default_rng(0).normal(size=(8, WIDTH)), np.arange(8) % CLASSES)
    with pytest.raises(SpecError, match=message):
        how.check(pool)
