"""Small worlds with a known truth: forests that memorised the members, or never saw them."""

from functools import cache

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from leakscope.core import Challenge, Membership, ModelView, Need, Records
from leakscope.targets.answers import to_probabilities
from leakscope.targets.sklearn import SklearnTarget

SIZE = 300
CLASSES = 3


def draw(records: int, seed: int) -> Records:
    """Records of one population; a quarter of the labels is noise that only memory can fit."""
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=(records, 8))
    y = np.argmax(x[:, :CLASSES], axis=1)
    noisy = rng.random(records) < 0.25
    y[noisy] = rng.integers(0, CLASSES, noisy.sum())
    return Records(x, y.astype(np.int64))


class _Smooth:
    """A forest whose answers hardly ever tie."""

    def __init__(self, trained_on: Records, seed: int) -> None:
        self.forest = SklearnTarget(
            RandomForestClassifier(60, random_state=seed).fit(trained_on.x, trained_on.y)
        )

    @property
    def offers(self) -> Need:
        return self.forest.offers

    def predict(self, x: np.ndarray) -> np.ndarray:
        wiggle = 1e-4 * (1 + np.sin(1e3 * x[:, :CLASSES]))  # depends on the record alone
        p = self.forest.predict(x) + wiggle
        return to_probabilities(p / p.sum(axis=1, keepdims=True), "probabilities", len(x))


def _challenge(seed: int, *, trained: bool) -> Challenge[ModelView, Membership]:
    candidates, reference = draw(2 * SIZE, seed), draw(SIZE, seed + 1000)
    member = np.random.default_rng([seed, 2]).permutation(2 * SIZE) < SIZE
    training = candidates.take(member) if trained else draw(SIZE, seed + 2000)
    view = ModelView(_Smooth(training, seed), candidates, reference)
    return Challenge(view, Membership(member))


@cache
def leaky(seed: int = 0) -> Challenge[ModelView, Membership]:
    """The model was trained on the members."""
    return _challenge(seed, trained=True)


@cache
def silent(seed: int = 0) -> Challenge[ModelView, Membership]:
    """The model was trained on neither members nor non-members."""
    return _challenge(seed, trained=False)
