"""Training and white boxes on an accelerator that computes on the CPU: the same figures there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.defences import catalog
from divulge.errors import TargetError
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet
from tests.accelerator import TwoDevices, accelerator
from tests.defences.trained_table import HALVES, OTHERS, POOL, RECIPE
from tests.slow import slow

from .twin import brief, conv2d, linear, pool_for

ONE_BY_ONE = [
    name for name in catalog.TRAINED_DEFENCES if name not in ("dp-sgd", "image-augmentation")
]
"""Defences that train without `torch.func`, on records that are no images."""

X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2, 0])


def _weights(fleet: Fleet, pool: Records) -> list[dict[str, list[float]]]:
    halves = np.random.default_rng(0).random((2, len(pool))) < 0.5
    return [
        {name: tensor.cpu().flatten().tolist() for name, tensor in one.state_dict().items()}
        for one in fleet.networks(pool, halves, [1, 2])
    ]


@pytest.mark.parametrize("network", [linear, slow(conv2d)])
def test_a_fleet_trains_the_same_models_there(
    network: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, pool = replace(brief(network), patience=2), pool_for(network)
    expected = _weights(Fleet(recipe, "one-by-one", workers=1), pool)
    with accelerator(monkeypatch) as device:
        there = Fleet(recipe, "one-by-one", workers=1, device=device)
        assert _weights(there, pool) == expected


def _module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def _seen(module: nn.Module) -> list[np.ndarray]:
    """All that attacks can learn from a module."""
    target = TorchTarget(module, "logits")
    gradients, last = target.parameter_gradient(X, Y), target.last_layer(X)
    along = np.ones(gradients.shape[1])
    return [
        target.predict(X), target.gradient(X, Y), gradients, last.features, last.weights,
        target.hessian_product(X, Y, along),
    ]  # fmt: skip


def test_attacks_see_the_same_of_a_module_there(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _seen(_module())
    with accelerator(monkeypatch) as device:
        found = _seen(_module().to(device))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_not_moved_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with accelerator(monkeypatch) as device:
        target = TorchTarget(_module().to(device), "logits", device="cpu")
        with pytest.raises(TargetError) as error:
            target.predict(X)
    assert isinstance(error.value.__cause__, TwoDevices)


@pytest.mark.parametrize(
    "name", [name if name == "label-smoothing" else slow(name) for name in ONE_BY_ONE]
)
def test_defences_train_the_same_models_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defence: Any = catalog.trained_defence(name, replace(RECIPE, epochs=2), way="one-by-one")
    expected = [target.predict(OTHERS.x) for target in defence.many(POOL, HALVES, (1, 2))]
    with accelerator(monkeypatch) as device:
        there = replace(defence, device=device).many(POOL, HALVES, (1, 2))
        found = [target.predict(OTHERS.x) for target in there]
    np.testing.assert_array_equal(found, expected)
