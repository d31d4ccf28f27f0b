"""Models of XGBoost, LightGBM and CatBoost: boosters as they are, and scikit-learn's interface."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge
from divulge.attacks import LiRA, Threshold
from divulge.errors import SpecError, TargetError
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.wrap import as_target
from divulge.training import trainers
from divulge.training.trainers import EstimatorTrainer
from tests.golden import golden

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")

RNG = np.random.default_rng(0)
N = 160
X = RNG.normal(size=(N, 3))
Y = RNG.integers(0, 2, N)
KIND = RNG.integers(0, 3, N)
NAMES = np.where(Y == 1, "yes", "no")
FRAME = pd.DataFrame(
    {
        "income": np.where(RNG.random(N) < 0.2, np.nan, X[:, 0]),
        "job": pd.Categorical(RNG.choice(["cook", "smith", "clerk"], N)),
        "age": X[:, 1],
    }
)
SMALL = {"iterations": 5, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def catboost() -> Any:
    return pytest.importorskip("catboost")


def xgb(x: Any, y: Any, objective: str = "binary:logistic", **more: Any) -> Any:
    params = {"objective": objective, "nthread": 1, **more}
    return xgboost.train(params, xgboost.DMatrix(x, y, enable_categorical=True), 20)


def lgb(x: Any, y: Any, objective: Any = "binary", **more: Any) -> Any:
    params = {"objective": objective, "num_threads": 1, "verbosity": -1, "min_data_in_leaf": 2}
    return lightgbm.train({**params, **more}, lightgbm.Dataset(x, y), 20)


def cat(x: Any, y: Any, objective: str = "Logloss", **more: Any) -> Any:
    names = ["job"] if hasattr(x, "columns") else None
    settings = {**SMALL, "loss_function": objective, "cat_features": names, **more}
    return catboost().CatBoost(settings).fit(x, y)


def asked_of_xgb(booster: Any, x: Any) -> Any:
    return booster.predict(xgboost.DMatrix(x, enable_categorical=True))


def asked_of_lgb(booster: Any, x: Any) -> Any:
    return booster.predict(x)


def asked_of_cat(model: Any, x: Any) -> Any:
    return model.predict(x, prediction_type="Probability")


TRAIN: dict[str, Callable[..., Any]] = {"xgboost": xgb, "lightgbm": lgb, "catboost": cat}
ASKED = {"xgboost": asked_of_xgb, "lightgbm": asked_of_lgb, "catboost": asked_of_cat}
EACH = pytest.mark.parametrize("library", TRAIN)
SEVERAL: dict[str, dict[str, Any]] = {
    "xgboost": {"objective": "multi:softprob", "num_class": 3},
    "lightgbm": {"objective": "multiclass", "num_class": 3},
    "catboost": {"objective": "MultiClass"},
}


@EACH
def test_answers_are_those_of_the_library(library: str) -> None:
    two, three = TRAIN[library](X, Y), TRAIN[library](X, KIND, **SEVERAL[library])
    answers = ASKED[library](two, X)
    both = answers if answers.ndim == 2 else np.column_stack([1 - answers, answers])
    np.testing.assert_allclose(as_target(two).predict(X), both, atol=1e-6)
    np.testing.assert_allclose(as_target(three).predict(X), ASKED[library](three, X), atol=1e-6)


@EACH
def test_columns_are_matched_by_name_and_categories_by_value(library: str) -> None:
    booster = TRAIN[library](FRAME, Y)
    target = as_target(booster)
    other = FRAME[["age", "job", "income"]]
    other = other.assign(job=other.job.cat.reorder_categories(["smith", "cook", "clerk"]))
    expected = target.predict(FRAME)
    np.testing.assert_array_equal(target.predict(other), expected)
    answers = ASKED[library](booster, FRAME)
    np.testing.assert_allclose(expected[:, 1], answers.reshape(N, -1)[:, -1], atol=1e-6)


def test_labels_of_a_booster_become_probabilities() -> None:
    soft, hard = (xgb(X, KIND, f"multi:{one}", num_class=3) for one in ("softprob", "softmax"))
    assert asked_of_xgb(hard, X).shape == (N,)
    np.testing.assert_array_equal(as_target(hard).predict(X), as_target(soft).predict(X))


def test_sure_answers_stay_apart() -> None:
    """In float32 the probability of all of them rounds to one."""
    x = np.arange(20.0)[:, None]
    booster = xgb(x, x[:, 0] > 9, eta=20, min_child_weight=0)
    assert (asked_of_xgb(booster, x[10:]) == 1).all()
    unsure = as_target(booster).predict(x[10:])[:, 0]
    assert (unsure > 0).all()


def test_a_random_forest_of_lightgbm_says_probabilities() -> None:
    forest = lgb(X, Y, boosting="rf", bagging_freq=1, bagging_fraction=0.5)
    np.testing.assert_allclose(as_target(forest).predict(X)[:, 1], forest.predict(X), atol=1e-12)


def test_catboost_knows_its_labels() -> None:
    target = as_target(cat(X, NAMES), labels=("maybe", "no", "yes"))
    answers = target.predict(X)
    assert answers.shape == (N, 3)
    assert not answers[:, 0].any()
    agree = answers.argmax(axis=1) == np.where(Y == 1, 2, 1)
    assert agree.mean() > 0.6


@EACH
def test_fingerprints_tell_boosters_apart(library: str, tmp_path: Path) -> None:
    one, other = TRAIN[library](X, Y), TRAIN[library](X, 1 - Y)
    path = str(tmp_path / "model.ubj")
    one.save_model(path)
    again: Callable[[], Any] = {
        "xgboost": lambda: xgboost.Booster(model_file=path),
        "lightgbm": lambda: lightgbm.Booster(model_file=path),
        "catboost": lambda: catboost().CatBoost().load_model(path),
    }[library]
    assert fingerprint_model(again()) == fingerprint_model(again())
    assert fingerprint_model(one) == fingerprint_model(one)
    assert fingerprint_model(one) != fingerprint_model(other)
    np.testing.assert_allclose(as_target(again()).predict(X), as_target(one).predict(X), rtol=1e-12)


def regress(p: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    return p - data.get_label(), np.ones_like(p)


@pytest.mark.parametrize(
    ("train", "objective"),
    [
        (lambda: xgb(X, Y, "reg:squarederror"), "reg:squarederror"),
        (lambda: xgb(X, Y, "rank:pairwise"), "rank:pairwise"),
        (lambda: lgb(X, Y, "regression"), "regression"),
        (lambda: lgb(X, Y, regress), "none"),
        (lambda: lgb(X, KIND, "multiclassova", num_class=3), "multiclassova"),
        (lambda: cat(X, Y, "RMSE"), "RMSE"),
        (lambda: cat(X, KIND, "MultiClassOneVsAll"), "MultiClassOneVsAll"),
        (lambda: catboost().CatBoostRegressor(**SMALL).fit(X, Y), "RMSE"),
    ],
)
def test_what_predicts_no_class_is_refused(train: Callable[[], Any], objective: str) -> None:
    with pytest.raises(TargetError, match=f"got the objective {objective}: pass a function"):
        as_target(train())


@EACH
@pytest.mark.parametrize("width", [2, 4])
def test_records_of_another_width_are_refused(library: str, width: int) -> None:
    with pytest.raises(TargetError, match="expected records with 3 features"):
        as_target(TRAIN[library](X, Y)).predict(np.zeros((5, width)))


def test_what_is_not_trained_is_refused() -> None:
    with pytest.raises(TargetError, match="fit it first"):
        as_target(catboost().CatBoost(SMALL))


def test_what_says_itself_what_it_returns_is_refused() -> None:
    with pytest.raises(SpecError, match="leave it out"):
        as_target(xgb(X, Y), "logits")


CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "xgboost": partial(xgboost.XGBClassifier, n_estimators=20, enable_categorical=True, n_jobs=1),
    "lightgbm": partial(
        lightgbm.LGBMClassifier, n_estimators=20, min_child_samples=2, n_jobs=1, verbosity=-1
    ),
    "catboost": lambda **settings: catboost().CatBoostClassifier(
        iterations=40, depth=8, learning_rate=0.5, **settings
    ),
}


AUCS = {"xgboost": (0.8431, 0.7902), "lightgbm": (0.8277, 0.8214), "catboost": (0.7194, 0.7137)}
"""Of the two attacks."""


@EACH
def test_classifiers_are_audited_with_shadows_of_their_settings(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = Y if library == "xgboost" else NAMES
    of_catboost = library == "catboost"
    settings = {"cat_features": ["job"]} if of_catboost else {}
    quiet = {"verbose": 0, "allow_writing_files": False} if of_catboost else {}
    model = CLASSIFIERS[library](**settings, **quiet).fit(FRAME[:80], labels[:80])
    trainer = EstimatorTrainer(CLASSIFIERS[library](**settings), jobs=1)
    found = divulge.audit(
        model,
        members=(FRAME[:80], labels[:80]),
        nonmembers=(FRAME[80:], labels[80:]),
        shadows=divulge.ShadowModels(2, train=trainer),
        attacks=[Threshold(), LiRA()],
    )
    assert [one.metrics["auc"].value for one in found.findings] == golden(*AUCS[library])
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().out == ""


def test_a_native_model_of_catboost_is_a_way_to_train_as_well() -> None:
    model = catboost().CatBoost({**SMALL, "loss_function": "Logloss", "cat_features": ["job"]})
    found = divulge.audit(
        model.copy().fit(FRAME[:80], NAMES[:80]),
        members=(FRAME[:80], NAMES[:80]),
        nonmembers=(FRAME[80:], NAMES[80:]),
        shadows=divulge.ShadowModels(2, train=EstimatorTrainer(model, jobs=1)),
        attacks=[LiRA()],
    )
    assert found.findings[0].metrics["auc"].value == golden(0.5841)


RANDOM: dict[str, dict[str, Any]] = {
    "xgboost": {"subsample": 0.5},
    "lightgbm": {"subsample": 0.5, "subsample_freq": 1},
    "catboost": {},
    "catboost with a seed": {"random_state": 7},
    "catboost with a seed by its other name": {"random_seed": 7},
}


@pytest.mark.parametrize("case", RANDOM)
def test_each_clone_has_its_own_seed(case: str) -> None:
    classifier = CLASSIFIERS[case.partition(" ")[0]](**RANDOM[case])
    model = make_pipeline(StandardScaler(), classifier)
    trainer, subsets = EstimatorTrainer(model, jobs=1), np.ones((3, N), np.bool_)
    one, same, other = (
        target.predict(X) for target in trainer.many(divulge.Records(X, Y), subsets, [1, 1, 2])
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize(
    ("library", "name", "rounds"),
    [("lightgbm", "n_jobs", "n_estimators"), ("catboost", "thread_count", "iterations")],
)
def test_each_of_several_processes_has_its_share_of_the_cores(
    library: str, name: str, rounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(calls: Any, processes: int, **settings: Any) -> Any:
        return (function(*given, **named) for function, given, named in calls)

    monkeypatch.setattr(trainers, "parallel_calls", one_by_one)
    pool, both = divulge.Records(X, Y), np.ones((2, N), np.bool_)
    for asked, jobs, threads in ((None, 1, None), (None, 2, 2), (-1, 2, 2), (1, 2, 1)):
        monkeypatch.setattr("joblib.cpu_count", lambda **_: 4)
        model = CLASSIFIERS[library](**{name: asked, rounds: 1})
        for target in EstimatorTrainer(model, jobs).many(pool, both, [1, 2]):
            assert isinstance(target, SklearnTarget)
            assert target.estimator.get_params().get(name) == threads
