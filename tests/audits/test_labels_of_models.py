"""Labels of records beside the classes of a model: figures of scikit-learn's own computation, or a
refusal whose advice gives them."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import divulge
from divulge.errors import DataError, DivulgeError, TargetError
from tests.golden import golden
from tests.slow import slow

X, Y = load_wine(return_X_y=True)
ORDER = np.random.default_rng(5).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]
IN, OUT = np.arange(90), np.arange(90, len(X))


def classifier(labels: Any) -> Any:
    """Whose probabilities are all different: of a tie rounding would decide."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    return model.fit(X[IN], labels[IN])


def expected(model: Any, rows: np.ndarray) -> float:
    p = model.predict_proba(X[rows])
    return float(roc_auc_score(np.isin(rows, IN), p[np.arange(len(rows)), Y[rows]]))


def audit(model: Any, labels: Any, rows: np.ndarray | None = None, **options: Any) -> Any:
    rows = np.arange(len(X)) if rows is None else rows
    inside, outside = rows[np.isin(rows, IN)], rows[np.isin(rows, OUT)]
    return divulge.audit(
        model,
        members=(X[inside], labels[inside]),
        nonmembers=(X[outside], labels[outside]),
        attacks=[divulge.attack("threshold")],
        options=divulge.Options(**options),
    )


def auc(found: Any) -> float:
    return float(found.findings[0].metrics["auc"].value)


TEXTS = np.array(["1", "2", "3"])
SPELLINGS: dict[str, tuple[Any, Any]] = {
    "floats from one": (np.array([1.0, 2, 3]), np.array([1.0, 2, 3])),
    "floats, and integers": (np.array([1.0, 2, 3]), np.array([1, 2, 3])),
    "integers, and floats": (np.array([1, 2, 3]), np.array([1.0, 2, 3])),
    "float32": (np.array([1, 2, 3], np.float32), np.array([1, 2, 3])),
    "floats from zero": (np.array([0.0, 1, 2]), np.array([0, 1, 2])),
    "integers, and texts of floats": (np.array([1, 2, 3]), np.array(["1.0", "2.0", "3.0"])),
    "texts, and integers": (TEXTS, np.array([1, 2, 3])),
    "texts, and floats": (TEXTS, np.array([1.0, 2, 3])),
    "texts of floats, and integers": (np.array(["1.0", "2.0", "3.0"]), np.array([1, 2, 3])),
    "signs": (np.array([-1.0, 0, 1]), np.array([-1, 0, 1])),
    "signs as texts": (np.array([-1, 0, 1]), np.array(["-1", "0", "1.0"])),
    "texts": (np.array(["a", "b", "c"]), np.array(["a", "b", "c"])),
    "sorted texts, and positions": (np.array(["a", "b", "c"]), np.array([0, 1, 2])),
}


@pytest.mark.parametrize("missing", [None, slow(0), slow(2)])
@pytest.mark.parametrize("case", SPELLINGS)
def test_labels_are_compared_by_value(case: str, missing: int | None) -> None:
    """Also where a class does not occur in the records, so that no label is too high."""
    classes, labels = SPELLINGS[case]
    model = classifier(classes[Y])
    rows = np.flatnonzero(missing != Y) if missing is not None else np.arange(len(X))
    found = audit(model, labels[Y], rows)
    assert auc(found) == pytest.approx(expected(model, rows), abs=1e-12)


def test_positions_among_names_are_said_on_the_page() -> None:
    found = audit(classifier(np.array(["a", "b", "c"])[Y]), Y)
    said = {check.name: check.text for check in found.checks}["labels"]
    assert said == (
        "Labels are class numbers, taken for positions in the model's own order: 'a' is 0, 'b' is "
        "1, 'c' is 2."
    )
    assert found.facts.class_names == ("a", "b", "c")


class Unsorted:
    """A classifier whose classes are in no order."""

    classes_ = np.array(["b", "c", "a"])

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict_proba(self, x: Any) -> np.ndarray:
        return np.asarray(self.model.predict_proba(x)[:, [1, 2, 0]])


def test_class_numbers_beside_names_that_are_not_sorted() -> None:
    model = classifier(np.array(["a", "b", "c"])[Y])
    with pytest.raises(DataError, match="do not say which of these is 0"):
        audit(Unsorted(model), Y)
    found = audit(Unsorted(model), Y, class_names=("a", "b", "c"))
    assert auc(found) == pytest.approx(expected(model, np.arange(len(X))), abs=1e-12)
    assert found.facts.class_names == ("b", "c", "a")


@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.array([2, 3, 4])])
def test_members_of_a_class_that_the_model_never_saw_are_refused(labels: np.ndarray) -> None:
    """Else every label would be taken for its neighbour's column, in silence."""
    with pytest.raises(DataError, match=r"for the training|for its training"):
        audit(classifier(Y + 1), labels[Y])


def test_a_label_in_another_spelling_is_refused_and_the_nearest_named() -> None:
    model = classifier(np.array(["high", "low", "mid"])[Y])
    for names in (np.array(["high ", "low", "mid"]), np.array(["HIGH", "low", "mid"])):
        with pytest.raises(DataError, match=r"got 'high '|got 'HIGH'") as error:
            audit(model, names[Y])
        assert "there is 'high'" in str(error.value)
        found = audit(model, names[Y], class_names=tuple(names))
        assert auc(found) == pytest.approx(expected(model, np.arange(len(X))), abs=1e-12)


@pytest.mark.parametrize("classes", [np.array(["a", "b", "c"]), np.array([0, 1, 2])])
def test_a_class_of_nonmembers_alone_has_probability_zero_if_it_is_named(
    classes: np.ndarray,
) -> None:
    new = "d" if classes.dtype.kind == "U" else 7
    model = classifier(classes[Y])
    labels = classes[Y].astype(object)
    labels[-15:] = new
    with pytest.raises(DataError, match="leave its records out") as error:
        audit(model, labels)
    listed = re.search(r"class_names = (\[.*?\])", str(error.value))
    assert listed
    found = audit(model, labels, class_names=tuple(json.loads(listed[1])))
    p = model.predict_proba(X)
    true = np.where(np.arange(len(X)) < len(X) - 15, p[np.arange(len(X)), Y], 0)
    figure = roc_auc_score(np.arange(len(X)) < 90, true)
    assert auc(found) == pytest.approx(figure, abs=1e-12)
    kept = np.arange(len(X) - 15)
    assert auc(audit(model, labels, kept)) == pytest.approx(expected(model, kept), abs=1e-12)


@pytest.mark.slow
def test_shadows_of_a_model_with_a_class_of_nonmembers_alone() -> None:
    labels = np.array(["a", "b", "c"])[Y]
    labels[-15:] = "d"
    found = divulge.audit(
        classifier(labels),
        members=(X[IN], labels[IN]),
        nonmembers=(X[OUT], labels[OUT]),
        shadows=4,
        attacks=[divulge.attack("lira")],
        options=divulge.Options(class_names=tuple("abcd")),
    )
    assert found.findings[0].status == "done"


def test_functions_are_given_names_that_are_numbers() -> None:
    """Labels 1 to 3 of a function would be shifted in silence where 3 does not occur."""
    model = classifier(Y)
    rows = np.flatnonzero(Y != 2)
    found = audit(model.predict_proba, Y + 1, rows, class_names=("1", "2", "3"))
    assert auc(found) == pytest.approx(expected(model, rows), abs=1e-12)
    with pytest.raises(DataError, match="class_names"):
        audit(model.predict_proba, Y, class_names=("1", "2", "3"))


TWO = np.column_stack([Y, X[:, 0] > 13]).astype(int)
FLAGS = np.column_stack([Y == 1, X[:, 0] > 13]).astype(int)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (RandomForestClassifier(5), TWO),
        (RandomForestClassifier(5), FLAGS),
        (KNeighborsClassifier(), TWO),
        (MultiOutputClassifier(LogisticRegression(max_iter=50)), TWO),
        (MultiOutputClassifier(RidgeClassifier()), TWO),
        (ClassifierChain(LogisticRegression(max_iter=50)), FLAGS),
        (make_pipeline(RandomForestClassifier(5)), TWO),
        (OneVsRestClassifier(LogisticRegression(max_iter=50)), FLAGS),
        (make_pipeline(OneVsRestClassifier(LogisticRegression(max_iter=50))), FLAGS),
        (MLPClassifier(max_iter=5), FLAGS),
        (RidgeClassifier(), FLAGS),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_several_labels_a_record_are_refused(model: Any, y: np.ndarray) -> None:
    fitted = model.fit(X[IN], y[IN])
    for labels in (Y, y):
        with pytest.raises(DivulgeError, match=r"one label|one class number"):
            audit(fitted, labels)
    with pytest.raises(TargetError, match="audit each label by itself"):
        audit(fitted, Y)


def test_one_of_two_targets_is_audited_as_the_message_says() -> None:
    one = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    model = MultiOutputClassifier(one).fit(X[IN], TWO[IN])
    with pytest.raises(TargetError, match=r"lambda x: model.predict_proba\(x\)\[0\]"):
        audit(model, Y)
    p = model.predict_proba(X)[0]
    figure = roc_auc_score(np.arange(len(X)) < 90, p[np.arange(len(X)), Y])
    assert auc(audit(lambda x: model.predict_proba(x)[0], Y)) == pytest.approx(figure, abs=1e-12)


def test_regression_models_with_two_outputs_are_refused() -> None:
    model = RandomForestRegressor(5).fit(X[IN], TWO[IN])
    for y in (TWO.astype(float), TWO[:, 0].astype(float)):
        with pytest.raises(DivulgeError, match="audit each output by itself"):
            audit(model, y)


def test_shadows_are_trained_on_the_users_own_labels() -> None:
    """Of a model that calls its classes 0 and 1, as boosters do, whatever the labels were."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.where(x[:, 0] + rng.normal(size=200) > 0, "yes", "no")

    def train(records: np.ndarray, labels: np.ndarray, seed: int) -> Callable[[Any], Any]:
        assert set(labels.tolist()) == {"no", "yes"}
        tree = DecisionTreeClassifier(random_state=seed).fit(records, labels == "yes")
        return lambda asked: tree.predict_proba(asked)

    model = DecisionTreeClassifier(random_state=0).fit(x[:100], (y[:100] == "yes").astype(int))
    found = divulge.audit(
        model,
        members=(x[:100], y[:100]),
        nonmembers=(x[100:], y[100:]),
        shadows=divulge.ShadowModels(2, train=train),
        attacks=[divulge.attack("calibrated")],
        options=divulge.Options(class_names=["no", "yes"]),
    )
    assert found.findings[0].metrics["auc"].value == golden(0.7028)
