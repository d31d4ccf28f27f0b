"""Seven classifiers tell suspects from known non-members by a model's predictions.

The settings are those of the published pipeline: its neural network, and scikit-learn's defaults
for the others. Answers and one-hot labels are standardised on what a classifier is fitted to.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.extras import name_missing_extra

NAMES = ("nn", "rf", "dt", "gb", "knn", "svm", "lr")

NEIGHBOURS = 5

Features = Float64[np.ndarray, "records features"]
ScoreColumns = Float64[np.ndarray, "records estimators"]


class LabelledLogits(NamedTuple):
    """Predictions of a model on some records, with their classes."""

    logits: Features
    """Logits of each record, or its log probabilities less their mean."""
    y: Int[np.ndarray, " records"]
    """Class of each record."""

    def take(self, chosen: np.ndarray) -> "LabelledLogits":
        """The chosen records."""
        return LabelledLogits(self.logits[chosen], self.y[chosen])

    @property
    def with_labels(self) -> Features:
        """Features of the classifiers: logits beside one-hot labels."""
        return np.hstack([self.logits, np.eye(self.logits.shape[1])[self.y]])


def fit_base_classifiers(
    answers: LabelledLogits, suspect: Bool[np.ndarray, " records"], rng: np.random.Generator
) -> Callable[[LabelledLogits], ScoreColumns]:
    """Fit the seven classifiers.

    Args:
        answers: predictions of a model on suspects and non-members.
        suspect: true for suspects.
        rng: seeds the network, the forest and the trees.

    Returns:
        A function that gives each record's probability of being a suspect, by each classifier.
    """
    import sklearn
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # a forest asks a hundred times whether answers are finite: they are
    unchecked = partial(sklearn.config_context, assume_finite=True, skip_parameter_validation=True)
    network = _fit_network(answers, suspect, rng)
    with unchecked():
        others = [
            make_pipeline(StandardScaler(), estimator).fit(answers.with_labels, suspect)
            for estimator in _base_classifiers(suspect, rng)
        ]

    def score(predictions: LabelledLogits) -> ScoreColumns:
        with unchecked():
            columns = [
                estimator.predict_proba(predictions.with_labels)[:, 1] for estimator in others
            ]
        return np.column_stack([network(predictions), *columns])

    return score


def _base_classifiers(suspect: Bool[np.ndarray, " records"], rng: np.random.Generator) -> list[Any]:
    """Unfitted classifiers in the order of `NAMES`, without the network."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    forest, tree, boosting = (int(seed) for seed in rng.integers(2**31, size=3))
    fewest = int(min(suspect.sum(), (~suspect).sum()))
    return [
        RandomForestClassifier(random_state=forest),
        DecisionTreeClassifier(random_state=tree),
        GradientBoostingClassifier(random_state=boosting),
        KNeighborsClassifier(min(NEIGHBOURS, len(suspect))),
        # SVC(probability=True), which is about to go, was this with folds of its own
        CalibratedClassifierCV(SVC(), ensemble=False, cv=min(5, fewest)),
        LogisticRegression(),
    ]


def _fit_network(
    answers: LabelledLogits, suspect: Bool[np.ndarray, " records"], rng: np.random.Generator
) -> Callable[[LabelledLogits], Float64[np.ndarray, " records"]]:
    with name_missing_extra():
        from divulge.attacks.assignment.stacking.network import train_network

    mean = answers.logits.mean(axis=0)
    spread = answers.logits.std(axis=0)
    # a logit that never varies would become NaN in every record
    spread[spread == 0] = 1.0
    seed = int(rng.integers(2**31))
    network = train_network((answers.logits - mean) / spread, answers.y, suspect, seed)
    return lambda predictions: network((predictions.logits - mean) / spread, predictions.y)
