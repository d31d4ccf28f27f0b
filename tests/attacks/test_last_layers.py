"""Virtual clients that train the last layers alone, on what the layers before give."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from divulge.attacks import Decaf
from divulge.attacks.composition.decaf.last_layers import find_last_layers, keep_last_layers
from divulge.attacks.shared.observed_round import ObservedRound
from divulge.core import LocalTraining, ReceivedUpdate, Records, Round, UpdateView
from divulge.errors import NotApplicable
from divulge.training.recipe import Recipe

from . import federations
from .federations import COUNTS

IMAGES = (2, 8, 8)


def chain() -> nn.Sequential:
    first = [nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*first, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(32, 6), nn.Linear(6, 3))


def named() -> nn.Sequential:
    body = nn.Sequential(nn.Flatten(), nn.Linear(128, 40), nn.ReLU())
    return nn.Sequential(OrderedDict(body=body, output=nn.Linear(40, 3)))


class Other(nn.Module):
    """No chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = named()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.layers(x)
        return answers


def tied() -> nn.Sequential:
    one, other = nn.Linear(128, 128), nn.Linear(128, 128)
    other.weight = one.weight
    return nn.Sequential(nn.Flatten(), one, other, nn.Linear(128, 3))


def records(many: int) -> Records:
    rng = np.random.default_rng(0)
    return Records(rng.normal(size=(many, *IMAGES)).astype(np.float32), np.arange(many) % 3)


def state(network: nn.Module) -> dict[str, np.ndarray]:
    return {name: t.numpy() for name, t in network.state_dict().items()}


def stage(make: Callable[[], nn.Module]) -> ObservedRound:
    torch.manual_seed(0)
    sent = state(make())
    got = {name: array + array.dtype.type(1) for name, array in sent.items()}
    received = {"ann": ReceivedUpdate(got, 20)}
    played = Round(0, "weights", sent, received, training=LocalTraining("sgd", 0.1))
    return ObservedRound(played, Recipe(make, batch_size=100), records(15))


@pytest.mark.parametrize(("make", "before"), [(chain, 1), (named, 1)])
def test_the_last_layers_have_a_quarter_of_the_operations_at_most(
    make: Callable[[], nn.Module], before: int
) -> None:
    """Nearly all operations are those of the first convolution or product."""
    found = find_last_layers(stage(make))
    assert found is not None
    assert found.before == before
    assert 0 < found.share < 0.05


@pytest.mark.parametrize("make", [Other, tied, lambda: nn.Sequential(nn.Linear(128, 3))])
def test_other_networks_are_not_cut(make: Callable[[], nn.Module]) -> None:
    flat = stage(make)
    x = flat.reference.x.reshape(15, -1)
    assert find_last_layers(replace(flat, reference=Records(x, flat.reference.y))) is None


def test_the_last_layers_see_what_the_layers_before_give_in_training() -> None:
    """Normalised over a batch, and nothing is dropped."""
    whole, pool = stage(chain), records(40)
    cut, seen = keep_last_layers(whole, pool, 4)
    names = ["6.weight", "6.bias", "7.weight", "7.bias"]
    assert list(cut.round.sent) == list(cut.round.received["ann"].tensors) == names
    assert list(cut.recipe.network().state_dict()) == names
    network = chain()
    network.load_state_dict({n: torch.tensor(a) for n, a in whole.round.sent.items()})
    with torch.no_grad():
        given = network[:3].train()(torch.tensor(pool.x)).numpy()
    # one batch holds all records; its sums are in another order
    np.testing.assert_allclose(seen.x, given, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(cut.reference.x, seen.x[:15])
    np.testing.assert_array_equal(cut.reference.y, pool.y[:15])


def test_networks_are_queried_about_a_few_records_of_each_class() -> None:
    """The first ones, in their order; virtual clients are made of all."""
    whole = replace(stage(chain), reference=records(75))
    cut, seen = keep_last_layers(whole, records(90), 4)
    np.testing.assert_array_equal(cut.reference.x, seen.x[:60])
    np.testing.assert_array_equal(np.bincount(cut.reference.y), [20, 20, 20])
    assert len(seen) == 90


def test_clients_are_attacked_by_their_last_layers() -> None:
    views = federations.views(federations.played())
    truth = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    attack = Decaf(level="refined", layers="last", clients=48, rounds=1)
    found = attack.many(views, np.random.default_rng(0))
    off = np.abs(np.array([one.share for one in found]) - truth).sum(axis=1)
    assert off.mean() < 0.3  # equal shares are far off
    assert np.abs(truth - 1 / truth.shape[1]).sum(axis=1).mean() > 0.6
    assert all("their last layers alone were trained" in one.how for one in found)


def test_the_budget_chooses_the_layers_too() -> None:
    views = federations.views(federations.played())[:1]
    for budget, said in ((300.0, False), (1e-9, True)):
        attack = Decaf(level="virtual", clients=24, rounds=1, budget=budget)
        (found,) = attack.many(views, np.random.default_rng(0))
        assert ("last layers" in found.how) == said


class Wrapped(nn.Module):
    """The network of the federations, which is no chain any more."""

    def __init__(self) -> None:
        super().__init__()
        for name, layer in federations.relu().named_children():
            self.add_module(name, layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = layer(x)
        return x


def test_a_network_that_cannot_be_cut_is_refused_or_trained_whole() -> None:
    views = [
        UpdateView(one.victim, one.rounds, Wrapped, one.reference)
        for one in federations.views(federations.played())[:1]
    ]
    with pytest.raises(NotApplicable, match=r"nn.Sequential, whose last layers"):
        Decaf(level="virtual", layers="last").many(views, np.random.default_rng(0))
    (found,) = Decaf(level="virtual", clients=24, rounds=1, budget=1e-9).many(
        views, np.random.default_rng(0)
    )
    assert "last layers" not in found.how
