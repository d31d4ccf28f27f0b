"""Load scikit-learn classifiers from .skops files, and check what their compiled code follows.

skops rebuilds only types that it trusts or is told to trust, and runs nothing else. But a trusted
type may hold numbers that compiled code follows without looking, such as the child nodes of a tree:
a made-up file could read foreign memory, write to it, or walk in a circle for ever. So the types
that divulge trusts beyond skops are listed here, and whatever is followed is checked, or made anew.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from divulge._util.extras import name_missing_extra
from divulge.core import Target
from divulge.errors import TargetError
from divulge.targets.batching import translate_model_errors
from divulge.targets.outputs import MOST_CLASSES
from divulge.targets.sklearn import wrap_estimator
from divulge.targets.skops_archive import DTYPE, INSTEAD, check_archive
from divulge.targets.skops_rules import NoRule, Rule, estimator_rules, type_name, walk

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


def load_skops(path: Path) -> Target:
    """The classifier or regression model in a .skops file.

    Raises:
        TargetError: it holds a type that nobody here trusts, is damaged, or is no model.
        MissingExtra: skops is not installed.
    """
    with name_missing_extra():
        import skops.io
    with translate_model_errors(f"{path} to be a skops file", "save it again with skops.io.dump"):
        check_archive(path)
        kinds = skops.io.get_untrusted_types(file=path)
        if unknown := sorted(set(kinds) - PLAIN - SCORES - FOLLOWED - {DTYPE}):
            raise TargetError(
                f"expected types that skops or divulge trusts, got {', '.join(unknown)} in {path}: "
                + INSTEAD
            )
        model = skops.io.load(path, trusted=kinds)
        _check_model(model, path)
        return wrap_estimator(model)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type hold numbers, truth values or references, and are no larger."""
    return dtype.kind in "biufO" and dtype.names is None and dtype.metadata is None


def _check_model(model: Any, path: Path) -> None:
    """Refuse a model that compiled code cannot follow safely."""
    rules = estimator_rules()
    checked: list[Any] = []
    for part in list(walk(model)):
        if isinstance(part, np.dtype) and not _is_plain(part):
            raise TargetError(
                f"expected types of numbers, truth values or objects in {path}, got "
                f"{str(part)[:80]}: {INSTEAD}"
            )
        if type(part) not in rules and _may_hold_trees(part):
            raise TargetError(
                f"expected estimators whose parts can be checked, got {type_name(part)} in {path}: "
                + INSTEAD
            )
        try:
            followed = _follow(part, rules.get(type(part)))
        except NoRule as error:
            raise TargetError(
                f"expected {type_name(part)} with what can be checked, got {error} in {path}: "
                + INSTEAD
            ) from None
        except (AttributeError, TypeError, ValueError, LookupError):
            followed = None  # something else stands where the rule looks
        if followed is None:
            raise TargetError(
                f"expected a sound {type_name(part)} in {path}, got one whose numbers lead nowhere "
                "or do not fit each other: save the model again with skops.io.dump"
            )
        checked += followed
    known = set(map(id, checked))
    for part in walk(model):
        if type_name(part) in FOLLOWED and id(part) not in known:
            raise TargetError(
                f"expected {type_name(part)} as part of an estimator that can be checked, got it "
                f"elsewhere in {path}: {INSTEAD}"
            )


def _follow(part: Any, rule: Rule | None) -> Iterable[Any] | None:
    if _hides_attributes(part) or _has_endless_classes(part):
        return None
    return () if rule is None or not hasattr(part, rule.fitted) else rule.follow(part)


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
