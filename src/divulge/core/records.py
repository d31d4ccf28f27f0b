"""Labelled records, the model under audit, and what of them an attack needs."""

import enum
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.errors import DataError, NotApplicable


class Need(enum.Flag):
    """What an attack requires of a view, and what a view offers.

    Examples:
        >>> Need.LABELS in (Need.LABELS | Need.PROBABILITIES)
        True
    """

    NONE = 0
    LABELS = enum.auto()
    """The true label of every candidate is known."""
    FEATURES = enum.auto()
    """The candidates' own features are known, not only the model's answers to them."""
    HARD_LABELS = enum.auto()
    """The model says which class it prefers."""
    PROBABILITIES = enum.auto()
    """The model gives a probability for each class."""
    REFERENCE = enum.auto()
    """The attacker owns records that are certainly not members."""
    SHADOWS = enum.auto()
    """Models like the target were trained with and without the candidates."""
    UPDATES = enum.auto()
    """What the victim itself sent to the server of a federation is known, not a sum with others."""
    INPUTS = enum.auto()
    """What the server handed out to be trained on is known."""
    PARTIAL = enum.auto()
    """Of each candidate it is said which features are known, and the others are not."""
    AUTOGRAD = enum.auto()
    """The model can be looked into: gradients, features before its last layer, and that layer."""

    def words(self) -> str:
        """The flags as lower-case words, for messages: ``hard labels, reference``."""
        return ", ".join(str(flag.name).lower().replace("_", " ") for flag in self)


@dataclass(frozen=True, slots=True)
class Records:
    """Labelled data. The arrays are taken as read-only views, never copied.

    Raises:
        DataError: the lengths differ, a feature is not a finite number, a label is negative.
    """

    x: Shaped[np.ndarray, "records *features"]
    y: Int[np.ndarray, " records"]

    def __post_init__(self) -> None:
        if self.x.ndim == 0 or len(self.x) != len(self.y):
            raise DataError(
                f"expected one label per record, got x of shape {self.x.shape} and "
                f"{len(self.y)} labels: pass arrays of equal length"
            )
        if self.x.dtype.kind not in "fiub":
            raise DataError(
                f"expected numeric features, got an array of type {self.x.dtype}: "
                "encode text and categories as numbers first"
            )
        if self.x.dtype.kind == "f":
            # A finite sum proves finite terms, at the price of one pass without a copy.
            with np.errstate(all="ignore"):
                suspicious = not np.isfinite(self.x.sum(dtype=np.float64))
            if suspicious and not np.isfinite(self.x).all():
                rows = ~np.isfinite(self.x.reshape(len(self.x), -1)).all(axis=1)
                raise DataError(
                    f"expected finite features, got NaN or infinity in {rows.sum()} records, "
                    f"the first at index {int(rows.argmax())}: impute or drop them, as for training"
                )
        if len(self.y) and self.y.min() < 0:
            raise DataError(
                f"expected labels from 0, got {self.y.min()}: encode classes as 0, 1, 2..."
            )
        for name in ("x", "y"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Shaped[np.ndarray, " chosen"]) -> "Records":
        """The records at these positions (or where this mask is true), copied."""
        return Records(self.x[index], self.y[index])

    def joined(self, other: "Records") -> "Records":
        """These records followed by the others.

        Raises:
            DataError: the two do not have the same features.
        """
        if self.x.shape[1:] != other.x.shape[1:]:
            raise DataError(
                f"expected records of one shape, got {self.x.shape[1:]} and {other.x.shape[1:]}: "
                "prepare members, non-members and reference records in the same way"
            )
        return Records(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))


@runtime_checkable
class Target(Protocol):
    """A model under audit, seen from outside."""

    @property
    def offers(self) -> Need:
        """What its answers and its records allow."""
        ...

    def predict(
        self, x: Shaped[np.ndarray, "records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64, rows summing to one; one-hot if only labels are known.

        Raises:
            TargetError: the model failed, or its answers are not what was promised.
        """
        ...


class LastLayer(NamedTuple):
    """What enters a model's last linear layer, and that layer's weights."""

    features: Float[np.ndarray, "records hidden"]
    weights: Float[np.ndarray, "classes hidden"]


@runtime_checkable
class WhiteBox(Target, Protocol):
    """A target that can be looked into; it offers `Need.AUTOGRAD`."""

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The gradient of each record's own cross-entropy by its features.

        Raises:
            TargetError: the model failed, or cannot be differentiated.
        """
        ...

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """What enters the last linear layer, and its weights.

        Raises:
            TargetError: the model failed, or has no linear layer.
        """
        ...


def opened(target: Target) -> WhiteBox:
    """The target as one that can be looked into.

    Raises:
        NotApplicable: it cannot.
    """
    if Need.AUTOGRAD in target.offers and isinstance(target, WhiteBox):
        return target
    raise NotApplicable(
        f"needs a model that can be looked into, got {type(target).__name__}: pass a torch module"
    )
