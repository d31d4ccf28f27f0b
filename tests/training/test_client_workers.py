"""Clients are trained from given starts as a fleet is, wherever it is done; nothing stays."""

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.defences.training.adversarial import AdversarialRegularisation
from divulge.defences.training.relaxloss import RelaxLoss
from divulge.errors import SpecError, TargetError
from divulge.training.engine import client_training
from divulge.training.engine.client_training import ClientWorkers
from divulge.training.fleet import Fleet
from divulge.training.recipe import Optimiser, RaggedRows, Recipe

State = dict[str, np.ndarray]


def pool() -> Records:
    rng = np.random.default_rng(0)
    return Records(rng.normal(size=(120, 2, 8, 8)).astype(np.float32), rng.integers(0, 3, 120))


def network() -> nn.Sequential:
    features = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*features, nn.Dropout(0.2), nn.Linear(144, 3))


def broken() -> nn.Module:
    raise ValueError("no layers left")


def frozen() -> nn.Module:
    module = network()
    module[0].requires_grad_(False)
    return module


RECIPE = Recipe(network, lr=0.05, momentum=0.5, weight_decay=0.01, epochs=2, batch_size=16)
ROWS: list[RaggedRows] = [np.arange(0, 50), np.arange(50, 57), np.arange(57, 120)]
SEEDS = [3, 4, 5]


def start(recipe: Recipe = RECIPE) -> State:
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        return {name: t.numpy() for name, t in recipe.network().state_dict().items()}


def trained(recipe: Recipe = RECIPE, workers: int | None = 1) -> list[State]:
    return ClientWorkers(recipe, pool(), workers).states(start(recipe), ROWS, SEEDS)


def identical(ours: list[State], theirs: list[State]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert list(one) == list(other)
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


def fleet(recipe: Recipe) -> list[State]:
    subsets = np.stack([np.isin(np.arange(120), rows) for rows in ROWS])
    tensors = {name: torch.tensor(array) for name, array in start(recipe).items()}
    modules = Fleet(recipe, "one-by-one", workers=1).networks(pool(), subsets, SEEDS, tensors)
    return [{n: t.numpy() for n, t in m.state_dict().items()} for m in modules]


def undropped() -> nn.Module:
    """No dropout, and no bias before the batch normalisation, which takes it away again.

    The gradient of such a bias is zero but for rounding. Adaptive optimisers divide it by its own
    size: a step of full length, in the direction of the rounding of this processor's kernels.
    """
    module = network()
    module[0] = nn.Conv2d(2, 4, 3, bias=False)
    module[4] = nn.Identity()
    return module


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.ReLU(), nn.Linear(8, 3))


def pooled() -> nn.Sequential:
    features = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(36, 3))


@pytest.mark.parametrize("network", [undropped, dense, pooled])
@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw", "adamax", "adadelta"])
def test_clients_are_trained_as_a_fleet(
    optimiser: Optimiser, network: Callable[[], nn.Module]
) -> None:
    momentum = 0.5 if optimiser == "sgd" else 0.0
    recipe = replace(RECIPE, network=network, optimiser=optimiser, momentum=momentum, lr=0.01)
    for one, other in zip(trained(recipe), fleet(recipe), strict=True):
        for name, array in other.items():
            # the same steps, with one vector in the place of some tensors: float32 rounding
            np.testing.assert_allclose(one[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("network", [dense, pooled])
def test_clients_learn_by_another_loss_too(network: Callable[[], nn.Module]) -> None:
    plain = replace(RECIPE, network=network, lr=0.01)
    relaxed = RelaxLoss(plain, alpha=3.0).defended_recipe()  # above what is lost at first
    for one, other, third in zip(trained(relaxed), fleet(relaxed), fleet(plain), strict=True):
        for name, array in other.items():
            np.testing.assert_allclose(one[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
        assert any(not np.allclose(one[name], array, atol=1e-4) for name, array in third.items())


def test_what_is_frozen_stays() -> None:
    recipe = replace(RECIPE, network=frozen)
    for state in trained(recipe):
        np.testing.assert_array_equal(state["0.weight"], start(recipe)["0.weight"])
        assert not np.array_equal(state["5.weight"], start(recipe)["5.weight"])


@pytest.mark.parametrize("network", [network, dense])
def test_nothing_is_left_of_the_training_before(network: Callable[[], nn.Module]) -> None:
    recipe = replace(RECIPE, network=network)
    begun, client_workers = start(recipe), ClientWorkers(recipe, pool(), 1)
    first = client_workers.states(begun, ROWS, SEEDS)
    client_workers.states({n: a + 1 for n, a in begun.items()}, ROWS, [7, 8, 9])
    identical(client_workers.states(begun, ROWS, SEEDS), first)
    reverse = client_workers.states(begun, ROWS[::-1], SEEDS[::-1])
    identical(reverse[::-1], first)


def test_what_the_start_lacks_is_fresh() -> None:
    weights = {n: a for n, a in start().items() if a.dtype.kind == "f"}
    identical(ClientWorkers(RECIPE, pool(), 1).states(weights, ROWS, SEEDS), trained())


def test_the_start_is_left_alone() -> None:
    begun = start()
    ClientWorkers(RECIPE, pool(), 1).states(begun, ROWS, SEEDS)
    identical([begun], [start()])


@pytest.mark.slow
def test_other_processes_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_training, "_SECONDS_BEFORE_PROCESSES", -1.0)
    two = ClientWorkers(RECIPE, pool(), 2)
    identical(two.states(start(), ROWS, SEEDS), trained())
    other = replace(RECIPE, lr=0.01)  # other workers, in the same processes
    identical(ClientWorkers(other, pool(), 2).states(start(), ROWS, SEEDS), trained(other))
    identical(two.states(start(), ROWS, SEEDS), trained())


@pytest.mark.parametrize("network", [dense, pooled])
def test_more_threads_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, network: Callable[[], nn.Module]
) -> None:
    pytest.importorskip("divulge_fast.kernels")
    monkeypatch.setattr(client_training, "_SECONDS_BEFORE_PROCESSES", -1.0)  # not for these
    recipe = replace(RECIPE, network=network)
    three = ClientWorkers(recipe, pool(), 3)
    identical(three.states(start(recipe), ROWS * 5, SEEDS * 5), trained(recipe) * 5)
    threads = three.each(start(recipe), ROWS, SEEDS, lambda k, _: (k, threading.get_ident()))
    assert threads == [(k, threading.get_ident()) for k in range(3)], "used here, in order"


def test_classes_that_the_network_lacks_are_refused() -> None:
    few = Records(pool().x, pool().y * 2)  # class 4 of three
    for network in (dense, pooled):
        recipe = replace(RECIPE, network=network)
        with pytest.raises(TargetError, match="expected a network to train, got IndexError"):
            ClientWorkers(recipe, few, 1).states(start(recipe), ROWS, SEEDS)


@pytest.mark.slow
def test_a_failure_elsewhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_training, "_SECONDS_BEFORE_PROCESSES", -1.0)
    few = Records(pool().x, pool().y * 2)  # class 4 of three
    with pytest.raises(TargetError, match="expected a network to train, got IndexError"):
        ClientWorkers(RECIPE, few, 2).states(start(), ROWS, SEEDS)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(SpecError, match="workers from 1"):
        ClientWorkers(RECIPE, pool(), 0)
    with pytest.raises(SpecError, match="without patience"):
        ClientWorkers(replace(RECIPE, patience=2), pool())
    with pytest.raises(SpecError, match="without patience and select"):
        ClientWorkers(replace(RECIPE, select="aop"), pool())
    playing = AdversarialRegularisation(replace(RECIPE, select="aop")).defended_recipe()
    with pytest.raises(SpecError, match="without an adversary for clients"):
        ClientWorkers(replace(playing, select=None), pool())
    with pytest.raises(TargetError, match="make a network"):
        ClientWorkers(Recipe(broken), pool())
