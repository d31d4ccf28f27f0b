"""Define the challenge's network in PyTorch alone, so that tools without divulge can use it."""

import torch
from torch import nn


class _Channel(nn.Module):
    """Adds a channel axis for the first convolution."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, None]


def network(columns: int, *, private: bool) -> nn.Module:
    """Make a network of three convolutions, four dense layers, and a norm on the logits.

    Layer normalisation where training is private, batch normalisation where it is not.
    """
    length = (columns - 21) // 2  # after kernels of 10, 8 and 6, and pooling by 2
    inner = nn.LayerNorm([6, length]) if private else nn.BatchNorm1d(6)
    last = nn.LayerNorm(4) if private else nn.BatchNorm1d(4)
    return nn.Sequential(
        _Channel(), nn.Conv1d(1, 10, 10), nn.ReLU(), nn.Dropout(0.2),
        nn.Conv1d(10, 8, 8), nn.Dropout(0.1), nn.Conv1d(8, 6, 6), nn.MaxPool1d(2), inner,
        nn.Flatten(), nn.Linear(6 * length, 24), nn.Linear(24, 16), nn.Linear(16, 4), last,
    )  # fmt: skip
