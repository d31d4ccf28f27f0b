"""The network, its data and its training: nothing here knows of Flower or divulge."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


def network() -> nn.Module:
    """A small network for images of 8 x 8 pixels; its weights are the same at each call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load(partition: int, partitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The records of one client, of which one half are of a class or two that it has most of."""
    x, y = load_digits(return_X_y=True)
    spread = np.random.default_rng(0).random(len(y)) < 0.5
    owner = np.where(spread, np.arange(len(y)) % partitions, y * partitions // 10)
    mine = owner == partition
    return torch.tensor(x[mine] / 16, dtype=torch.float32), torch.tensor(y[mine])


def train(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, lr: float, epochs: int, batch_size: int
) -> float:
    """Plain SGD; returns the mean loss of the last epoch's batches."""
    optimiser = torch.optim.SGD(model.parameters(), lr)
    losses: list[float] = []
    for _ in range(epochs):
        losses = []
        for batch in torch.randperm(len(y)).split(batch_size):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            torch.autograd.backward(loss)
            optimiser.step()
            losses.append(loss.item())
    return float(np.mean(losses))


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The share of records whose class is found."""
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())
