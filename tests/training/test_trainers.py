from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from divulge.core import Trainer
from divulge.errors import SpecError, TargetError
from divulge.testing import forests
from divulge.training.fleet import Fleet
from divulge.training.trainers import (
    EstimatorTrainer,
    FunctionTrainer,
    as_trainer,
    trainer_identity,
)
from divulge.training.trainers import _settings as settings_of_clone

from ..defences import trained_table as table

POOL = forests.draw(80, 0)
HALVES = np.random.default_rng(0).random((3, 80)) < 0.5


def tree(x: np.ndarray, y: np.ndarray, seed: int) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=seed).fit(x, y)


def forest(x: np.ndarray, y: np.ndarray, seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(10, random_state=seed).fit(x, y)


TRAINERS: tuple[Trainer, ...] = (
    EstimatorTrainer(RandomForestClassifier(10), jobs=1),
    FunctionTrainer(forest),
    Fleet(table.RECIPE, "one-by-one", 1),
    Fleet(table.RECIPE, "stacked", 1),
)


@pytest.mark.parametrize("prove", table.OF_TRAINERS, ids=lambda prove: prove.__name__)
@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda trainer: type(trainer).__name__)
def test_property(trainer: Trainer, prove: table.Property) -> None:
    prove(trainer)


def test_both_ways_train_the_same_models() -> None:
    one = EstimatorTrainer(DecisionTreeClassifier(), jobs=1).many(POOL, HALVES, [1, 2, 3])
    other = FunctionTrainer(tree).many(POOL, HALVES, [1, 2, 3])
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.predict(POOL.x), right.predict(POOL.x))


def test_networks_of_skorch_begin_as_the_seed_says() -> None:
    skorch, torch = pytest.importorskip("skorch"), pytest.importorskip("torch")
    network = partial(torch.nn.Linear, POOL.x.shape[1], int(POOL.y.max()) + 1)
    before = torch.get_rng_state()
    model = skorch.NeuralNetClassifier(
        network, criterion=torch.nn.CrossEntropyLoss, max_epochs=1, train_split=None, verbose=0
    )
    pool = replace(POOL, x=POOL.x.astype(np.float32))
    trainer, halves = EstimatorTrainer(model, jobs=1), HALVES[[0, 0, 0]]
    trained = list(trainer.many(pool, halves, [1, 1, 2]))
    assert (torch.get_rng_state() == before).all()
    one, same, other = (target.predict(pool.x) for target in trained)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_seeds_reach_into_pipelines() -> None:
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=1))
    trainer = EstimatorTrainer(pipeline, jobs=1)
    a, b = (next(trainer.many(POOL, HALVES[:1], [seed])).predict(POOL.x) for seed in (1, 2))
    again = next(trainer.many(POOL, HALVES[:1], [1])).predict(POOL.x)
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, b)


def test_threads_are_set_where_they_are_used() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    assert "logisticregression__n_jobs" not in settings_of_clone(pipeline, 0, 1)  # it would warn
    assert settings_of_clone(RandomForestClassifier(n_jobs=8), 0, 2)["n_jobs"] == 2
    assert settings_of_clone(RandomForestClassifier(n_jobs=1), 0, 2)["n_jobs"] == 1


def test_a_failure_is_explained() -> None:
    def broken(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
        raise ZeroDivisionError("by design")

    with pytest.raises(TargetError, match="ZeroDivisionError: by design"):
        list(FunctionTrainer(broken).many(POOL, HALVES, [1, 2, 3]))
    with pytest.raises(TargetError, match="shadow model to train"):
        list(EstimatorTrainer(LogisticRegression(C=-1), jobs=1).many(POOL, HALVES, [1, 2, 3]))


def test_what_is_no_way_to_train_is_refused() -> None:
    with pytest.raises(SpecError, match="got int"):
        as_trainer(3)
    assert isinstance(as_trainer(DecisionTreeClassifier()), EstimatorTrainer)
    assert isinstance(as_trainer(tree), FunctionTrainer)
    assert as_trainer(FunctionTrainer(tree)) == FunctionTrainer(tree)


def test_trainers_that_differ_have_different_names() -> None:
    names = {
        trainer_identity(DecisionTreeClassifier()),
        trainer_identity(DecisionTreeClassifier(max_depth=3)),
        trainer_identity(tree),
        trainer_identity(test_a_failure_is_explained),
        trainer_identity(FunctionTrainer(tree)),
        trainer_identity(FunctionTrainer(tree, "logits")),
        trainer_identity(3),
        trainer_identity((3, 4)),
        trainer_identity((3, 5)),
        trainer_identity(POOL),
        trainer_identity(forests.draw(80, 1)),
    }
    assert len(names) == 11
    assert not any("0x" in name for name in names)  # an address would differ in the next process
