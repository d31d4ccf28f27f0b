"""Small networks that an attack trains on its own records, and can differentiate."""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import softmax

from divulge.attacks.shared.perturbation import Flat

HIDDEN = 128
"""Units of the one hidden layer."""

EPOCHS = 60

_NEVER = -1e9
"""Logit of a class that a surrogate was shown no record of."""

Probabilities = Float64[np.ndarray, "records classes"]


class Surrogate(NamedTuple):
    """A network with one hidden layer of rectified units, of features at one scale."""

    first: Float64[np.ndarray, "features hidden"]
    first_bias: Float64[np.ndarray, " hidden"]
    last: Float64[np.ndarray, "hidden classes"]
    last_bias: Float64[np.ndarray, " classes"]

    def predict(self, x: Flat) -> Probabilities:
        """Probability of each class."""
        return self._answer(np.maximum(x @ self.first + self.first_bias, 0.0))

    def gradient(self, x: Flat, y: Int[np.ndarray, " records"]) -> Flat:
        """Gradient of each record's own cross-entropy with respect to its features."""
        hidden = np.maximum(x @ self.first + self.first_bias, 0.0)
        error = self._answer(hidden)
        # derivative of the cross-entropy by the logits: p less the one-hot label
        error[np.arange(len(y)), y] -= 1.0
        return np.asarray(((error @ self.last.T) * (hidden > 0)) @ self.first.T)

    def _answer(self, hidden: Float64[np.ndarray, "records hidden"]) -> Probabilities:
        return np.asarray(softmax(hidden @ self.last + self.last_bias, axis=1))


def train_surrogates(
    x: Flat, y: Int[np.ndarray, " records"], classes: int, count: int, rng: np.random.Generator
) -> Iterator[Surrogate]:
    """Surrogates, each trained on a random half of these records.

    Args:
        x: features at one scale.
        y: classes.
        classes: number of classes of the target.
        count: number of surrogates.
        rng: draws the halves and what the training draws.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    for _ in range(count):
        half = rng.permutation(len(y))[: (len(y) + 1) // 2]
        network = MLPClassifier(
            (HIDDEN,),
            max_iter=EPOCHS,
            batch_size=min(64, len(half)),
            tol=0.0,
            n_iter_no_change=EPOCHS,
            random_state=int(rng.integers(2**31)),
        )
        with warnings.catch_warnings():  # so many epochs were asked for, whatever the loss
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield _with_all_classes(network.fit(x[half], y[half]), classes)


def _with_all_classes(network: object, classes: int) -> Surrogate:
    (first, last), (first_bias, last_bias) = network.coefs_, network.intercepts_  # type: ignore[attr-defined]
    labels = network.classes_  # type: ignore[attr-defined]
    if len(labels) == 2:  # scikit-learn has one logit then, that of the second class
        last, last_bias = np.column_stack([0.0 * last, last]), np.array([0.0, last_bias[0]])
    wide, wide_bias = np.zeros((len(last), classes)), np.full(classes, _NEVER)
    wide[:, labels], wide_bias[labels] = last, last_bias
    return Surrogate(first, first_bias, wide, wide_bias)
