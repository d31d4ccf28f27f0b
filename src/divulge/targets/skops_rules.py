"""Rules by which the numbers that compiled code follows are checked, by kind of estimator.

Such a loop reads memory at the place that a number names, and asks nobody whether that is its own.
"""

import gc
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np


class NoRule(Exception):
    """An estimator makes use of something that is not checked here."""


class Rule(NamedTuple):
    """How a kind of estimator is checked."""

    fitted: str
    """What fitting gives it, and without which it cannot answer; models keep such templates."""
    follow: Callable[[Any], Iterable[Any] | None]
    """The parts of it that compiled code may follow now, or None if it is not sound."""


def walk(model: Any) -> Iterator[Any]:
    """Everything that a model holds, itself included, each once."""
    visited, waiting = {id(model)}, [model]
    while waiting:
        part = waiting.pop()
        yield part
        inner = gc.get_referents(part)
        if isinstance(part, np.ndarray) and part.dtype.hasobject:
            inner += part.ravel().tolist()
        for child in inner:
            if id(child) not in visited and not isinstance(child, _SHARED):
                visited.add(id(child))
                waiting.append(child)


_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
"""What a model refers to and does not hold."""


def type_name(part: Any) -> str:
    """The address of the type of a part."""
    return f"{type(part).__module__}.{type(part).__qualname__}"


def estimator_rules() -> dict[type, Rule | None]:
    """By type; None for estimators that ask their parts by public methods, which check."""
    from sklearn import ensemble, neighbors, svm, tree
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

    return {
        ensemble.AdaBoostClassifier: None,
        ensemble.BaggingClassifier: None,
        ensemble.StackingClassifier: None,
        ensemble.VotingClassifier: None,
        _BinMapper: None,
        tree.DecisionTreeClassifier: Rule("tree_", _check_tree),
        tree.DecisionTreeRegressor: Rule("tree_", _check_tree),
        tree.ExtraTreeClassifier: Rule("tree_", _check_tree),
        ensemble.RandomForestClassifier: Rule("estimators_", _check_forest),
        ensemble.ExtraTreesClassifier: Rule("estimators_", _check_forest),
        ensemble.GradientBoostingClassifier: Rule("estimators_", _check_boosting),
        ensemble.HistGradientBoostingClassifier: Rule("_predictors", _check_histogram_boosting),
        neighbors.KNeighborsClassifier: Rule("_fit_X", _check_neighbours),
        neighbors.RadiusNeighborsClassifier: Rule("_fit_X", _check_neighbours),
        svm.SVC: Rule("support_vectors_", _check_support_vectors),
        svm.NuSVC: Rule("support_vectors_", _check_support_vectors),
    }


def _check_tree(model: Any) -> Iterable[Any] | None:
    tree, width = model.tree_, model.n_features_in_
    if type_name(tree) != "sklearn.tree._tree.Tree" or not 0 < tree.node_count <= tree.capacity:
        return None
    branch = tree.children_left != -1
    children = (tree.children_left, tree.children_right)
    sound = tree.n_features == width and _lead_on(branch, children, tree.feature, width)
    return [tree] if sound else None


def _lead_on(
    branch: np.ndarray, children: Iterable[np.ndarray], feature: np.ndarray, width: int
) -> bool:
    """Whether each branch leads to later nodes, and compares a feature that records have."""
    number, nodes = np.arange(len(branch))[branch], len(branch)
    return bool(
        # only onwards: a child before its parent would let a record walk in a circle
        all(((number < child[branch]) & (child[branch] < nodes)).all() for child in children)
        and ((feature[branch] >= 0) & (feature[branch] < width)).all()
    )


def _check_forest(model: Any) -> Iterable[Any] | None:
    """Trees of a forest do not look how wide records are; the forest does."""
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    kinds, width = (DecisionTreeClassifier, ExtraTreeClassifier), model.n_features_in_
    parts = model.estimators_
    sound = type(parts) is list and len(parts) > 0
    sound = sound and all(type(tree) in kinds and tree.n_features_in_ == width for tree in parts)
    return () if sound else None


def _check_boosting(model: Any) -> Iterable[Any] | None:
    """The compiled loop adds the first value of a node to the column of its tree."""
    from sklearn.dummy import DummyClassifier
    from sklearn.tree import DecisionTreeRegressor

    parts, width = model.estimators_, model.n_features_in_
    sound = type(parts) is np.ndarray and parts.ndim == 2 and parts.size > 0
    sound = sound and all(
        type(stage) is DecisionTreeRegressor
        and stage.n_features_in_ == width
        and stage.tree_.value.shape[1:] == (1, 1)
        for stage in parts.ravel()
    )
    if not sound or (type(model.init_) is not DummyClassifier and model.init_ != "zero"):
        return None
    begun = model._raw_predict_init(np.zeros((1, width), np.float32))
    return () if begun.shape == (1, parts.shape[1]) else None


def _check_histogram_boosting(model: Any) -> Iterable[Any] | None:
    """Each predictor is a table of nodes; categories would be looked up in further tables."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    parts = [part for stage in model._predictors for part in stage]
    if (
        model._preprocessor is not None  # it would renumber categories
        or np.any(model._bin_mapper.is_categorical_)
        or getattr(model, "_in_fit", False)  # records would count as binned
        or type(model.n_features_in_) is not int
    ):
        return None
    for nodes in (part.nodes for part in parts):
        if type(nodes) is not np.ndarray or nodes.dtype != PREDICTOR_RECORD_DTYPE or not nodes.size:
            return None
        branch = nodes["is_leaf"] == 0
        children = (nodes["left"], nodes["right"])
        if nodes["is_categorical"][branch].any() or not _lead_on(
            branch, children, nodes["feature_idx"], model.n_features_in_
        ):
            return None
    return parts


def _check_neighbours(model: Any) -> Iterable[Any] | None:
    """Make the tree anew from the records that it was made from: that takes seconds at most."""
    from sklearn.neighbors import BallTree, KDTree

    x, y, classes = model._fit_X, model._y, model.classes_
    if (
        type(x) is not np.ndarray
        or x.shape != (model.n_samples_fit_, model.n_features_in_)
        or not isinstance(classes, np.ndarray)
        or y.shape != x.shape[:1]
        or not ((y >= 0) & (y < len(classes))).all()
    ):
        return None
    if model._fit_method == "brute" and model._tree is None:
        return ()
    metric, settings = model.effective_metric_, model.effective_metric_params_
    if metric not in ("euclidean", "manhattan", "chebyshev", "minkowski") or (
        settings.keys() - {"p", "w"} or settings.get("w") is not None
    ):
        raise NoRule("another metric than euclidean, manhattan, chebyshev or plain minkowski")
    kind = {"kd_tree": KDTree, "ball_tree": BallTree}[model._fit_method]
    model._tree = kind(x, model.leaf_size, metric=metric, **settings)
    return list(walk(model._tree))


def _check_support_vectors(model: Any) -> Iterable[Any] | None:
    """The library gets pointers, and takes the sizes of one array from those of others."""
    if model.kernel not in ("linear", "poly", "rbf", "sigmoid"):
        raise NoRule("a kernel of its own")
    classes, count = len(model.classes_), model._n_support
    vectors, pairs = int(count.sum()), classes * (classes - 1) // 2
    shapes = {
        "support_vectors_": (vectors, model.n_features_in_),
        "support_": (vectors,),
        "_n_support": (classes,),
        "_dual_coef_": (classes - 1, vectors),
        "_intercept_": (pairs,),
    }
    sound = all(getattr(model, name).shape == shape for name, shape in shapes.items())
    sound = (
        sound
        and not model._sparse
        and (count >= 0).all()
        and {model._probA.size, model._probB.size} <= {0, pairs}
    )
    return () if sound else None
