"""What a trainer chooses once, resumed work keeps: else two ways would meet in one file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leakscope.core import Records, Target
from leakscope.shadowing.plan import ShadowPlan
from leakscope.shadowing.train import train
from leakscope.training.trainers import FunctionTrainer

from .test_train import model, view

TRIALS: list[int] = []


@dataclass(frozen=True)
class Choosy:
    """Each trial chooses something else, and every choice trains other models."""

    way: str = field(default="auto", metadata={"identity": False})

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
    few, many = (ShadowPlan(Choosy(), models, None, "choosy") for models in (2, 5))
    train(view(20), few, run=tmp_path)
    grown = train(view(20), many, run=tmp_path)
    assert len(TRIALS) == 1
    fixed = train(view(20), replace(many, trainer=Choosy("way 1")))
    np.testing.assert_array_equal(grown.phi, fixed.phi)


def test_nothing_is_tried_when_all_models_are_there(tmp_path: Path) -> None:
    TRIALS.clear()
    plan = ShadowPlan(Choosy(), 3, None, "choosy")
    first, again = (train(view(20), plan, run=tmp_path) for _ in range(2))
    assert len(TRIALS) == 1
    np.testing.assert_array_equal(first.phi, again.phi)
