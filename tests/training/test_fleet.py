import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import divulge
from divulge.core import Records, Trainer
from divulge.errors import DataError, SpecError, TargetError
from divulge.targets.torch import TorchTarget
from divulge.testing import forests
from divulge.training.engine import choose
from divulge.training.fleet import Fleet, Strategy
from divulge.training.recipe import Optimiser, Recipe, Schedule
from divulge.training.trainers import as_trainer, trainer_identity
from tests.golden import golden
from tests.slow import slow

from .twin import (
    WAYS,
    Viewing,
    assert_close,
    batch_norm,
    brief,
    broken,
    by_hand,
    conv1d,
    conv2d,
    dropout,
    embedding,
    frozen,
    group_norm,
    layer_norm,
    linear,
    pool_for,
    subsets,
    trained,
)

STACKABLE = (linear, conv1d, conv2d, batch_norm, layer_norm, group_norm, embedding, frozen, Viewing)
QUICK = (linear, conv2d, embedding, frozen, Viewing)
CASES = [
    (network, way) if network in QUICK else slow(network, way)
    for network in STACKABLE
    for way in WAYS
]
CASES += [(dropout, "one-by-one"), (dropout, "processes")]


@pytest.mark.parametrize(("network", "way"), CASES)
def test_every_way_trains_what_the_tutorial_trains(
    network: Callable[[], nn.Module], way: Strategy
) -> None:
    recipe = brief(network)
    expected = by_hand(recipe, pool_for(network))
    assert_close(trained(Fleet(recipe, way, workers=2)), expected)


@pytest.mark.parametrize("way", ["one-by-one", "stacked"])
@pytest.mark.parametrize(
    ("optimiser", "schedule"),
    [
        ("sgd", "cosine"),
        ("adam", "constant"),
        ("adamw", "cosine"),
        ("adamax", "constant"),
        ("adadelta", "cosine"),
    ],
)
def test_optimisers_and_schedules_are_those_of_pytorch(
    optimiser: Optimiser, schedule: Schedule, way: Strategy
) -> None:
    recipe = Recipe(
        linear, optimiser, lr=0.01, weight_decay=1e-2, epochs=2, batch_size=8, schedule=schedule
    )
    assert_close(trained(Fleet(recipe, way)), by_hand(recipe, pool_for(linear)))


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_is_the_whole_of_a_models_randomness(way: Strategy) -> None:
    fleet = Fleet(brief(linear if way == "stacked" else dropout), way, workers=2)
    pool = pool_for(linear)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again = trained(fleet), trained(fleet)
    for a, b in zip(first, again, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert torch.equal(torch.get_rng_state(), before)
    same_half = np.repeat(subsets()[:1], 3, axis=0)
    one, other, alike = [model.predict(pool.x) for model in fleet.many(pool, same_half, [1, 2, 1])]
    assert not np.allclose(one, other)
    np.testing.assert_allclose(one, alike, atol=1e-6)


def test_the_choice_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pool_for(linear)
    assert Fleet(brief(linear)).chosen.startswith("auto: ")
    assert Fleet(brief(linear), "stacked", workers=2).chosen == "stacked (2): as asked for"
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", float("inf"))  # however busy the machine is
    settled = Fleet(brief(linear)).settled(pool, subsets())
    assert settled.chosen.startswith("one-by-one (1): ")
    assert settled.chosen.endswith("s of work are too little to share")
    assert Fleet(brief(linear)).settled(pool, subsets()[:0]) == Fleet(brief(linear))


def test_automatic_is_one_of_the_ways() -> None:
    recipe = brief(linear)
    assert_close(trained(Fleet(recipe, workers=1)), trained(Fleet(recipe, "one-by-one")))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.1),
        nn.GRU(2, 2),
        nn.MultiheadAttention(2, 1, dropout=0.1),
        nn.BatchNorm1d(2, momentum=None),
    ],
)
def test_what_cannot_be_stacked_is_refused_by_name(layer: nn.Module) -> None:
    fleet = Fleet(brief(lambda: nn.Sequential(linear(), layer)), "stacked")
    with pytest.raises(SpecError, match=rf"layer '1.*' \({type(layer).__name__}\)"):
        trained(fleet, pool_for(linear))


def test_randomness_hidden_in_a_forward_pass_stops_a_stack() -> None:
    class Hidden(Viewing):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(super().forward(x), training=self.training)

    with pytest.raises(TargetError, match="random"):
        trained(Fleet(brief(Hidden), "stacked"))


@pytest.mark.parametrize("way", WAYS)
def test_a_network_that_fails_is_explained(way: Strategy) -> None:
    with pytest.raises(TargetError, match="ZeroDivisionError: by design"):
        trained(Fleet(brief(broken), way, workers=2))
    with pytest.raises(TargetError, match="shadow model to train, got RuntimeError"):
        trained(Fleet(brief(lambda: nn.Linear(7, 3)), way, workers=2))
    with pytest.raises(TargetError, match="by design"):
        Fleet(brief(broken), way).width(pool_for(linear))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.0}, "lr above 0"),
        ({"lr": float("nan")}, "lr of Recipe to be a finite number"),
        ({"momentum": 1.0}, "momentum from 0"),
        ({"weight_decay": -1.0}, "weight_decay from 0"),
        ({"epochs": 0}, "epochs of Recipe to be a whole number of 1 or more"),
        ({"batch_size": 0}, "batch_size of Recipe to be a whole number of 1 or more"),
        ({"network": 3}, "network of Recipe to be a function"),
        ({"optimiser": "adam", "momentum": 0.9}, "no momentum with adam"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Recipe(**{"network": linear, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers of Fleet to be a whole number of 1 or more"),
        ({"at_once": 0}, "at_once of Fleet to be a whole number of 1 or more"),
        ({"device": "abacus"}, "device of PyTorch"),
        ({"way": "processes", "device": "cuda"}, 'device="cpu" with processes'),
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Fleet(brief(linear), **settings)


def test_unknown_words_are_refused_with_the_nearest_known_one() -> None:
    # in a process of its own: here the tests' type checker would refuse them first
    program = """
from divulge.errors import SpecError
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
for wrong in (
    lambda: Recipe(list, optimiser="adma"),
    lambda: Recipe(list, schedule="linear"),
    lambda: Fleet(Recipe(list), way="staked"),
):
    try:
        wrong()
    except SpecError as error:
        print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "did you mean 'adamax'?",
        "known: constant, cosine",
        "did you mean 'stacked'?",
    ]


def test_nothing_to_train_and_nothing_to_train_on() -> None:
    fleet, pool = Fleet(brief(linear), "one-by-one"), pool_for(linear)
    assert list(fleet.many(pool, subsets()[:0], [])) == []
    with pytest.raises(DataError, match="an empty one"):
        list(fleet.many(pool, np.zeros((1, 60), np.bool_), [1]))


def test_images_are_kept_channels_last_where_the_network_can() -> None:
    [model] = Fleet(brief(conv2d), "one-by-one").many(pool_for(conv2d), subsets()[:1], [1])
    assert isinstance(model, TorchTarget)
    weight = next(model.module.parameters())
    assert weight.is_contiguous(memory_format=torch.channels_last)


def test_double_precision_records_are_trained_in_the_precision_of_the_network() -> None:
    pool = pool_for(linear)
    double = Records(pool.x.astype(np.float64), pool.y)
    fleet = Fleet(brief(linear), "one-by-one")
    assert_close(trained(fleet, double), trained(fleet, pool))


def test_a_network_from_a_file_that_no_process_can_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "beside_the_settings.py"
    path.write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(128, 3)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x.flatten(1))\n"
    )
    found = spec_from_file_location("subject_of_this_test", path)
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)
    pool = pool_for(linear)
    here, there = (
        trained(Fleet(brief(module.Net), way, workers=2), pool)
        for way in ("one-by-one", "processes")
    )
    assert_close(here, there)


def test_an_audit_with_shadows_from_a_fleet() -> None:
    members, nonmembers = forests.draw(80, 0), forests.draw(80, 1)

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))

    fleet = Fleet(Recipe(network, "adam", lr=0.01, epochs=40, batch_size=16), "one-by-one")
    assert isinstance(fleet, Trainer)
    assert as_trainer(fleet) is fleet
    [target] = fleet.many(members, np.ones((1, 80), np.bool_), [0])
    assert isinstance(target, TorchTarget)
    audit = divulge.audit(
        target.module,
        members=members,
        nonmembers=nonmembers,
        access=divulge.Access("logits"),
        shadows=divulge.ShadowModels(4, train=fleet),
    )
    lira = next(finding for finding in audit.findings if finding.attack == "lira")
    assert lira.metrics["auc"].value == golden(0.7503)


def test_fleets_that_differ_have_different_names_and_equal_ones_the_same() -> None:
    fleets = [
        Fleet(brief(linear)),
        Fleet(brief(conv2d)),
        Fleet(brief(linear, lr=0.1)),
    ]
    names = [trainer_identity(fleet) for fleet in fleets]
    assert len(set(names)) == 3
    same_models = Fleet(brief(linear), "stacked", workers=3, device="cuda", at_once=2, why="so")
    assert trainer_identity(same_models) == names[0]
    assert "0x" not in "".join(names)  # an address in memory is another one in the next program


def test_in_bfloat16_models_trained_one_by_one_are_those_of_autocast() -> None:
    recipe, pool = brief(linear), pool_for(linear)
    found = trained(Fleet(recipe, "one-by-one", workers=1, precision="bfloat16"), pool)
    usual = trained(Fleet(recipe, "one-by-one", workers=1), pool)

    def rounded() -> nn.Module:
        module = linear()
        forward = module.forward

        def forward_in_bfloat16(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                answers: torch.Tensor = forward(x)
                return answers.float()  # cross-entropy is computed in single precision

        module.forward = forward_in_bfloat16
        return module

    assert_close(found, by_hand(replace(recipe, network=rounded), pool))
    for one, other in zip(found, usual, strict=True):
        assert all(weight.dtype == torch.float32 for weight in one.values())
        assert not torch.allclose(one["1.weight"], other["1.weight"], rtol=1e-4, atol=1e-6)
