"""Decaf's federations, on small synthetic images."""

from typing import Any

import numpy as np
import pytest
import torch

from divulge.core import Records
from divulge_papers.papers.decaf import layers, study
from divulge_papers.papers.decaf.networks import DecafNetwork, NetworkKind
from divulge_papers.papers.decaf.study import FederationSetting
from divulge_papers.papers.decaf.tables import (
    ACCURACY,
    ATTACKED,
    ATTACKS,
    COLUMNS,
    OPTIMISERS,
    OTHERS,
    PUBLISHED,
    RANDOM,
    SECONDS,
    THERE,
    UNATTACKED,
)

NETWORK = DecafNetwork((1, 14, 14), 10)
USERS = ((1.0, 1.0, 1.0), (4.0, 2.0, 0.0), (0.0, 0.0, 1.0))


@pytest.fixture(autouse=True)
def _synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 150)
    bright = np.zeros((3, 1, 10, 10), np.float32)
    bright[np.arange(3), 0, 3 * np.arange(3)] = 1
    x = (bright[y] + rng.normal(0, 0.3, (len(y), 1, 10, 10))).astype(np.float32)
    study.find_federation.cache_clear()
    monkeypatch.setattr(study, "_load_images", lambda *_: Records(x, y))


@pytest.mark.parametrize("how", ["adadelta 1", "sgd 0.1"])
def test_each_user_gets_its_distances(how: str) -> None:
    about: dict[str, Any] = {"users": USERS, "records": 60, **OPTIMISERS[how]}
    found, (entry,) = study.measure_distances(0, "small", attack=PUBLISHED, number=1, **about)
    assert set(found) == set(COLUMNS)
    assert {len(values) for values in found.values()} == {3}
    assert found["L1"][2] == found["L∞"][2] == 0  # a single class
    random = study.measure_distances(0, "small", attack=RANDOM, number=1, **about)
    assert np.mean(found["L1"]) < np.mean(random.values["L1"])
    assert np.mean(found["L1"]) == pytest.approx(entry.finding.metrics["l1"].value)
    assert entry.blind is not None
    assert entry.blind.reason == "3 clients are too few for this control"


def test_rounds_asked_for_in_any_order_are_those_of_one_federation() -> None:
    setting = FederationSetting(0, "small", USERS, records=60)
    late = study.LazyFederation(setting)
    late.round(2)
    for number in (0, 1):
        ahead = study.LazyFederation(setting).round(number)
        for name, array in ahead.sent.items():
            np.testing.assert_array_equal(late.round(number).sent[name], array)


def test_nobody_owns_an_image_twice() -> None:
    played = study.LazyFederation(FederationSetting(0, "small", USERS, records=60, auxiliary=2))
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


def test_after_relu_no_weight_of_a_class_that_is_not_there_grows() -> None:
    about: dict[str, Any] = {"users": USERS, "records": 60, "optimiser": "sgd", "rate": 0.1}
    found = layers.measure_signs(0, "small", **about).values
    assert len(found[OTHERS]) == 3
    assert max(found[OTHERS]) == 0 < min(found[THERE])
    leaky = layers.measure_signs(0, "small", leaky=True, **about).values
    assert max(leaky[OTHERS]) > 0
    blocks = layers.measure_signs(0, "small", layer="convolution", **about).values
    assert max(blocks[OTHERS]) > 0


def test_an_attack_leaves_the_accuracy_as_it_was_and_its_steps_have_a_cost() -> None:
    about: dict[str, Any] = {"users": USERS, "records": 60}
    found = layers.measure_accuracy(0, "small", attack=PUBLISHED, number=1, **about).values
    assert found[ATTACKED] == found[UNATTACKED]
    for task in ("aggregation", "training", "null", "bases", "descent", "nnls"):
        seconds = layers.measure_seconds(0, "small", task=task, **about).values[SECONDS]
        assert len(seconds) == 3


def test_fresh_mixes_are_the_same_in_every_seed_and_rounds_are_seen_together() -> None:
    drawn: dict[str, Any] = {"users": {"dirichlet": 0.5, "classes": 3, "users": 4}, "records": 60}
    one, other = (study.read_setting(seed, "small", drawn) for seed in (0, 1))
    assert one.users == other.users
    np.testing.assert_array_equal(one.counts.sum(axis=1).round(-1), [60] * 4)
    several: dict[str, Any] = {"attack": PUBLISHED | {"rounds": 2}, "number": 0, "rounds": 2}
    _, (entry,) = study.measure_distances(0, "small", **several, **drawn)
    assert entry.finding.metrics["l1"].value < 2


@pytest.mark.parametrize("kind", ["perceptron", "groupnorm", "batchnorm"])
@pytest.mark.parametrize("small", [False, True])
def test_networks_of_ours_end_in_a_dense_layer(kind: NetworkKind, *, small: bool) -> None:
    network = DecafNetwork((1, 14, 14), 7, kind, small=small)()
    assert network(torch.zeros(2, 1, 14, 14)).shape == (2, 7)
    *_, last = network.modules()
    assert isinstance(last, torch.nn.Linear)


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
