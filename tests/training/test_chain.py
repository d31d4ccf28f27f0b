"""Hand-written gradients against the tutorial's loop, whose gradients are PyTorch's."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.training.engine import dense, loop
from divulge.training.engine.dense import dense_layers
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolArrays

from .twin import (
    assert_close,
    batch_norm,
    brief,
    by_hand,
    conv2d,
    dropout,
    frozen,
    linear,
    pool_for,
    trained,
)


def deep() -> nn.Module:
    body = nn.Sequential(nn.Linear(9, 7), nn.Sigmoid(), nn.Linear(7, 5, bias=False), nn.ReLU())
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 9, bias=False), nn.Tanh(), body, last())


def last() -> nn.Module:
    return nn.Linear(5, 3)


def softmax_regression() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 3))


def without_activation() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.Linear(4, 3))


SETTINGS: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.05},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05, "schedule": "cosine"},
    {"optimiser": "adam", "lr": 0.01, "weight_decay": 0.05},
    {"optimiser": "adamw", "lr": 0.01, "weight_decay": 0.05, "schedule": "cosine"},
    {"optimiser": "adamax", "lr": 0.01, "weight_decay": 0.05},
    {"optimiser": "adadelta", "lr": 1.0, "weight_decay": 0.05},
]


def taken(network: Callable[[], nn.Module], pool: Records | None = None) -> bool:
    module = network()
    data = PoolArrays.prepare(pool or pool_for(network), module).tensors("cpu")
    return dense_layers(module, data) is not None


@pytest.mark.parametrize("network", [linear, deep, softmax_regression, without_activation])
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_gradients_are_those_of_autograd(
    network: Callable[[], nn.Module], settings: dict[str, Any]
) -> None:
    assert taken(network)
    recipe = Recipe(network, **{"epochs": 3, "batch_size": 8, **settings})
    assert_close(trained(Fleet(recipe, "one-by-one")), by_hand(recipe, pool_for(network)))


@pytest.mark.parametrize("wrong", ["forward", "backward"])
def test_a_wrong_gradient_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    activations = dict(dense._ACTIVATIONS)
    other = getattr(activations[nn.Tanh], wrong)
    activations[nn.ReLU] = activations[nn.ReLU]._replace(**{wrong: other})
    monkeypatch.setattr(dense, "_ACTIVATIONS", activations)
    recipe = brief(linear)
    with pytest.raises(AssertionError, match="not close"):
        assert_close(trained(Fleet(recipe, "one-by-one")), by_hand(recipe, pool_for(linear)))


def test_rows_need_no_flattening() -> None:
    pool = pool_for(linear)
    flat = Records(pool.x.reshape(60, -1), pool.y)
    recipe = brief(lambda: nn.Sequential(nn.Linear(128, 4), nn.ReLU(), nn.Linear(4, 3)))
    assert taken(recipe.network, flat)
    assert not taken(recipe.network, pool)
    assert_close(trained(Fleet(recipe, "one-by-one"), flat), by_hand(recipe, flat))


class Doubled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def doubled() -> nn.Module:
    return nn.Sequential(nn.Flatten(), Doubled(128, 3))


def hooked() -> nn.Module:
    module = linear()
    module.register_forward_hook(lambda _module, _x, answer: 2 * answer)
    return module


def tied() -> nn.Module:
    middle = nn.Linear(3, 3)
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 3), middle, nn.ReLU(), middle)


def gelu() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.GELU(), nn.Linear(4, 3))


@pytest.mark.parametrize(
    "network", [doubled, hooked, tied, gelu, frozen, conv2d, batch_norm, dropout, nn.Sequential]
)
def test_what_is_no_such_chain_is_left_to_autograd(network: Callable[[], nn.Module]) -> None:
    assert not taken(network, pool_for(linear))


@pytest.mark.parametrize("network", [doubled, hooked, tied, gelu])
def test_and_trained_all_the_same(network: Callable[[], nn.Module]) -> None:
    recipe = brief(network)
    assert_close(trained(Fleet(recipe, "one-by-one")), by_hand(recipe, pool_for(linear)))


def test_each_weight_ends_with_memory_of_its_own() -> None:
    [module] = Fleet(brief(linear), "one-by-one").networks(
        pool_for(linear), np.ones((1, 60), np.bool_), [1]
    )
    places = {p.untyped_storage().data_ptr() for p in module.parameters()}
    assert len(places) == 4
    assert all(p.requires_grad for p in module.parameters())


def test_subnormal_numbers_are_zero_for_as_long_as_training_lasts() -> None:
    half = torch.tensor(torch.finfo(torch.float32).tiny) / 2

    def kept() -> bool:
        return bool((half * 1).item())

    assert kept()
    with loop.flush_subnormals():
        with loop.flush_subnormals():
            assert not kept()
        assert not kept()
    assert kept()


def test_a_model_that_learned_all_by_heart_is_the_same_without_subnormal_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = Recipe(linear, optimiser="adam", lr=0.1, epochs=80, batch_size=8)
    ours = trained(Fleet(recipe, "one-by-one"))
    monkeypatch.setattr(loop, "flush_subnormals", nullcontext)
    assert_close(trained(Fleet(recipe, "one-by-one")), ours)
