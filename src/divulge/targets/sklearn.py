"""Query fitted scikit-learn models, and others that follow the same conventions."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge._util.arguments import check_arguments
from divulge.core import Need, Target
from divulge.data.class_keys import find_places, own_numbers
from divulge.errors import TargetError
from divulge.targets.batching import count_rows, translate_model_errors, unlock
from divulge.targets.outputs import (
    MOST_CLASSES,
    Output,
    access_of,
    to_answers,
    to_probabilities,
)

_ONE_LABEL = (
    "audit each label by itself, with its column of y, by a function such as "
    "lambda x: model.predict_proba(x)[0] where there is a list of answers, or "
    "lambda x: model.predict_proba(x)[:, 0] where there is a column for each label; pass the "
    "label's classes as class_names where they are not 0, 1, 2..."
)
"""What to do about a classifier that gives each record several labels."""


@check_arguments
@dataclass(frozen=True, slots=True)
class SklearnTarget:
    """A fitted classifier; one without ``predict_proba`` offers labels only.

    Columns follow ``classes_``: whole numbers from zero up, floats included, are their own columns,
    so that a class missing from the training set leaves an empty column; other classes count by
    position.

    Args:
        estimator: the classifier.
        labels: all labels in the order of columns, where the classifier may not know them all.

    Raises:
        TargetError: the estimator is not a fitted classifier with two or more classes, or gives
            each record several labels.
    """

    estimator: Any
    labels: tuple[Any, ...] = ()

    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        classes = getattr(self.estimator, "classes_", None)
        if classes is None:
            raise TargetError(
                f"expected a fitted classifier, got {type(self.estimator).__name__} without "
                "classes_: fit it first, or wrap a function that returns probabilities"
            )
        _refuse_several_targets(self.estimator)
        if np.ndim(classes) != 1 or len(classes) < 2:
            raise TargetError(
                f"expected a classifier with two or more classes, got classes_ = {classes}: fit it "
                "on records of several classes"
            )
        self._columns()

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of(self._output)

    def predict(self, x: Any) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64, one-hot if the classifier has none.

        Args:
            x: the records in whatever the classifier takes; arrays are flattened.

        Raises:
            TargetError: the classifier failed, or its answers do not fit its ``classes_``.
        """
        soft = self._output == "probabilities"
        ask = self.estimator.predict_proba if soft else self.estimator.predict
        raw = _ask(self.estimator, ask, x)
        codes = raw if soft else self._positions(raw)
        classes = np.asarray(self.estimator.classes_)
        answers = to_probabilities(codes, self._output, count_rows(x), len(classes))
        if answers.shape[1] != len(classes):
            raise TargetError(
                f"expected {len(classes)} columns, one for each of classes_, got "
                f"{answers.shape[1]}: wrap a function that returns probabilities instead"
            )
        columns = self._columns()
        placed = np.zeros((len(answers), max(columns.max() + 1, len(self.labels))))
        placed[:, columns] = answers
        return placed

    @property
    def _output(self) -> Output:
        return "probabilities" if hasattr(self.estimator, "predict_proba") else "labels"

    def _columns(self) -> Int[np.ndarray, " classes"]:
        classes = np.asarray(self.estimator.classes_).tolist()
        if self.labels:
            try:
                places = find_places(classes, self.labels)
            except TypeError as error:
                raise TargetError(
                    f"expected labels that can be looked up, got {error}: pass texts or numbers"
                ) from error
            if len(places) < len(classes):
                raise TargetError(
                    f"expected classes_ among {', '.join(map(str, self.labels[:10]))}, got others: "
                    "fit the classifier on the labels of the records"
                )
            return np.array([places[label] for label in classes])
        numbers = own_numbers(classes)
        if numbers is None:
            return np.arange(len(classes))
        if max(numbers) >= MOST_CLASSES:
            raise TargetError(
                f"expected class numbers below {MOST_CLASSES}, got {max(numbers)}: encode "
                "the classes as 0, 1, 2... before fitting"
            )
        return np.array(numbers, dtype=np.int64)

    def _positions(self, labels: Shaped[np.ndarray, "..."]) -> Int[np.ndarray, " records"]:
        known = labels.reshape(-1, 1) == np.asarray(self.estimator.classes_)
        if not known.any(axis=1).all():
            raise TargetError(
                "expected predictions among classes_, got others: fit the classifier again"
            )
        return np.asarray(known.argmax(axis=1))


@check_arguments
@dataclass(frozen=True, slots=True)
class SklearnRegressor:
    """A fitted regression model, which answers one number for each record.

    Raises:
        TargetError: the estimator is not fitted.
    """

    estimator: Any

    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        try:
            check_is_fitted(self.estimator)
        except (NotFittedError, TypeError, ValueError) as error:
            raise TargetError(
                f"expected a fitted model, got {type(self.estimator).__name__} that is not: fit it "
                "first"
            ) from error

    @property
    def offers(self) -> Need:
        """What its answers allow."""
        return access_of("values")

    def predict(self, x: Any) -> Float[np.ndarray, "records 1"]:
        """The number that it answers for each record, in float64.

        Args:
            x: the records in whatever the model takes; arrays are flattened.

        Raises:
            TargetError: the model failed, or answers several numbers for a record.
        """
        return to_answers(_ask(self.estimator, self.estimator.predict, x), "values", count_rows(x))


def is_regressor(model: object) -> bool:
    """Whether a model is a scikit-learn estimator for regression, fitted or not."""
    base = sys.modules.get("sklearn.base")
    if base is None or not isinstance(model, base.BaseEstimator):
        return False
    return not hasattr(model, "classes_") and bool(base.is_regressor(model))


def wrap_estimator(estimator: Any, labels: tuple[Any, ...] = ()) -> Target:
    """The target behind a fitted classifier or regression model.

    Args:
        estimator: the model.
        labels: of a classifier, see `SklearnTarget`.

    Raises:
        TargetError: the estimator is neither.
    """
    if is_regressor(estimator):
        return SklearnRegressor(estimator)
    return SklearnTarget(estimator, labels)


def _refuse_several_targets(estimator: Any) -> None:
    """Refuse a classifier that gives each record several labels.

    Raises:
        TargetError: it does; says how to audit one of its labels.
    """
    listed = any(np.ndim(classes) > 0 for classes in estimator.classes_)
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    kind = str(getattr(getattr(last, "_label_binarizer", None), "y_type_", ""))
    if not listed and not getattr(last, "multilabel_", False) and "multilabel" not in kind:
        return
    several = "several labels a record"
    if listed:
        several = f"{len(estimator.classes_)} labels a record, with classes_ = " + ", ".join(
            str(np.asarray(classes).tolist()) for classes in list(estimator.classes_)[:3]
        )
    raise TargetError(f"expected a classifier of one label, got one of {several}: {_ONE_LABEL}")


def _ask(estimator: Any, ask: Callable[[Any], Any], x: Any) -> Shaped[np.ndarray, "..."]:
    """What a method of the estimator says of these records.

    Arrays are flattened, and frames get their columns in the order of the fit.
    """
    arranged = x = unlock(x) if "torch" in sys.modules else x  # it may hold a network
    fitted = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    if isinstance(x, np.ndarray):
        arranged = x.reshape(len(x), -1) if x.ndim > 2 else x
    elif fitted and sorted(fitted) == sorted(map(str, getattr(x, "columns", ()))):
        arranged = x[fitted]
    kind = "model" if is_regressor(estimator) else "classifier"
    with (
        translate_model_errors(f"the {kind} to answer", "ask it about a few records yourself"),
        warnings.catch_warnings(),
    ):
        # An audit holds arrays, also when the model was fitted on named columns.
        warnings.filterwarnings("ignore", "X (does not have valid|has) feature names")
        return np.asarray(ask(arranged))
