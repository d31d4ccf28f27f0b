"""Decaf's federations, on small synthetic images."""

import numpy as np
import pytest
import torch

from divulge.core import Records
from divulge.reproduce.papers.decaf import study
from divulge.reproduce.papers.decaf.networks import DecafNetwork, NetworkKind
from divulge.reproduce.papers.decaf.study import ACCURACY, FederationSetting
from divulge.reproduce.papers.decaf.tables import ATTACKS, COLUMNS, PUBLISHED, RATES

NETWORK = DecafNetwork((1, 14, 14), 10)
USERS = ((1.0, 1.0, 1.0), (4.0, 2.0, 0.0), (0.0, 0.0, 1.0))


@pytest.fixture(autouse=True)
def _synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 150)
    bright = np.zeros((3, 1, 10, 10), np.float32)
    bright[np.arange(3), 0, 3 * np.arange(3)] = 1
    x = (bright[y] + rng.normal(0, 0.3, (len(y), 1, 10, 10))).astype(np.float32)
    study._lazy_federation.cache_clear()
    monkeypatch.setattr(study, "_load_images", lambda *_: Records(x, y))


@pytest.mark.parametrize("optimiser", list(RATES))
def test_each_user_gets_its_distances(optimiser: str) -> None:
    about = {"users": USERS, "records": 60, "optimiser": optimiser}
    found, (entry,) = study.measure_distances(0, "small", attack=PUBLISHED, number=1, **about)
    assert set(found) == set(COLUMNS)
    assert {len(values) for values in found.values()} == {3}
    assert found["L1"][2] == found["L∞"][2] == 0  # a single class
    random = study.measure_distances(0, "small", attack=ATTACKS["random guess"], number=1, **about)
    assert np.mean(found["L1"]) < np.mean(random.values["L1"])
    assert np.mean(found["L1"]) == pytest.approx(entry.finding.metrics["l1"].value)
    assert entry.blind is not None
    assert entry.blind.reason == "3 clients are too few for this control"


def test_rounds_asked_for_in_any_order_are_those_of_one_federation() -> None:
    setting = FederationSetting(0, "small", USERS, records=60)
    late = study._LazyFederation(setting)
    late.round(2)
    for number in (0, 1):
        ahead = study._LazyFederation(setting).round(number)
        for name, array in ahead.sent.items():
            np.testing.assert_array_equal(late.round(number).sent[name], array)


def test_nobody_owns_an_image_twice() -> None:
    played = study._LazyFederation(FederationSetting(0, "small", USERS, records=60, auxiliary=2))
    assert np.bincount(played.reference.y).tolist() == [2, 2, 2]
    assert not {x.tobytes() for x in played.reference.x} & {x.tobytes() for x in played.test.x}


def test_mixes_are_kept_and_small_runs_are_cut() -> None:
    assert FederationSetting(0, "small", USERS, records=60).counts.tolist() == [
        [20, 20, 20],
        [40, 20, 0],
        [0, 0, 60],
    ]
    assert FederationSetting(0, "small").counts.sum(axis=1).tolist() == [600] * 10
    assert FederationSetting(0, "paper").counts.sum(axis=1).tolist() == [1200] * 10


def test_a_defended_model_is_measured_beside_the_attack() -> None:
    about = {"users": USERS, "records": 30, "optimiser": "sgd", "dropout": 0.5}
    found, _ = study.measure_with_accuracy(0, "small", attack=ATTACKS["iLRG"], **about)
    assert set(found[ACCURACY]) <= {0.0, 1.0}
    assert len(found["L1"]) == 3
    private = study._private_trainer(study._recipe(FederationSetting(0, "small"), NETWORK), 4.0)
    assert private.noise_multiplier == 4.0
    assert private.recipe.network is NETWORK


@pytest.mark.parametrize("kind", ["plain", "resnet18", "vgg16"])
@pytest.mark.parametrize("shape", [(1, 14, 14), (3, 16, 16)])
def test_networks_tell_classes_apart_by_a_last_dense_layer(
    kind: NetworkKind, shape: tuple[int, ...]
) -> None:
    network = DecafNetwork(shape, 7, kind)()
    assert network(torch.zeros(2, *shape)).shape == (2, 7)
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert isinstance(layers[-1], torch.nn.Linear)
    # 17 and 3 for the ways past a block; 13 and 3; and the two of ours
    assert len(layers) == {"plain": 4, "resnet18": 17 + 3 + 1, "vgg16": 13 + 3}[kind]
    wider = DecafNetwork(shape, 7, width=33)()
    assert [m for m in wider.modules() if isinstance(m, torch.nn.Linear)][-1].in_features == 33
