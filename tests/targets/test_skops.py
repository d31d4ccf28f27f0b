"""What scikit-learn's classifiers say from a .skops file, and which files are refused."""

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from divulge.errors import TargetError
from divulge.targets.files import open_target
from divulge.targets.sklearn import SklearnTarget

skops = pytest.importorskip("skops.io")

X = np.random.default_rng(0).normal(size=(120, 4))
Y = (X[:, 0] > 0) * 1 + (X[:, 1] > 0.5)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
NAMED = [("tree", TREE), ("bayes", GaussianNB())]

CLASSIFIERS = {
    "tree": TREE,
    "extra tree": ExtraTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(3, random_state=0),
    "extra trees": ExtraTreesClassifier(3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "boosting from zero": GradientBoostingClassifier(n_estimators=3, init="zero"),
    "histograms": HistGradientBoostingClassifier(max_iter=3),
    "AdaBoost": AdaBoostClassifier(TREE, n_estimators=3),
    "bagging": BaggingClassifier(TREE, n_estimators=3, max_features=0.5),
    "voting": VotingClassifier(NAMED, voting="soft"),
    "votes": VotingClassifier(NAMED),
    "stacking": StackingClassifier(NAMED, LogisticRegression(), cv=2),
    "calibration": CalibratedClassifierCV(TREE, cv=2),
    "one against the rest": OneVsRestClassifier(TREE),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)),
    "neighbours": KNeighborsClassifier(5, algorithm="kd_tree"),
    "neighbours in balls": KNeighborsClassifier(5, algorithm="ball_tree", metric="manhattan"),
    "all neighbours": KNeighborsClassifier(5, algorithm="brute"),
    "cubic distance": KNeighborsClassifier(5, p=3, weights="distance"),
    "radius": RadiusNeighborsClassifier(20.0),
    "perceptron": MLPClassifier((5,), max_iter=3, random_state=0),
    "perceptron by SGD": MLPClassifier((5,), solver="sgd", max_iter=3, random_state=0),
    "Gaussian process": GaussianProcessClassifier(),
    "vectors": SVC(),
    "line": LogisticRegression(),
}


def fit(model: Any, classes: int = 3) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations do not converge
        return clone(model).fit(X, np.minimum(Y, classes - 1))


def saved(model: Any, folder: Path) -> Path:
    skops.dump(model, folder / "model.skops")
    return folder / "model.skops"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_answers_as_before(name: str, classes: int, tmp_path: Path) -> None:
    model = fit(CLASSIFIERS[name], classes)
    found = open_target(saved(model, tmp_path)).predict(X)
    np.testing.assert_array_equal(found, SklearnTarget(model).predict(X))


def _in_trees(at: Callable[[Any], Any], field: str, value: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        state = at(model).__getstate__()
        state["nodes"][field][0] = value
        at(model).__setstate__(state)

    return change


def _in_nodes(field: str, value: int) -> Callable[[Any], None]:
    return lambda model: _first(model)[field].__setitem__(0, value)


def _first(model: Any) -> Any:
    """The first predictor's table of nodes."""
    return model._predictors[0][0].nodes


def _set(**changed: Any) -> Callable[[Any], None]:
    return lambda model: vars(model).update(changed)


def _replace_nodes(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    def apply(model: Any) -> None:
        model._predictors[0][0].nodes = change(_first(model))

    return apply


def _narrow(tree: Any = TREE) -> Any:
    """A tree that compares a column which narrower records lack."""
    wide = np.hstack([np.zeros((120, 4)), X])
    return type(tree)(max_depth=2).fit(wide, Y)


DAMAGED: dict[str, tuple[str, Callable[[Any], None]]] = {
    f"{name}: {field} {value}": (name, _in_trees(at, field, value))
    for name, at in {
        "tree": lambda m: m.tree_,
        "forest": lambda m: m.estimators_[1].tree_,
        "boosting": lambda m: m.estimators_[1, 2].tree_,
        "AdaBoost": lambda m: m.estimators_[0].tree_,
        "pipeline": lambda m: m[-1].estimators_[0].tree_,
        "calibration": lambda m: m.calibrated_classifiers_[0].estimator.tree_,
    }.items()
    for field, value in [
        ("left_child", 10**6), ("right_child", 0), ("right_child", -7), ("feature", 99),
        ("feature", -3),
    ]
} | {
    f"histograms: {field} {value}": ("histograms", _in_nodes(field, value))
    for field, value in [
        ("left", 10**6), ("left", 0), ("right", 2**32 - 1), ("feature_idx", 4), ("feature_idx", -1),
        ("is_categorical", 1),
    ]
} | {
    "tree: width": ("tree", _set(n_features_in_=3)),
    "tree: hidden check": ("tree", _set(_validate_X_predict=np.positive)),
    "forest: width": ("forest", _set(n_features_in_=3)),
    "forest: another width": ("forest", lambda m: m.estimators_.append(_narrow())),
    "forest: no tree": ("forest", _set(estimators_=[])),
    "forest: hidden check": ("forest", _set(_validate_X_predict=np.positive)),
    "boosting: another width": (
        "boosting", lambda m: m.estimators_.__setitem__((2, 1), _narrow(DecisionTreeRegressor()))
    ),
    "boosting: more trees than columns": (
        "boosting", lambda m: _set(estimators_=np.tile(m.estimators_, (1, 40)))(m)
    ),
    "boosting: fewer columns than trees": (
        "boosting", lambda m: _set(init_=DummyClassifier(strategy="prior").fit(X, Y * 0))(m)
    ),
    "boosting: begun by another model": ("boosting", lambda m: _set(init_=fit(GaussianNB()))(m)),
    "boosting: trees of classes": (
        "boosting",
        lambda m: m.estimators_.__setitem__((0, 0), DecisionTreeClassifier().fit(X, Y)),
    ),
    "histograms: width": ("histograms", _set(n_features_in_=3)),
    "histograms: binned": ("histograms", _set(_in_fit=True)),
    "histograms: no nodes": ("histograms", _replace_nodes(lambda nodes: nodes[:0])),
    "histograms: cut nodes": ("histograms", _replace_nodes(lambda nodes: nodes[:1])),
    "all neighbours: class": ("all neighbours", lambda m: m._y.__setitem__(0, 10**6)),
    "all neighbours: negative": ("all neighbours", lambda m: m._y.__setitem__(0, -(10**6))),
    "all neighbours: fewer": ("all neighbours", lambda m: _set(_y=m._y[:3])(m)),
    "neighbours: width": ("neighbours", _set(n_features_in_=3)),
    "neighbours: other records": ("neighbours", _set(_fit_X=X[:3].copy())),
    "votes: class": (
        "votes", lambda m: m.estimators_[0].classes_.__setitem__(2, 1_093_594_116)
    ),
    "vectors: width": ("vectors", _set(n_features_in_=3)),
    "vectors: coefficients": ("vectors", _set(_dual_coef_=np.ones((2, 1)))),
    "vectors: intercepts": ("vectors", _set(_intercept_=np.ones(1))),
    "vectors: another kind": ("vectors", _set(_impl="one_class")),
}  # fmt: skip
"""Changes that compiled code would follow, by the classifier that is changed."""


@pytest.mark.parametrize("damage", DAMAGED)
def test_numbers_that_lead_nowhere_are_refused(damage: str, tmp_path: Path) -> None:
    name, change = DAMAGED[damage]
    model = fit(CLASSIFIERS[name])
    change(model)
    with pytest.raises(TargetError, match=r"expected a sound sklearn\.\S+ in .*model\.skops"):
        open_target(saved(model, tmp_path))


def test_the_tree_of_neighbours_is_made_anew(tmp_path: Path) -> None:
    model = fit(KNeighborsClassifier(5, algorithm="kd_tree", leaf_size=5))
    before = SklearnTarget(model).predict(X)
    state = list(model._tree.__getstate__())
    state[1] = np.full_like(np.asarray(state[1]), 10**9)  # which records are in which leaf
    model._tree.__setstate__(tuple(state))
    np.testing.assert_array_equal(open_target(saved(model, tmp_path)).predict(X), before)


def test_nodes_without_an_axis_are_refused_before_they_are_followed(tmp_path: Path) -> None:
    whole = saved(fit(TREE), tmp_path)
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    one = io.BytesIO()
    (nodes,) = (name for name, content in members.items() if b"left_child" in content[:200])
    np.save(one, np.load(io.BytesIO(members[nodes]))[0])
    with zipfile.ZipFile(tmp_path / "one.skops", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, one.getvalue() if name == nodes else content)
    with pytest.raises(TargetError, match=r"expected arrays with axes .* got a single number"):
        open_target(tmp_path / "one.skops")


CUT: dict[str, tuple[Callable[[], Any], str]] = {
    "an isolation forest asks its trees without a check": (
        lambda: VotingClassifier([("a", fit(TREE)), ("b", IsolationForest(n_estimators=3).fit(X))]),
        r"got sklearn\.ensemble\._iforest\.IsolationForest",
    ),
    "a tree beside the model": (
        lambda: _beside(fit(GaussianNB()), fit(TREE).tree_),
        r"got it elsewhere",
    ),
    "a tree of neighbours beside the model": (
        lambda: _beside(fit(GaussianNB()), fit(CLASSIFIERS["neighbours"])._tree),
        r"got it elsewhere",
    ),
    "categories": (
        lambda: HistGradientBoostingClassifier(max_iter=2, categorical_features=[3]).fit(
            np.column_stack([X[:, :3], Y]), Y
        ),
        r"got functools\.partial",
    ),
    "a metric of another type": (
        lambda: KNeighborsClassifier(
            metric="seuclidean", algorithm="ball_tree", metric_params={"V": np.ones(4)}
        ).fit(X, Y),
        r"got sklearn\.metrics\._dist_metrics\.SEuclideanDistance64",
    ),
    "a metric with weights": (
        lambda: KNeighborsClassifier(
            algorithm="ball_tree", p=3, metric_params={"w": np.ones(4)}
        ).fit(X, Y),
        "another metric than",
    ),
    "sparse records": (
        lambda: KNeighborsClassifier().fit(csr_array(X), Y),
        r"got scipy\.sparse\._csr\.csr_array",
    ),
    "a kernel of its own": (
        lambda: SVC(kernel="precomputed").fit(X @ X.T, Y),
        "a kernel of its own",
    ),
}


def _beside(model: Any, part: Any) -> Any:
    model.extra = (np.array([part], dtype=object),)
    return model


@pytest.mark.parametrize("case", CUT)
def test_what_cannot_be_checked_is_refused_with_its_type_and_what_to_do(
    case: str, tmp_path: Path
) -> None:
    make, said = CUT[case]
    with pytest.raises(TargetError, match=said + r"[^:]*: if you trust it, load the file yourself"):
        open_target(saved(make(), tmp_path))
