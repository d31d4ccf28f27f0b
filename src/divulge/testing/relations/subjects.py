"""A linear classifier that memorised its members, and what changes nothing about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from divulge._util.random import stream

SIZE, FEATURES, CLASSES = 60, 24, 3
NAMES = ("ant", "bee", "cat")


@dataclass(frozen=True)
class Subject:
    """What is asked, and about whom."""

    weight: np.ndarray
    """Shape (features, classes)."""
    bias: np.ndarray
    x: Any
    """Shape (records, features), of values that float32 holds; an array, or a frame of it."""
    y: np.ndarray
    """The number of each record's class."""
    member: np.ndarray
    names: tuple[str, ...] = NAMES
    """Of the classes, in the order of the columns of the weights."""
    batch_size: int = 1024

    @property
    def probabilities(self) -> np.ndarray:
        """What the model answers about each record."""
        return self.answer(self.x)

    def answer(self, x: np.ndarray) -> np.ndarray:
        """The model as a function."""
        logits = np.asarray(x, np.float64) @ self.weight + self.bias
        return np.asarray(softmax(logits, axis=1))

    def records(self, *, inside: bool) -> tuple[Any, np.ndarray]:
        """Features and labels of one of the two sets."""
        chosen = self.member == inside
        return self.x[chosen], self.y[chosen]


@cache
def memorised(seed: int = 0, size: int = SIZE) -> Subject:
    """A model that was fitted to its members, many of whose labels are noise."""
    return _draw(seed, size, learned=True)


@cache
def honest(seed: int = 0, size: int = SIZE) -> Subject:
    """A model that was fitted to records of which none is a candidate."""
    return _draw(seed, size, learned=False)


def _draw(seed: int, size: int, *, learned: bool) -> Subject:
    rng = stream(seed, "relations", size)
    x = rng.normal(size=(4 * size, FEATURES)).astype(np.float32)
    y = (x[:, :CLASSES] + 2 * rng.normal(size=(4 * size, CLASSES))).argmax(axis=1)
    fit = slice(0, size) if learned else slice(2 * size, None)
    model = LogisticRegression(C=10, max_iter=1000).fit(x[fit], y[fit])
    # weights that float32 holds: PyTorch and ONNX have them too
    weight, bias = (
        fitted.astype(np.float32).astype(np.float64) for fitted in (model.coef_.T, model.intercept_)
    )
    rows = slice(0, 2 * size)
    return Subject(weight, bias, x[rows], y[rows], np.arange(2 * size) < size)


Change = Callable[[Subject], Subject]


def permute_records(subject: Subject) -> Subject:
    """The same records in another order, members among non-members."""
    order = stream(0, "records").permutation(len(subject.y))
    return replace(subject, x=subject.x[order], y=subject.y[order], member=subject.member[order])


def permute_features(subject: Subject) -> Subject:
    """The same features in another order."""
    order = stream(0, "features").permutation(len(subject.weight))
    return replace(subject, x=subject.x[:, order], weight=subject.weight[order])


def permute_classes(subject: Subject) -> Subject:
    """The same classes in another order, each with its name."""
    order = np.array([2, 0, 1])
    return replace(
        subject,
        weight=subject.weight[:, order],
        bias=subject.bias[order],
        y=np.argsort(order)[subject.y],
        names=tuple(subject.names[k] for k in order),
    )


def widen_numbers(subject: Subject) -> Subject:
    """The same numbers in types that take more room, or less."""
    return replace(subject, x=subject.x.astype(np.float64), y=subject.y.astype(np.int8))


def shrink_batches(subject: Subject) -> Subject:
    """The model is asked about a few records at a time."""
    return replace(subject, batch_size=7)


def change_all(subject: Subject, changes: Mapping[str, Change] | None = None) -> Subject:
    """All of them at once, or all of these."""
    for change in (SAME if changes is None else changes).values():
        subject = change(subject)
    return subject


def keep_share(subject: Subject, share: float) -> Subject:
    """The same model, and so many of the members and of the non-members."""
    chosen = np.zeros(len(subject.y), bool)
    for side in (True, False):
        rows = np.flatnonzero(subject.member == side)
        chosen[rows[: round(share * len(rows))]] = True
    x, y, member = (rows[chosen] for rows in (subject.x, subject.y, subject.member))
    return replace(subject, x=x, y=y, member=member)


def exchange(subject: Subject) -> Subject:
    """Members are called non-members, and the reverse."""
    return replace(subject, member=~subject.member)


SAME: Mapping[str, Change] = {
    "records": permute_records,
    "features": permute_features,
    "classes": permute_classes,
    "types": widen_numbers,
    "batches": shrink_batches,
}
"""What changes no figure, each by a word."""
