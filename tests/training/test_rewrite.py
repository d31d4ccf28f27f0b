from typing import Any

import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.training.engine.networks import pool_before_relu
from divulge.training.fleet import Fleet
from tests.slow import slow

from .twin import WAYS, assert_close, brief, by_hand, pool_for, trained


def pooling() -> nn.Module:
    first = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = [nn.Conv2d(4, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 1, padding=1)]
    return nn.Sequential(first, *second, nn.Flatten(), nn.Linear(16, 3))


def order(module: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in module.modules()]


@pytest.mark.parametrize("way", [slow(way) if way == "processes" else way for way in WAYS])
def test_pooling_first_trains_the_same_network(way: Any) -> None:
    recipe, pool = brief(pooling), pool_for(pooling)
    black = pool.x.copy()
    black[:, :, :5] = 0.0  # windows of equal values, as in the margins of images
    pool = Records(black, pool.y)
    assert_close(trained(Fleet(recipe, way, workers=2), pool), by_hand(recipe, pool))


def test_it_is_pooled_first_while_it_is_trained_and_never_after() -> None:
    module = pooling()
    before = order(module)
    names = list(module.state_dict())
    with pool_before_relu(module):
        within = order(module)
        assert list(module.state_dict()) == names
    assert before.index("ReLU") < before.index("MaxPool2d")
    assert within.index("MaxPool2d") < within.index("ReLU")
    assert within.count("ReLU") == within.count("MaxPool2d") == 2
    assert order(module) == before


@pytest.mark.parametrize("layer", [0, 1])
def test_what_somebody_looks_at_stays_where_it_is(layer: int) -> None:
    module = nn.Sequential(nn.ReLU(), nn.MaxPool1d(2))
    module[layer].register_forward_hook(lambda *_: None)
    with pool_before_relu(module):
        assert order(module) == ["Sequential", "ReLU", "MaxPool1d"]


def test_gradients_are_equal_to_the_bit_where_windows_tie() -> None:
    x = torch.tensor([[[-1.0, -1.0, 0.0, 0.0, 2.0, 2.0, 0.0, -3.0]]])
    gradients = []
    for layers in ([nn.ReLU(), nn.MaxPool1d(2)], [nn.MaxPool1d(2), nn.ReLU()]):
        leaf = x.clone().requires_grad_()
        torch.autograd.backward(nn.Sequential(*layers)(leaf).sum())
        gradients.append(leaf.grad)
    assert gradients[0] is not None
    assert torch.equal(gradients[0], torch.tensor([[[0.0, 0, 0, 0, 1, 0, 0, 0]]]))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
