"""A network and what it was during its training."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from divulge.core import Records
from divulge.errors import TargetError

torch: Any = pytest.importorskip("torch")
training: Any = pytest.importorskip("divulge.training")
nn: Any = torch.nn

RNG = np.random.default_rng(0)
RECORDS = Records(RNG.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2)


def convolution() -> Any:
    layers = [nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 2))


def dense() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def same(one: Any, other: Any) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("network", [dense, convolution])
def test_it_is_the_network_of_a_fleet_and_checkpoints_are_those_of_shorter_trainings(
    network: Any,
) -> None:
    recipe = partial(training.Recipe, network, lr=0.1, momentum=0.5, batch_size=8)
    found = training.train(recipe(epochs=3), RECORDS, seed=4)
    everyone = np.ones((1, 40), bool)
    for epochs, module in ((1, found.checkpoints[1]), (2, found.checkpoints[2]), (3, found.model)):
        fleet = training.Fleet(recipe(epochs=epochs), way="one-by-one", workers=1)
        (expected,) = fleet.networks(RECORDS, everyone, [4])
        assert same(module, expected)
    assert len(found.checkpoints) == 3
    assert not same(found.checkpoints[0], found.checkpoints[1])
    assert not any(module.training for module in (found.model, *found.checkpoints))


def test_where_an_epoch_is_selected_all_states_are_kept() -> None:
    recipe = training.Recipe(dense, epochs=3, batch_size=8, select="loss", held_out=0.2)
    found = training.train(recipe, RECORDS)
    assert len(found.checkpoints) == 4
    assert any(same(found.model, checkpoint) for checkpoint in found.checkpoints)


def test_a_network_that_does_not_take_the_records_is_refused() -> None:
    with pytest.raises(TargetError, match="a network to train"):
        training.train(training.Recipe(partial(nn.Linear, 5, 2)), RECORDS)
