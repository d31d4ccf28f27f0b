"""The scorer gives scikit-learn what an audit of the same fold finds, with the sign of a loss."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import divulge
from divulge.audits.scorer import LeakageScorer
from divulge.errors import DivulgeError, NotApplicable, SpecError

X, Y = (array[:600] for array in load_digits(return_X_y=True))
CV = StratifiedKFold(3, shuffle=True, random_state=0)


def test_a_search_chooses_the_setting_that_leaks_least() -> None:
    leaks = divulge.scorer("auc", X, Y, CV)
    search = GridSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [3, 12], "min_samples_leaf": [1, 20]},
        scoring={"leak": leaks, "accuracy": "accuracy"},
        refit="leak",
        cv=CV,
        error_score="raise",
    ).fit(X, Y)
    assert search.best_params_ == {"max_depth": 3, "min_samples_leaf": 20}
    results = search.cv_results_
    names = [str(one) for one in results["params"]]
    scores = dict(zip(names, results["mean_test_leak"], strict=True))
    assert scores["{'max_depth': 12, 'min_samples_leaf': 1}"] < -0.6


@pytest.mark.slow
def test_the_score_is_the_auc_of_an_audit_of_the_same_fold() -> None:
    model = RandomForestClassifier(5, random_state=0)
    leaks = divulge.scorer("auc", X, Y, CV)
    found = cross_validate(
        model, X, Y, cv=CV, scoring=leaks, return_estimator=True, error_score="raise"
    )
    for (train, test), fitted, score in zip(
        CV.split(X, Y), found["estimator"], found["test_score"], strict=True
    ):
        audit = divulge.audit(
            fitted,
            members=(X[train], Y[train]),
            nonmembers=(X[test], Y[test]),
            attacks=[divulge.attack("threshold")],
        )
        assert -score == pytest.approx(audit.findings[0].metrics["auc"].value, abs=1e-12)


def test_both_sides_of_a_fold_have_one_score_and_it_crosses_processes() -> None:
    leaks = pickle.loads(pickle.dumps(divulge.scorer("advantage", X, Y, CV)))  # noqa: S301 - as joblib does
    found = cross_validate(
        DecisionTreeClassifier(max_depth=6, random_state=0),
        X,
        Y,
        cv=CV,
        scoring=leaks,
        return_train_score=True,
        error_score="raise",
    )
    np.testing.assert_array_equal(found["train_score"], found["test_score"])


def test_labels_that_tell_nothing_score_as_guessing() -> None:
    """A stump fitted on labels without any relation to the records memorises none of them."""
    y = np.random.default_rng(0).integers(2, size=600)
    leaks = divulge.scorer("auc", X, y, CV)
    model = DecisionTreeClassifier(max_depth=1, random_state=0)
    scores = cross_validate(model, X, y, cv=CV, scoring=leaks, error_score="raise")["test_score"]
    # 400 members and 200 others: the deviation of an AUC without a leak is at most
    # sqrt(601 / (12 * 400 * 200)) = 0.025; a stump takes about as much from the labels
    assert np.all(np.abs(scores + 0.5) < 4 * 0.025)


def frames() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(
        {
            "town": rng.choice(["Ulm", "Rennes", "Aberdeen"], 240),
            "age": rng.integers(20, 80, 240),
            "pay": rng.normal(size=240),
        }
    )
    return x, pd.Series(rng.choice(["no", "perhaps, later"], 240))


def test_data_frames_and_texts_are_found_again() -> None:
    x, y = frames()
    cv = ShuffleSplit(3, train_size=0.5, test_size=0.3, random_state=0)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"),
        DecisionTreeClassifier(random_state=0),
    )
    leaks = divulge.scorer("auc", x, y, cv)
    found = cross_validate(model, x, y, cv=cv, scoring=leaks, error_score="raise")
    assert np.all(found["test_score"] < -0.6)  # it learns coins by heart


def test_regression_and_classifiers_of_labels_alone() -> None:
    x, y = load_diabetes(return_X_y=True)
    folds = list(KFold(3).split(x))
    values = divulge.scorer("auc", x, y, folds)
    deep = cross_validate(
        DecisionTreeRegressor(random_state=0), x, y, cv=folds, scoring=values, error_score="raise"
    )
    assert np.all(deep["test_score"] < -0.9)
    labels = divulge.scorer("advantage", X, Y, CV)
    ridge = cross_validate(RidgeClassifier(), X, Y, cv=CV, scoring=labels, error_score="raise")
    assert np.all(np.isfinite(ridge["test_score"]))


def test_an_attack_of_ones_own_and_one_that_cannot_run() -> None:
    train, test = next(CV.split(X, Y))
    model = DecisionTreeClassifier(random_state=0).fit(X[train], Y[train])
    gap = divulge.scorer("auc", X, Y, CV, attack=divulge.attack("gap"))
    assert gap(model, X[test], Y[test]) < -0.5
    lira = divulge.scorer("auc", X, Y, CV, attack=divulge.attack("lira"))
    with pytest.raises(NotApplicable, match="needs shadow"):
        lira(model, X[test], Y[test])
    few = divulge.scorer("tpr@0.001", X, Y, CV)
    with pytest.raises(NotApplicable, match="non-members"):
        few(model, X[test], Y[test])


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(SpecError, match="did you mean 'auc'"):
        divulge.scorer("aucc", X, Y, CV)
    with pytest.raises(SpecError, match="expected a splitter"):
        divulge.scorer("auc", X, Y, 5)
    with pytest.raises(SpecError, match="give it a random_state"):
        divulge.scorer("auc", X, Y, StratifiedKFold(3, shuffle=True))
    with pytest.raises(SpecError, match="told apart"):
        divulge.scorer("auc", np.zeros((30, 2)), np.arange(30) % 2, KFold(3, shuffle=False))
    whole = np.arange(600)
    for fold in (whole < 300, whole >= 300), (whole, whole + 1), (whole, whole[:0]), (whole,):
        with pytest.raises(SpecError, match="pairs of training rows"):
            divulge.scorer("auc", X, Y, [fold])
    with pytest.raises(SpecError, match="splits these records, got TypeError"):
        divulge.scorer("auc", X, Y, [1, 2])
    with pytest.raises(SpecError, match=r"each of 600 records, got y of shape \(599,\)"):
        divulge.scorer("auc", X, Y[:599], CV)
    with pytest.raises(SpecError, match=r"got y of shape \(\)"):
        divulge.scorer("auc", X, None, CV)
    with pytest.raises(DivulgeError):
        divulge.scorer("auc", None, Y, CV)


def test_another_splitter_in_the_search_is_noticed() -> None:
    leaks = divulge.scorer("auc", X, Y, CV)
    assert isinstance(leaks, LeakageScorer)
    with pytest.raises(SpecError, match="the same x, y and cv"):
        cross_validate(
            DecisionTreeClassifier(), X, Y, cv=KFold(3), scoring=leaks, error_score="raise"
        )
