"""The network of LDIA reads class shares off the last layer's change."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float64

if TYPE_CHECKING:
    import torch

BATCH, RATE, DECAY_AFTER = 64, 0.001, 51
"""Batch size and rate of Adam, and the epoch after which the rate is a tenth."""

WIDTHS = (512, 64)
"""Hidden units of the attack's network."""

DIGITS = 3
"""Decimals of a share that the network gives."""

_TINY = 1e-7

Shares = Float64[np.ndarray, "clients classes"]
Seen = Float[np.ndarray, "clients numbers"]


def train_network(inside: Seen, shares: Shares, epochs: int, seed: int) -> "torch.nn.Module":
    """The attack's network, trained on what shadow clients show and hold.

    Args:
        inside: features, one row a shadow client.
        shares: class shares of each.
        epochs: epochs of Adam.
        seed: seeds the first weights and the batches.
    """
    import torch

    from divulge.training.engine.loop import temporary_seed
    from divulge.training.optimisers import without_compiler

    x = torch.tensor(inside, dtype=torch.float32)
    y = torch.tensor(shares, dtype=torch.float32)
    with temporary_seed(seed, torch.device("cpu")):
        network = _fresh_network(x.shape[1], y.shape[1])
        adam = without_compiler(torch.optim.Adam)(network.parameters(), RATE)
        # the published code's schedule: a tenth of the rate from epoch 51 on
        slower = torch.optim.lr_scheduler.MultiStepLR(adam, [DECAY_AFTER], 0.1)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(x)), BATCH):
                if len(rows) == 1:
                    continue
                adam.zero_grad()
                loss(round_shares(network(x[rows]).softmax(1)), y[rows]).backward()  # type: ignore[no-untyped-call]
                adam.step()
            slower.step()
    return network


def _fresh_network(inputs: int, classes: int) -> "torch.nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for width in WIDTHS:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    network = nn.Sequential(*layers, nn.Linear(inputs, classes))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return network


def loss(predicted: "torch.Tensor", true: "torch.Tensor") -> "torch.Tensor":
    """Mean over clients of 2 KL(true | predicted), smooth L1 and 3 |var(true) - var(predicted)|."""
    from torch.nn import functional

    # a share that is rounded to 0 has no logarithm
    divergence = functional.kl_div((predicted + _TINY).log(), true, reduction="sum")
    apart = functional.smooth_l1_loss(predicted, true, reduction="sum")
    spread = (true.var(dim=1) - predicted.var(dim=1)).abs().sum()
    return (2 * divergence + apart + 3 * spread) / len(true)


def round_shares(shares: "torch.Tensor") -> "torch.Tensor":
    """Shares with `DIGITS` decimals, through which gradients pass as if they were not rounded."""
    # straight-through estimator: rounding has no gradient of its own
    return shares + (shares.round(decimals=DIGITS) - shares).detach()


def read_shares(network: "torch.nn.Module", changes: Seen) -> Shares:
    """The rounded shares that the network gives."""
    import torch

    with torch.no_grad():
        shares = network(torch.tensor(changes, dtype=torch.float32)).double().softmax(1)
    return np.asarray(shares.round(decimals=DIGITS).numpy(), dtype=np.float64)
