"""What scikit-learn's classifiers say from a .skops file, and which files are refused."""

import io
import json
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
from sklearn.compose import make_column_selector, make_column_transformer
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
from sklearn.feature_selection import SelectKBest, f_classif, mutual_info_classif
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from divulge.errors import TargetError
from divulge.targets.files import open_target
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.skops import load_skops

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
    "imputer": make_pipeline(SimpleImputer(), LogisticRegression()),
    "imputer with flags": make_pipeline(
        SimpleImputer(strategy="constant", fill_value=0, add_indicator=True), LogisticRegression()
    ),
    "imputer and flags": make_pipeline(
        make_union(SimpleImputer(strategy="median"), MissingIndicator(features="all")),
        LogisticRegression(),
    ),
    "imputer of neighbours": make_pipeline(KNNImputer(), LogisticRegression()),
    "numbers of categories": make_pipeline(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), LogisticRegression()
    ),
    "bins": make_pipeline(KBinsDiscretizer(3), LogisticRegression()),
    "small bins": make_pipeline(KBinsDiscretizer(3, dtype=np.float32), LogisticRegression()),
    "means of categories": make_pipeline(TargetEncoder(cv=2), LogisticRegression()),
    "best columns": make_pipeline(SelectKBest(f_classif, k=2), LogisticRegression()),
    "informative columns": make_pipeline(
        SelectKBest(mutual_info_classif, k=2), LogisticRegression()
    ),
    "columns": make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
            (make_pipeline(SimpleImputer(strategy="most_frequent"), KBinsDiscretizer(3)), [2, 3]),
        ),
        RandomForestClassifier(3, random_state=0),
    ),
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


def test_a_pipeline_for_texts_and_gaps_answers_as_before(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({
        "age": np.where(X[:, 0] > 1, np.nan, X[:, 0]),
        "size": X[:, 1],
        "work": np.array(["office", "field", np.nan], dtype=object)[Y],
    })  # fmt: skip
    frame["work"] = frame["work"].astype(object)  # pandas has a type of its own for texts
    columns = make_column_transformer(
        (SimpleImputer(), make_column_selector(dtype_include=np.number)),
        (
            make_pipeline(SimpleImputer(strategy="most_frequent"),
                          OneHotEncoder(handle_unknown="ignore")),
            make_column_selector(dtype_include=object),
        ),
    )  # fmt: skip
    model = make_pipeline(columns, RandomForestClassifier(3, random_state=0)).fit(frame, Y)
    path = saved(model, tmp_path)
    loaded = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    open_target(path)


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None], nodes: bytes = b"") -> None:
    """Change each type of arrays in the schema, and perhaps the empty arrays."""

    def visit(entry: Any) -> None:
        if isinstance(entry, dict):
            for one in list(entry.values()):
                visit(one)
            if entry.get("__class__") == "dtype":
                if nodes:
                    members[entry["content"]["file"]] = nodes
                change(entry)
        elif isinstance(entry, list):
            for one in entry:
                visit(one)

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    visit(schema)
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _of(dtype: Any) -> bytes:
    raw = io.BytesIO()
    np.save(raw, np.zeros(0, dtype))
    return raw.getvalue()


def _text(value: str) -> dict[str, Any]:
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode",
            "content": json.dumps(value), "is_json": True}  # fmt: skip


HOSTILE_TYPES: dict[str, Callable[[dict[str, Any]], None]] = {
    "an object": lambda e: e.update(__loader__="ObjectNode", content=_text("x")),
    "a function": lambda e: e.update(__loader__="FunctionNode", content="dtype"),
    "a method": lambda e: e.update(
        __loader__="MethodNode", content={"func": "newbyteorder", "obj": _text("x")}
    ),
    "a type": lambda e: e.update(__loader__="TypeNode"),
    "a partial call": lambda e: e.update(__loader__="PartialNode", content={}),
    "another home": lambda e: e.update(__module__="os", __class__="dtype"),
    "another name": lambda e: e.update(__module__="os", __class__="system"),
    "the type of an estimator": lambda e: e["content"].update(
        __loader__="ObjectNode", __module__="sklearn.naive_bayes", __class__="GaussianNB"
    ),
    "the type of another array": lambda e: e["content"].update(__class__="matrix"),
    "no array": lambda e: e.update(content=None),
}


@pytest.mark.parametrize("case", HOSTILE_TYPES)
def test_a_type_of_arrays_is_made_in_one_way_only(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(fit(CLASSIFIERS["imputer"]), tmp_path)
    _rewrite(path, HOSTILE_TYPES[case])

    def load(*_: object, **__: object) -> None:
        raise AssertionError("the file was loaded")

    monkeypatch.setattr(skops, "load", load)
    with pytest.raises(TargetError, match=r"numpy\.dtype as skops writes it"):
        load_skops(path)


@pytest.mark.parametrize(
    "dtype", ["U100000000", "S100000000", "M8[s]", "m8[D]", "c16", [("a", "f8"), ("b", "i4")]]
)
def test_types_of_arrays_that_are_not_plain_are_refused(dtype: Any, tmp_path: Path) -> None:
    path = saved(fit(CLASSIFIERS["imputer"]), tmp_path)
    _rewrite(path, lambda _: None, _of(dtype))
    with pytest.raises(TargetError, match="expected types of numbers, truth values or objects"):
        load_skops(path)
