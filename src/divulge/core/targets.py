"""A target is the model under audit; `Need` says what a target offers and an attack requires."""

import enum
from collections.abc import Generator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.errors import NotApplicable, TargetError

_ROUNDED = 1e-3
"""What rounding in float16 leaves around a sum of one."""


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
    """The attacker knows some features of each candidate, and which ones; the others are hidden."""
    AUTOGRAD = enum.auto()
    """The attacker has white-box access: gradients, the last layer and the features before it."""
    VALUES = enum.auto()
    """The model is a regression model: it answers one number for each record, and no classes."""
    KNOWN_MEMBERS = enum.auto()
    """The attacker knows some members of the training set, which are no candidates."""
    LOSS_TRACE = enum.auto()
    """The loss of every candidate is known at several moments of the training."""
    CONDITIONAL_SHADOWS = enum.auto()
    """Further shadow models can be trained, given who of some candidates is a member."""
    SCORES = enum.auto()
    """One number is known of each candidate, a loss or a score, and no answer of the model."""
    TOKENS = enum.auto()
    """The log-probability that a language model gives every token of a text is known."""
    PREFIX = enum.auto()
    """The same is known of the tokens of a text that stands behind others."""
    UNMETERED = enum.auto()
    """A question costs nothing, as to a model in memory: attacks that ask more run by default."""

    def words(self) -> str:
        """The flags as lower-case words, for messages: ``hard labels, reference``."""
        return ", ".join(str(flag.name).lower().replace("_", " ") for flag in self)


@runtime_checkable
class Target(Protocol):
    """A model under audit, seen from outside."""

    @property
    def offers(self) -> Need:
        """The flags of what its answers and its records allow an attack to use."""
        ...

    def predict(
        self, x: Shaped[np.ndarray, "records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """Probabilities in float64, rows summing to one; one-hot if only labels are known.

        A regression model gives one column, the number that it answers for each record. Where only
        scores are known, they are the one column; higher means more likely a member.

        Raises:
            TargetError: the model failed, or its answers are not what was promised.
        """
        ...


@runtime_checkable
class StreamingTarget(Target, Protocol):
    """A target that answers a part of the records at a time, such as one that asks over a network.

    Whoever keeps answers can then keep each part before the next one is asked for.
    """

    def stream(
        self, x: Shaped[np.ndarray, "records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """Yield positions in ``x`` with their probabilities, in any order, each position once.

        Raises:
            TargetError: see `predict`; the parts yielded before are good.
        """
        ...


def stream_answers(
    target: Target, x: Any
) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
    """Yield positions in ``x`` with their probabilities as the target answers, else all at once.

    Raises:
        TargetError: see `Target.predict`.
    """
    own = not type(target).__module__.startswith("divulge.")
    if isinstance(target, StreamingTarget):
        for part, answers in target.stream(x):
            if own:
                _check_answers(answers, len(part), target.offers)
            yield part, answers
    else:
        answers = target.predict(x)
        if own:
            _check_answers(answers, x.shape[0] if hasattr(x, "shape") else None, target.offers)
        yield np.arange(len(answers)), answers


def _check_answers(answers: Any, records: int | None, offers: Need) -> None:
    """Refuse what the user's own target may not answer: nothing converts it.

    Args:
        answers: whatever it returned.
        records: how many it was asked about; None where these are no array.
        offers: what it says of itself.

    Raises:
        TargetError: it is no array of probabilities, or of values where it offers these.
    """
    advice = "return that from predict, or pass a function, whose answers divulge converts"
    shape: tuple[int, ...] = getattr(answers, "shape", ())
    dtype = getattr(answers, "dtype", type(answers).__name__)
    fits = len(shape) == 2 and shape[1] > 0 and records in (None, shape[0])
    if not (fits and isinstance(answers, np.ndarray) and dtype == np.float64):
        wanted = "records" if records is None else records
        raise TargetError(
            f"expected an array of shape ({wanted}, classes) and type float64 from the target, "
            f"got shape {shape} and type {dtype}: {advice}"
        )
    if not (Need.PROBABILITIES | Need.HARD_LABELS) & offers:
        return
    sums = answers.sum(axis=1)
    if (
        not ((answers >= -_ROUNDED) & (answers <= 1 + _ROUNDED)).all()
        or not (np.abs(sums - 1) <= _ROUNDED).all()
    ):
        raise TargetError(
            "expected probabilities from 0 to 1 with rows that sum to 1 from the target, got "
            f"{answers.min():.6g} to {answers.max():.6g} with sums from {sums.min():.6g} to "
            f"{sums.max():.6g}: {advice}"
        )


class LastLayer(NamedTuple):
    """The features that enter a model's last linear layer, and that layer's weights."""

    features: Float[np.ndarray, "records hidden"]
    weights: Float[np.ndarray, "classes hidden"]


@runtime_checkable
class WhiteBox(Target, Protocol):
    """A target with white-box access: gradients, curvature and its last layer.

    It offers `Need.AUTOGRAD`.
    """

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The gradient of each record's own cross-entropy with respect to its features.

        Raises:
            TargetError: the model failed, or cannot be differentiated.
        """
        ...

    def parameter_gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records parameters"]:
        """The gradient of each record's own cross-entropy with respect to all weights.

        Raises:
            TargetError: the model failed, or cannot be differentiated.
        """
        ...

    def hessian_product(
        self,
        x: Shaped[np.ndarray, "records *features"],
        y: Int[np.ndarray, " records"],
        vector: Float[np.ndarray, " parameters"],
    ) -> Float[np.ndarray, " parameters"]:
        """The Hessian of the records' mean cross-entropy by all weights, times a vector.

        Raises:
            TargetError: the model failed, or cannot be differentiated twice.
        """
        ...

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """The features that enter the last linear layer, and that layer's weights.

        Raises:
            TargetError: the model failed, or has no linear layer.
        """
        ...


def as_white_box(target: Target) -> WhiteBox:
    """The target as a white box.

    Raises:
        NotApplicable: the target does not give white-box access.
    """
    if Need.AUTOGRAD in target.offers and isinstance(target, WhiteBox):
        return target
    raise NotApplicable(
        f"needs a model that can be looked into, got {type(target).__name__}: pass a torch module"
    )
