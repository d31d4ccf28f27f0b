"""Training as one writes it in PyTorch: one model after another, batch by batch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.networks import dense, genome_cnn
from benchmarks.peers.drivers.desk import Desk


def network(settings: Mapping[str, Any]) -> nn.Module:
    """The network that the task is about."""
    if "columns" in settings:
        return genome_cnn(settings["columns"])
    return dense(*settings["widths"])


def load_network(settings: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> nn.Module:
    """A network with these weights, ready to be asked."""
    module = network(settings)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return module.eval()


def train_network(
    settings: Mapping[str, Any], x: np.ndarray, y: np.ndarray, seed: int
) -> nn.Module:
    """One model, by SGD with momentum on the cross-entropy."""
    torch.manual_seed(seed)
    module = network(settings)
    optimiser = torch.optim.SGD(
        module.parameters(), lr=settings["lr"], momentum=settings["momentum"]
    )
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(settings["epochs"]):
        for batch in torch.split(torch.randperm(len(y)), settings["batch"]):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(module(inputs[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimiser.step()
    return module.eval()


def shadows(desk: Desk, x: np.ndarray, y: np.ndarray) -> tuple[list[nn.Module], np.ndarray]:
    """The task's shadow models, or models trained on random halves, and who was in which.

    Returns:
        The models, and a mask of shape (models, records).
    """
    settings = desk.settings
    if desk.same_shadows:
        halves = desk.arrays("shadows")["member"]
        models = [load_network(settings, desk.arrays(f"shadow-{k}")) for k in range(len(halves))]
        return models, halves
    halves = random_halves(settings["shadows"], len(y))
    return [
        train_network(settings, x[half], y[half], k + 1) for k, half in enumerate(halves)
    ], halves


def random_halves(models: int, records: int) -> np.ndarray:
    """Who is in which shadow, each drawn by itself and of the same size: (models, records)."""
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(records) < records // 2 for _ in range(models)])


def log_probabilities(module: nn.Module, x: np.ndarray) -> np.ndarray:
    """Log probability of every class, in float64."""
    with torch.no_grad():
        log_p: np.ndarray = torch.log_softmax(module(torch.from_numpy(x)).double(), 1).numpy()
    return log_p


def scaled_logit(module: nn.Module, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The log odds of the true class (Carlini et al. 2022)."""
    log_p = log_probabilities(module, x)
    rows = np.arange(len(y))
    rest = log_p.copy()
    rest[rows, y] = -np.inf
    phi: np.ndarray = log_p[rows, y] - np.logaddexp.reduce(rest, axis=1)
    return phi
