"""Spaces of settings by kind of estimator, and ways to train with some of them changed."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from divulge.errors import SpecError
from divulge.training.trainers import (
    EstimatorTrainer,
    FunctionTrainer,
    trainer_identity,
    use_one_thread,
)
from divulge.training.tuning import change_settings, make_tunable, usual_space


def train(x: np.ndarray, y: np.ndarray, seed: int, depth: int = 8) -> Any:
    """A tree."""
    return DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(x, y)


def train_as_it_is(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """A tree without settings."""
    return train(x, y, seed)


def test_a_space_has_the_settings_of_the_model_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=2.0))
    assert usual_space(pipeline) == {"logisticregression__C": (0.2, 0.02, 0.002)}


def test_values_milder_than_what_is_set_are_left_out() -> None:
    assert usual_space(DecisionTreeClassifier(max_depth=6, min_samples_leaf=10)) == {
        "max_depth": (4,),
        "min_samples_leaf": (20,),
    }
    forest = RandomForestClassifier(bootstrap=False)
    assert "max_samples" not in usual_space(forest)  # which scikit-learn refuses


def test_lightgbm_draws_a_part_of_the_records_where_it_is_to() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    changed = change_settings(lightgbm.LGBMClassifier(), {"subsample": 0.3})
    assert (changed.subsample, changed.subsample_freq) == (0.3, 1)
    assert usual_space(lightgbm.LGBMClassifier())["min_child_samples"] == (50, 100, 200)


def test_settings_of_an_estimator_and_of_a_function_are_changed_in_a_copy() -> None:
    tree = DecisionTreeClassifier()
    changed: Any = make_tunable(tree).changed({"max_depth": 2})
    assert (changed.estimator.max_depth, tree.max_depth) == (2, None)
    tunable = make_tunable(train, {"depth": (4, 2)})
    assert tunable.space == {"depth": (4, 2)}
    with_two: Any = tunable.changed({"depth": 2})
    assert with_two.function(np.eye(4), np.arange(4) % 2, 0).max_depth == 2


@pytest.mark.parametrize(
    ("how", "space", "said"),
    [
        (DecisionTreeClassifier(), {"max_dept": (2,)}, "did you mean 'max_depth'"),
        (train, {"dept": (2,)}, "did you mean 'depth'"),
        (train_as_it_is, {"depth": (2,)}, "it takes x, y and seed alone"),
        (train, {"depth": ()}, "values of depth"),
        (3, None, "a way to train"),
    ],
)
def test_what_cannot_be_changed_is_refused(how: Any, space: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        make_tunable(how, space)


def test_functions_with_other_settings_are_told_apart() -> None:
    two, three = (trainer_identity(partial(train, depth=depth)) for depth in (2, 3))
    assert two != three
    assert two == trainer_identity(partial(train, depth=2))


def test_one_thread_reaches_the_trainer_within() -> None:
    from divulge.defences import Averaging

    within = use_one_thread(Averaging(EstimatorTrainer(DecisionTreeClassifier()))).trainer
    assert (within.jobs, within.threads) == (1, 1)
    function = FunctionTrainer(train)
    assert use_one_thread(function) == function
