"""Load scikit-learn classifiers from .skops files, and check what their compiled code follows.

skops rebuilds only types that it trusts or is told to trust, and runs nothing else. But a trusted
type may hold numbers that compiled code follows without looking, such as the child nodes of a tree:
a made-up file could read foreign memory, write to it, or walk in a circle for ever. So the types
that divulge trusts beyond skops are listed here, and whatever is followed is checked, or made anew.
"""

import gc
import types
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from divulge._util import arrays, untrusted
from divulge._util.extras import name_missing_extra
from divulge._util.json import parse_json
from divulge.core import Target
from divulge.errors import TargetError
from divulge.targets.batching import translate_model_errors
from divulge.targets.outputs import MOST_CLASSES
from divulge.targets.sklearn import wrap_estimator

PLAIN: Final = frozenset(
    {
        "builtins.object",
        "numpy.number",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "sklearn.gaussian_process.kernels.ConstantKernel",
        "sklearn.gaussian_process.kernels.DotProduct",
        "sklearn.gaussian_process.kernels.Matern",
        "sklearn.gaussian_process.kernels.Product",
        "sklearn.gaussian_process.kernels.RBF",
        "sklearn.gaussian_process.kernels.RationalQuadratic",
        "sklearn.gaussian_process.kernels.Sum",
        "sklearn.gaussian_process.kernels.WhiteKernel",
        "sklearn.multiclass._ConstantPredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._bunch.Bunch",
    }
)
"""Types written in Python that hold numbers, arrays and other parts of the model, and no more."""

SCORES: Final = frozenset(
    {
        f"sklearn.feature_selection._{name}"
        for name in (
            "mutual_info.mutual_info_classif",
            "mutual_info.mutual_info_regression",
            "univariate_selection.chi2",
            "univariate_selection.f_classif",
            "univariate_selection.f_regression",
        )
    }
)
"""Functions of features and labels that selectors of features keep from their fitting."""

DTYPE: Final = "numpy.dtype"
"""The type of an array that imputers keep; only `_is_plain` ones are taken."""

FOLLOWED: Final = frozenset(
    {
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.ChebyshevDistance64",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._dist_metrics.ManhattanDistance64",
        "sklearn.metrics._dist_metrics.MinkowskiDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.tree._tree.Tree",
    }
)
"""Types whose numbers compiled code follows; each has to stand where one of the rules checks it."""

_INSTEAD = "if you trust it, load the file yourself and pass the model, or save the model as .onnx"


def load_skops(path: Path) -> Target:
    """The classifier or regression model in a .skops file.

    Raises:
        TargetError: it holds a type that nobody here trusts, is damaged, or is no model.
        MissingExtra: skops is not installed.
    """
    with name_missing_extra():
        import skops.io
    with translate_model_errors(f"{path} to be a skops file", "save it again with skops.io.dump"):
        _check_archive(path)
        kinds = skops.io.get_untrusted_types(file=path)
        if unknown := sorted(set(kinds) - PLAIN - SCORES - FOLLOWED - {DTYPE}):
            raise TargetError(
                f"expected types that skops or divulge trusts, got {', '.join(unknown)} in {path}: "
                + _INSTEAD
            )
        model = skops.io.load(path, trusted=kinds)
        _check_model(model, path)
        return wrap_estimator(model)


def _check_archive(path: Path) -> None:
    """Refuse arrays that a loader, which is compiled too, would trip over before any other check.

    Memory is taken for as many numbers as a header promises. scikit-learn's tree asks for the
    length of its nodes before it asks whether they have one: none may be a single number.
    """
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        untrusted.check_size(
            size, untrusted.MAX_DATA_BYTES, f"a model that {path} unpacks to", TargetError
        )
        shapes: dict[Any, tuple[int, ...]] = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                if member.read(6) == np.lib.format.MAGIC_PREFIX:
                    member.seek(0)
                    shapes[info.filename], _ = arrays.read_header(member, info.file_size)
        entries = list(_entries(parse_json(archive.read("schema.json"))))
    _check_dtypes(entries, path)
    if not any({"Tree", "TreeNode"} & {e.get("__class__"), e.get("__loader__")} for e in entries):
        return
    for entry in entries:
        masked = entry.get("__loader__") == "MaskedArrayNode"
        if masked or (entry.get("__class__") == "ndarray" and shapes.get(entry.get("file")) == ()):
            raise TargetError(
                f"expected arrays with axes beside trees in {path}, got a "
                f"{'masked array' if masked else 'single number'}: {_INSTEAD}"
            )


def _check_dtypes(entries: Iterable[dict[str, Any]], path: Path) -> None:
    """Refuse a type of arrays that is made in another way than by reading an empty array of it.

    Other loaders of skops call what they load, or give it attributes.
    """
    for entry in entries:
        named = f"{entry.get('__module__')}.{entry.get('__class__')}"
        if DTYPE not in (named, f"numpy.{entry.get('__class__')}") and (
            entry.get("__loader__") != "DTypeNode"
        ):
            continue
        content = entry.get("content")
        if (
            (named, entry.get("__loader__")) != (DTYPE, "DTypeNode")
            or not isinstance(content, dict)
            or content.get("__loader__") != "NdArrayNode"
            or (content.get("__module__"), content.get("__class__")) != ("numpy", "ndarray")
        ):
            raise TargetError(
                f"expected {DTYPE} as skops writes it in {path}, got it in another way: {_INSTEAD}"
            )


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type hold numbers, truth values or references, and are no larger."""
    return dtype.kind in "biufO" and dtype.names is None and dtype.metadata is None


def _entries(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, with what it holds."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


class _NoRule(Exception):
    """An estimator makes use of something that is not checked here."""


class Rule(NamedTuple):
    """How a kind of estimator is checked."""

    fitted: str
    """What fitting gives it, and without which it cannot answer; models keep such templates."""
    follow: Callable[[Any], Iterable[Any] | None]
    """The parts of it that compiled code may follow now, or None if it is not sound."""


def _check_model(model: Any, path: Path) -> None:
    """Refuse a model that compiled code cannot follow safely."""
    rules = _rules()
    checked: list[Any] = []
    for part in list(_walk(model)):
        if isinstance(part, np.dtype) and not _is_plain(part):
            raise TargetError(
                f"expected types of numbers, truth values or objects in {path}, got "
                f"{str(part)[:80]}: {_INSTEAD}"
            )
        if type(part) not in rules and _may_hold_trees(part):
            raise TargetError(
                f"expected estimators whose parts can be checked, got {_name(part)} in {path}: "
                + _INSTEAD
            )
        try:
            followed = _follow(part, rules.get(type(part)))
        except _NoRule as error:
            raise TargetError(
                f"expected {_name(part)} with what can be checked, got {error} in {path}: "
                + _INSTEAD
            ) from None
        except (AttributeError, TypeError, ValueError, LookupError):
            followed = None  # something else stands where the rule looks
        if followed is None:
            raise TargetError(
                f"expected a sound {_name(part)} in {path}, got one whose numbers lead nowhere or "
                "do not fit each other: save the model again with skops.io.dump"
            )
        checked += followed
    known = set(map(id, checked))
    for part in _walk(model):
        if _name(part) in FOLLOWED and id(part) not in known:
            raise TargetError(
                f"expected {_name(part)} as part of an estimator that can be checked, got it "
                f"elsewhere in {path}: {_INSTEAD}"
            )


def _follow(part: Any, rule: Rule | None) -> Iterable[Any] | None:
    if _hides_attributes(part) or _has_endless_classes(part):
        return None
    return () if rule is None or not hasattr(part, rule.fitted) else rule.follow(part)


def _walk(model: Any) -> Iterator[Any]:
    """Everything that a model holds, itself included, each once."""
    seen, waiting = {id(model)}, [model]
    while waiting:
        part = waiting.pop()
        yield part
        held = gc.get_referents(part)
        if isinstance(part, np.ndarray) and part.dtype.hasobject:
            held += part.ravel().tolist()
        for one in held:
            if id(one) not in seen and not isinstance(one, _SHARED):
                seen.add(id(one))
                waiting.append(one)


_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
"""What a model refers to and does not hold."""


def _name(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _hides_attributes(part: Any) -> bool:
    """Whether a part of scikit-learn has values of its own instead of its class's methods."""
    if not type(part).__module__.startswith("sklearn."):
        return False
    return not getattr(part, "__dict__", {}).keys().isdisjoint(dir(type(part)))


def _has_endless_classes(part: Any) -> bool:
    """Whether votes would be counted in an array that is as long as the number of a class."""
    classes = getattr(part, "__dict__", {}).get("classes_")
    if not isinstance(classes, np.ndarray) or classes.dtype.kind not in "iu":
        return False
    return bool((np.abs(classes) >= MOST_CLASSES).any())


def _may_hold_trees(part: Any) -> bool:
    """Whether this is an estimator of a module whose estimators may ask trees without a check."""
    from sklearn.base import BaseEstimator

    homes = ("sklearn.ensemble.", "sklearn.tree.")
    return isinstance(part, BaseEstimator) and type(part).__module__.startswith(homes)


def _rules() -> dict[type, Rule | None]:
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
    if _name(tree) != "sklearn.tree._tree.Tree" or not 0 < tree.node_count <= tree.capacity:
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
        all(((number < one[branch]) & (one[branch] < nodes)).all() for one in children)
        and ((feature[branch] >= 0) & (feature[branch] < width)).all()
    )


def _check_forest(model: Any) -> Iterable[Any] | None:
    """Trees of a forest do not look how wide records are; the forest does."""
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    kinds, width = (DecisionTreeClassifier, ExtraTreeClassifier), model.n_features_in_
    parts = model.estimators_
    sound = type(parts) is list and len(parts) > 0
    sound = sound and all(type(one) in kinds and one.n_features_in_ == width for one in parts)
    return () if sound else None


def _check_boosting(model: Any) -> Iterable[Any] | None:
    """The compiled loop adds the first value of a node to the column of its tree."""
    from sklearn.dummy import DummyClassifier
    from sklearn.tree import DecisionTreeRegressor

    parts, width = model.estimators_, model.n_features_in_
    sound = type(parts) is np.ndarray and parts.ndim == 2 and parts.size > 0
    sound = sound and all(
        type(one) is DecisionTreeRegressor
        and one.n_features_in_ == width
        and one.tree_.value.shape[1:] == (1, 1)
        for one in parts.ravel()
    )
    if not sound or (type(model.init_) is not DummyClassifier and model.init_ != "zero"):
        return None
    begun = model._raw_predict_init(np.zeros((1, width), np.float32))
    return () if begun.shape == (1, parts.shape[1]) else None


def _check_histogram_boosting(model: Any) -> Iterable[Any] | None:
    """Each predictor is a table of nodes; categories would be looked up in further tables."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    parts = [one for stage in model._predictors for one in stage]
    if (
        model._preprocessor is not None  # it would renumber categories
        or np.any(model._bin_mapper.is_categorical_)
        or getattr(model, "_in_fit", False)  # records would count as binned
        or type(model.n_features_in_) is not int
    ):
        return None
    for nodes in (one.nodes for one in parts):
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
        raise _NoRule("another metric than euclidean, manhattan, chebyshev or plain minkowski")
    kind = {"kd_tree": KDTree, "ball_tree": BallTree}[model._fit_method]
    model._tree = kind(x, model.leaf_size, metric=metric, **settings)
    return list(_walk(model._tree))


def _check_support_vectors(model: Any) -> Iterable[Any] | None:
    """The library gets pointers, and takes the sizes of one array from those of others."""
    if model.kernel not in ("linear", "poly", "rbf", "sigmoid"):
        raise _NoRule("a kernel of its own")
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
