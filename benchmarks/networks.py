"""The networks that benchmarks train, in PyTorch alone: peers make them in their environments."""

import runpy
from pathlib import Path

from torch import nn


def dense(*widths: int) -> nn.Module:
    """A dense network on flat features: their number, that of hidden units, that of classes."""
    columns, hidden, classes = widths
    return nn.Sequential(
        nn.Flatten(), nn.Linear(columns, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


def genome_cnn(columns: int) -> nn.Module:
    """The challenge's network, as it is trained without privacy.

    Read from divulge's file, since peers' environments have no divulge to import it from.
    """
    path = Path(__file__).parents[1] / "papers/src/divulge_papers/papers/nist/network.py"
    made: nn.Module = runpy.run_path(str(path))["network"](columns, private=False)
    return made
