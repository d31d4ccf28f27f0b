"""The targets of a bench: models of scikit-learn on its own data, each trained in a second or two.

They are small and over-fitted, so that attacks differ. They stand for no model in use.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from divulge._util.random import stream
from divulge.core import Records
from divulge.data import bundled


class BenchTarget(NamedTuple):
    """How one target is made."""

    data: Callable[[], Records]
    estimator: Callable[[], Any]
    about: str
    """The model and the data, in words."""


class BenchModel(NamedTuple):
    """A trained target with its records; a fair coin decided for each candidate."""

    model: Any
    members: tuple[np.ndarray, np.ndarray]
    nonmembers: tuple[np.ndarray, np.ndarray]
    reference: tuple[np.ndarray, np.ndarray]


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, random_state=0)


def _boosting() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=30, random_state=0)


def _network() -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), alpha=0.0, max_iter=100, tol=0.0, random_state=0)


def _regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e3, max_iter=300)


TARGETS: Mapping[str, BenchTarget] = {
    "digits-forest": BenchTarget(bundled.digits, _forest, "random forest of 30 trees, digits"),
    "digits-network": BenchTarget(bundled.digits, _network, "network of 64 units, digits"),
    "digits-regression": BenchTarget(bundled.digits, _regression, "logistic regression, digits"),
    "tumours-forest": BenchTarget(
        bundled.breast_cancer, _forest, "random forest of 30 trees, breast cancer"
    ),
    "tumours-boosting": BenchTarget(
        bundled.breast_cancer, _boosting, "30 boosted trees, breast cancer"
    ),
    "tumours-network": BenchTarget(
        bundled.breast_cancer, _network, "network of 64 units, breast cancer"
    ),
}
"""All targets of a bench."""


def train_target(name: str, seed: int) -> BenchModel:
    """Draw the records of a target, and train it.

    A third of the records is reference. Of the others a fair coin decides for each whether the
    model is trained on it.

    Args:
        name: of `TARGETS`.
        seed: of the draw.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    target = TARGETS[name]
    records, rng = target.data(), stream(seed, "bench", name)
    order = rng.permutation(len(records))
    reference, candidates = np.split(order, [len(order) // 3])
    member = rng.random(len(candidates)) < 0.5
    x, y = records.x.astype(np.float64), records.y
    parts = [(x[rows], y[rows]) for rows in (candidates[member], candidates[~member], reference)]
    model = target.estimator()
    with warnings.catch_warnings(), threadpool_limits(1):  # its matrices are small
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*parts[0])
    return BenchModel(model, *parts)
