import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from divulge.core import Need
from divulge.errors import TargetError
from divulge.targets.sklearn import SklearnRegressor, SklearnTarget, is_regressor, wrap_estimator

from . import tiny_models as tiny

Y = np.array([0, 1, 0, 1, 1, 0, 1])


def test_a_class_missing_from_the_training_set_leaves_an_empty_column() -> None:
    model = LogisticRegression().fit(tiny.X, np.where(Y == 1, 4, 1))
    answers = SklearnTarget(model).predict(tiny.X)
    np.testing.assert_array_equal(answers[:, [1, 4]], model.predict_proba(tiny.X))
    assert answers.shape == (7, 5)
    assert not answers[:, [0, 2, 3]].any()


@pytest.mark.parametrize("names", [np.array(["no", "yes"]), np.array([-1, 1])])
def test_other_classes_count_by_position(names: np.ndarray) -> None:
    model = LogisticRegression().fit(tiny.X, names[Y])
    answers = SklearnTarget(model).predict(tiny.X)
    np.testing.assert_array_equal(answers, model.predict_proba(tiny.X))


@pytest.mark.parametrize("names", [np.array(["no", "yes"]), np.array([1, 4])])
def test_without_probabilities_labels_are_offered(names: np.ndarray) -> None:
    model = LinearSVC().fit(tiny.X, names[Y])
    target = SklearnTarget(model)
    assert target.offers == Need.HARD_LABELS | Need.FEATURES
    answers = target.predict(tiny.X)
    columns = names if names.dtype.kind == "i" else np.arange(2)
    assert answers.shape == (7, columns.max() + 1)
    predicted = (model.predict(tiny.X) == names[1]).astype(int)
    np.testing.assert_array_equal(answers.argmax(axis=1), columns[predicted])


def test_records_of_more_dimensions_are_flattened() -> None:
    answers = SklearnTarget(tiny.estimator()).predict(tiny.X.reshape(7, 2, 2))
    np.testing.assert_allclose(answers, tiny.probabilities(tiny.X), atol=1e-6)


def test_pipelines_fitted_on_named_columns_answer_without_a_warning() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(tiny.X, columns=list("abcd"))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, Y)
    answers = SklearnTarget(model).predict(tiny.X)
    np.testing.assert_allclose(answers, model.predict_proba(frame))


class Stubborn:
    """Answers that do not fit its classes."""

    classes_ = np.array([0, 1, 2])

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), 3)


class Narrow(Stubborn):
    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.full((len(x), 2), 0.5)


@pytest.mark.parametrize(
    ("model", "message"),
    [(Stubborn(), "among classes_"), (Narrow(), "expected 3 columns")],
)
def test_answers_that_do_not_fit_the_classes_are_refused(model: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        SklearnTarget(model).predict(tiny.X)


class Identifiers(Stubborn):
    classes_ = np.array([20240101, 20240102])


class Single(Stubborn):
    classes_ = np.array([1])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(), "fit it first"),
        (LinearRegression().fit(tiny.X, Y), "fitted classifier"),
        (
            MultiOutputClassifier(LogisticRegression()).fit(tiny.X, np.column_stack([Y, Y])),
            "audit each label by itself",
        ),
        (Single(), "two or more classes"),
        (Identifiers(), "encode the classes"),
    ],
)
def test_what_is_no_fitted_classifier_is_refused(model: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        SklearnTarget(model)


@pytest.mark.parametrize("fitted", [False, True])
def test_regression_models_are_told_from_classifiers(fitted: bool) -> None:
    regression = make_pipeline(StandardScaler(), LinearRegression())
    classifier = make_pipeline(StandardScaler(), LogisticRegression())
    if fitted:
        regression.fit(tiny.X, Y)
        classifier.fit(tiny.X, Y)
        assert isinstance(wrap_estimator(regression), SklearnRegressor)
        assert isinstance(wrap_estimator(classifier), SklearnTarget)
    assert is_regressor(regression)
    assert not is_regressor(classifier)
    assert not is_regressor(regression.predict)  # no estimator


def test_nothing_is_a_regression_model_of_scikit_learn_before_that_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = LinearRegression().fit(tiny.X, Y)
    monkeypatch.delitem(sys.modules, "sklearn.base")
    assert not is_regressor(model)
