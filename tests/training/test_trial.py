import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from divulge.training.engine import choose
from divulge.training.engine.choose import ConcreteStrategy, TrainingSetup, choose_fastest
from divulge.training.engine.loop import Job
from divulge.training.fleet import Fleet
from divulge.training.tensors import PoolArrays

from .twin import SEEDS, assert_close, brief, by_hand, dropout, linear, pool_for, subsets, trained

JOBS = [Job(np.arange(30), seed) for seed in range(100)]  # of 12 steps each
Key = tuple[ConcreteStrategy, int]


def work() -> TrainingSetup:
    pool = pool_for(linear)
    return TrainingSetup(brief(linear), pool, PoolArrays.prepare(pool, linear()), "cpu", 100)


def pretend(
    monkeypatch: pytest.MonkeyPatch, step: dict[Key, float], *, awake: bool = False
) -> list[Key]:
    """A machine on which a step of one model takes this long; which ways were tried, comes back."""
    tried: list[Key] = []

    def seconds(
        _work: TrainingSetup, way: ConcreteStrategy, workers: int, jobs: list[Job], steps: int
    ) -> float:
        tried.append((way, workers))
        return step[way, workers] * steps * len(jobs)

    monkeypatch.setattr(choose, "_time_training", seconds)
    monkeypatch.setattr(choose, "has_idle_workers", lambda: awake)
    return tried


@pytest.mark.parametrize(
    "winner", [("one-by-one", 1), ("one-by-one", 2), ("stacked", 2), ("processes", 3)]
)
def test_the_fastest_way_is_taken(winner: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Key] = [("one-by-one", 1), ("one-by-one", 2), ("stacked", 2), ("processes", 3)]
    step = {way: 0.0022 if way == winner else 0.0044 for way in ways}
    pretend(monkeypatch, step, awake=True)
    choice = choose_fastest(work(), JOBS, 3, 2, stackable=True)
    assert choice[:2] == winner
    assert f"{winner[0]} ({winner[1]}) 2.2 ms" in choice.why
    assert choice.why.count("4.4 ms") == 3


def test_what_cannot_pay_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: Key = ("one-by-one", 1)
    tried = pretend(monkeypatch, {alone: 0.0001})  # 0.12 s in all
    assert choose_fastest(work(), JOBS, 2, 2, stackable=True)[:2] == alone
    assert set(tried) == {alone}
    tried = pretend(monkeypatch, {alone: 0.004})  # 4.8 s: processes take about as long to start
    assert choose_fastest(work(), JOBS, 2, 1, stackable=False)[:2] == alone
    assert set(tried) == {alone}
    tried = pretend(monkeypatch, {alone: 0.1, ("processes", 2): 0.05})  # a step is no overhead
    assert choose_fastest(work(), JOBS, 2, 1, stackable=True)[:2] == ("processes", 2)
    assert ("stacked", 1) not in tried
    tried = pretend(monkeypatch, {alone: 1.0})  # there is nothing to share
    assert choose_fastest(work(), JOBS[:1], 2, 1, stackable=True)[:2] == alone


def test_a_settled_fleet_trains_the_same_models_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choose, "_MIN_WORK_SECONDS", 0.0)
    monkeypatch.setattr(choose, "_TRIAL_SECONDS", 0.01)
    monkeypatch.setattr(choose, "_OVERHEAD_SECONDS", 60.0)
    monkeypatch.setattr(choose, "has_idle_workers", lambda: True)
    monkeypatch.setattr(choose, "find_native", lambda: None)  # which would leave nothing to try
    pool = pool_for(linear)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    settled = Fleet(brief(linear), workers=2).settled(pool, subsets())
    assert torch.equal(torch.get_rng_state(), before)
    assert settled.way != "auto"
    for way in ("one-by-one (1)", "one-by-one (2)", "stacked (2)", "processes (2)"):
        assert f"{way} " in settled.chosen
    assert settled.settled(pool, subsets()) == settled
    with caplog.at_level(logging.INFO, "divulge"):
        first, again = trained(settled), trained(settled)
    for one, other in zip(first, again, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert_close(first, by_hand(brief(linear), pool))
    assert caplog.messages == [f"training {len(SEEDS)} models, {settled.chosen}"] * 2


@pytest.mark.parametrize(("network", "way"), [(linear, "stacked"), (dropout, "one-by-one")])
def test_on_an_accelerator_a_fleet_is_stacked_without_a_trial_if_its_layers_allow(
    network: Callable[[], nn.Module], way: str
) -> None:
    """What is chosen needs no accelerator; none was ever at hand to train on."""
    fleet = Fleet(brief(network), device="cuda", at_once=2)
    assert fleet.settled(pool_for(network), subsets()).way == way
