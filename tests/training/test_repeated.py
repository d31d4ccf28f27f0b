"""Calls that are made often, and fleets larger than memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from divulge.core import Records
from divulge.errors import TargetError
from divulge.training import memory
from divulge.training.engine import choose, processes
from divulge.training.engine.loop import Job
from divulge.training.engine.stacked import train_stacked
from divulge.training.fleet import Fleet, Strategy
from divulge.training.recipe import Recipe
from divulge.training.tensors import PoolTensors
from tests.slow import slow

from .twin import (
    SEEDS,
    WAYS,
    assert_close,
    batch_norm,
    brief,
    by_hand,
    conv2d,
    linear,
    pool_for,
    subsets,
    trained,
)


@pytest.mark.parametrize("way", [slow(way) if way == "processes" else way for way in WAYS])
@pytest.mark.parametrize("network", [linear, batch_norm])
def test_all_networks_start_from_given_weights(
    network: Callable[[], nn.Module], way: Strategy
) -> None:
    pool = pool_for(network)
    start = network().state_dict()
    kept = {name: tensor.clone() for name, tensor in start.items()}
    modules = Fleet(brief(network), way, workers=2).networks(pool, subsets(), SEEDS, start)
    assert_close([module.state_dict() for module in modules], by_hand(brief(network), pool, start))
    assert_close([start], [kept])


def test_weights_of_another_network_are_refused() -> None:
    fleet = Fleet(brief(linear), "one-by-one")
    with pytest.raises(TargetError, match="Missing key"):
        list(fleet.networks(pool_for(linear), subsets(), SEEDS, conv2d().state_dict()))


@pytest.mark.slow
def test_processes_train_what_one_thread_trains_bit_for_bit() -> None:
    one, other = (trained(Fleet(brief(conv2d), way, workers=w)) for way, w in EQUAL)
    for a, b in zip(one, other, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)


EQUAL: tuple[tuple[Strategy, int], ...] = (("one-by-one", 1), ("processes", 2))


def test_a_pool_is_handed_to_processes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    mapped = processes._memory_map

    def spy(array: np.ndarray, path: Path) -> np.ndarray:
        written.append(path)
        return mapped(array, path)

    monkeypatch.setattr(processes, "_memory_map", spy)
    fleet, pool = Fleet(brief(linear), "processes", workers=2), pool_for(linear)
    first, again = trained(fleet, pool), trained(fleet, pool)
    assert len(written) == 2  # features and labels
    assert_close(first, again)
    assert processes.has_idle_workers()
    shuffled = Records(pool.x, pool.y[::-1].copy())
    assert_close(trained(fleet, shuffled), by_hand(fleet.recipe, shuffled))
    assert len(written) == 4
    assert not written[0].exists()
    assert written[2].exists()
    del shuffled
    assert not written[2].exists()


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_fleet_larger_than_memory_runs_in_waves(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves: list[int] = []

    def spy(recipe: Recipe, data: PoolTensors, jobs: Sequence[Job]) -> list[nn.Module]:
        waves.append(len(jobs))
        return train_stacked(recipe, data, jobs)

    pool = pool_for(linear)
    fleet = Fleet(brief(linear), "stacked")
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 2**30)
    room = 2**30 // fleet.width(pool)  # what one model takes, roughly
    monkeypatch.setattr(memory, "free_bytes", lambda _device: int((at_once + 0.5) * room))
    monkeypatch.setattr(choose, "train_stacked", spy)
    assert fleet.width(pool) == at_once
    assert_close(trained(fleet, pool), by_hand(fleet.recipe, pool))
    assert waves == {1: [1, 1, 1, 1], 3: [3, 1]}[at_once]


def test_one_model_is_trained_however_little_memory_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 0)
    assert Fleet(brief(linear)).width(pool_for(linear)) == 1
    assert Fleet(brief(linear), at_once=7).width(pool_for(linear)) == 7


def test_larger_networks_and_batches_take_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 2**30)

    def wide() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(128, 80), nn.ReLU(), nn.Linear(80, 3))

    pool = pool_for(linear)
    small = Fleet(brief(linear)).width(pool)
    assert 5 < small / Fleet(brief(wide)).width(pool) < 15  # ten times as many weights
    assert Fleet(Recipe(linear, batch_size=800)).width(pool) < small


def test_free_memory_is_some_of_the_machines() -> None:
    assert 2**20 < memory.free_bytes(torch.device("cpu")) < 2**50
