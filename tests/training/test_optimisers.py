import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn, optim

from divulge.training.optimisers import without_compiler

ALONE = """
import sys

import torch

import divulge
from divulge.training import Recipe, train

records = divulge.Records(torch.rand(20, 4).numpy(), torch.arange(20).numpy() % 2)
for optimiser in ("sgd", "adam", "adamw", "adamax", "adadelta"):
    train(Recipe(lambda: torch.nn.Linear(4, 2), epochs=1, optimiser=optimiser), records)
print("torch._dynamo" in sys.modules)
"""


def trained(kind: type[optim.Optimizer], **settings: Any) -> torch.Tensor:
    """Weights after five steps."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.rand(20, 4), torch.arange(20) % 2
    optimiser = kind(module.parameters(), **settings)

    def closure() -> float:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    for _ in range(5):
        optimiser.step(closure)
    return nn.utils.parameters_to_vector(module.parameters())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "fused": True}),
        (optim.Adam, {"lr": 0.1, "fused": True}),
        (optim.AdamW, {"lr": 0.1, "fused": True}),
        (optim.Adamax, {"lr": 0.1, "foreach": True}),
        (optim.Adadelta, {"lr": 0.1}),
        (optim.LBFGS, {"lr": 0.1, "line_search_fn": "strong_wolfe"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_optimisers_are_the_same_bit_for_bit_without_the_compiler(
    kind: type[optim.Optimizer], settings: dict[str, Any]
) -> None:
    assert torch.equal(trained(without_compiler(kind), **settings), trained(kind, **settings))


def test_training_does_not_import_the_compiler() -> None:
    told = subprocess.run(
        [sys.executable, "-c", ALONE], check=True, capture_output=True, text=True
    ).stdout
    assert told.split() == ["False"]
