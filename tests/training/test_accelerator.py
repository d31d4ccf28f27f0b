"""Training and white boxes on an accelerator that computes on the CPU: the same figures there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.defences import DPSGD, catalog
from divulge.defences.training.dp_sgd.clipping import Clipping
from divulge.errors import SpecError, TargetError
from divulge.federation import Federation, simulate
from divulge.targets.torch import TorchTarget
from divulge.training.fleet import Fleet, Strategy
from tests.accelerator import TwoDevices, accelerator
from tests.defences.trained_table import HALVES, OTHERS, POOL, RECIPE
from tests.slow import slow

from .twin import brief, conv2d, linear, pool_for

DP = DPSGD(RECIPE, delta=1e-5, noise_multiplier=0.5, jobs=1)

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


@pytest.mark.parametrize("way", ["one-by-one", "stacked"])
@pytest.mark.parametrize("network", [linear, slow(conv2d)])
def test_a_fleet_trains_the_same_models_there(
    network: Callable[[], nn.Module], way: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, pool = replace(brief(network), patience=2), pool_for(network)
    expected = _weights(Fleet(recipe, way, workers=1), pool)
    with accelerator(monkeypatch) as device:
        assert _weights(Fleet(recipe, way, workers=1, device=device), pool) == expected


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


@pytest.mark.parametrize("clipping", ["ghost", "per-record"])
def test_dp_sgd_trains_the_same_models_there(
    clipping: Clipping, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = replace(DP, clipping=clipping)
    expected = [target.predict(OTHERS.x) for target in trainer.many(POOL, HALVES, (1, 2))]
    with accelerator(monkeypatch) as device:
        there = replace(trainer, device=device).many(POOL, HALVES, (1, 2))
        found = [target.predict(OTHERS.x) for target in there]
    np.testing.assert_array_equal(found, expected)


def test_secure_noise_is_added_there(monkeypatch: pytest.MonkeyPatch) -> None:
    # all records in each batch, and less noise than single precision rounds
    recipe = replace(RECIPE, select=None, batch_size=len(POOL), epochs=2)
    trainer = replace(DP, recipe=recipe, noise="secure", noise_multiplier=1e-6)
    (expected,) = [target.predict(OTHERS.x) for target in trainer.many(POOL, HALVES[:1], (1,))]
    with accelerator(monkeypatch) as device:
        (there,) = replace(trainer, device=device).many(POOL, HALVES[:1], (1,))
        found = there.predict(OTHERS.x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_dp_sgd_refuses_what_is_no_device() -> None:
    with pytest.raises(SpecError, match="expected a device of PyTorch, got 'abacus'"):
        replace(DP, device="abacus")


def test_clients_of_a_federation_train_the_same_models_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe, clients = replace(RECIPE, select=None, epochs=1), np.split(np.arange(80), [30, 50])
    fleet = Fleet(recipe, "one-by-one", workers=1)
    federation = Federation(POOL, clients, recipe, trainer=fleet, workers=1)
    expected = simulate(federation, 2).rounds[-1].aggregated
    with accelerator(monkeypatch) as device:
        there = replace(federation, trainer=replace(fleet, device=device))
        found = simulate(there, 2).rounds[-1].aggregated
    assert expected is not None
    np.testing.assert_equal(found, dict(expected))
