"""What a trainer chooses once, resumed work keeps: else two ways would meet in one file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from divulge.core import Records, Target
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.shadows import workers_by_name
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.ray import _models_per_batch
from divulge.training.shadows.strategy import resolve_trainer, settle
from divulge.training.shadows.train import prepare_workload, shadow_queries, train_shadows
from divulge.training.shadows.workers import LocalWorkers
from divulge.training.trainers import FunctionTrainer

from .test_train import model, view

TRIALS: list[int] = []


@dataclass(frozen=True)
class Choosy:
    """Each trial chooses something else, and every choice trains other models."""

    way: str = field(default="auto", metadata={"identity": False})
    together: int = 1

    def settled(self, pool: Records, subsets: np.ndarray) -> "Choosy":
        if self.way != "auto":
            return self
        assert subsets.shape[1] == len(pool)
        TRIALS.append(len(subsets))
        return replace(self, way=f"way {len(TRIALS)}")

    def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterator[Target]:
        shift = int(self.settled(pool, subsets).way.removeprefix("way "))
        return FunctionTrainer(model).many(pool, subsets, [seed + shift for seed in seeds])


def test_models_added_later_are_trained_in_the_way_of_the_first(tmp_path: Path) -> None:
    TRIALS.clear()
    few, many = (ShadowPlan(Choosy(), models, fingerprint="choosy") for models in (2, 5))
    train_shadows(view(20), few, run=tmp_path)
    grown = train_shadows(view(20), many, run=tmp_path)
    assert len(TRIALS) == 1
    fixed = train_shadows(view(20), replace(many, trainer=Choosy("way 1")))
    np.testing.assert_array_equal(grown.phi, fixed.phi)


def test_nothing_is_tried_when_all_models_are_there(tmp_path: Path) -> None:
    TRIALS.clear()
    plan = ShadowPlan(Choosy(), 3, fingerprint="choosy")
    first, again = (train_shadows(view(20), plan, run=tmp_path) for _ in range(2))
    assert len(TRIALS) == 1
    np.testing.assert_array_equal(first.phi, again.phi)


def test_models_that_are_one_computation_are_trained_together_again(tmp_path: Path) -> None:
    TRIALS.clear()
    asked = view(20)
    few, many = (ShadowPlan(Choosy(together=3), models, fingerprint="choosy") for models in (4, 5))
    train_shadows(asked, few, run=tmp_path)
    work = prepare_workload(many, shadow_queries(asked, many), 0)
    for missing, together in (([4], [3, 4]), ([1], [0, 1, 2]), ([], [])):
        found = resolve_trainer(work, missing, tmp_path / "way.json", LocalWorkers())
        assert found[1] == together


def test_elsewhere_a_fleet_trains_one_model_after_another_in_waves_for_all_workers() -> None:
    pytest.importorskip("ray")
    plan = ShadowPlan(Fleet(Recipe(network, epochs=1)), 32, fingerprint="fleet")
    work = prepare_workload(plan, shadow_queries(view(20), plan), 0)
    fleet = settle(work, workers_by_name("ray"))
    assert isinstance(fleet, Fleet)
    assert (fleet.way, fleet.workers) == ("one-by-one", 1)
    assert _models_per_batch(replace(work, trainer=fleet), 32, processors=4) == 4
    stacked = Fleet(Recipe(network, epochs=1), way="stacked", at_once=5)
    assert _models_per_batch(replace(work, trainer=stacked), 32, processors=4) == 5


def test_a_fleet_that_is_stacked_resumes_bit_for_bit(tmp_path: Path) -> None:
    """Models alone in a stack round otherwise than beside others."""
    asked = view(40)
    fleet = Fleet(Recipe(network, epochs=2, batch_size=8), way="stacked", at_once=2)
    plans = [ShadowPlan(fleet, models, fingerprint="fleet") for models in (3, 5)]
    train_shadows(asked, plans[0], run=tmp_path / "grown")
    grown = train_shadows(asked, plans[1], run=tmp_path / "grown")
    whole = train_shadows(asked, plans[1], run=tmp_path / "whole")
    np.testing.assert_array_equal(grown.phi, whole.phi)


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
