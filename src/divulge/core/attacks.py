"""The security game: guesses, truths, and the attacks between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from divulge.core.rounds import UpdateView
from divulge.core.targets import Need
from divulge.core.views import FederationView, ModelView
from divulge.errors import DataError


@dataclass(frozen=True, slots=True)
class Scores:
    """A guess about membership: one score a candidate, higher means more likely a member."""

    score: Float[np.ndarray, " records"]


Drawn = Literal["coins", "fixed"]
"""How membership came about: a fair coin of its own decided about each candidate, or fixed numbers
of members and of non-members were drawn at random."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The truth about membership: which candidates the model was trained on."""

    member: Bool[np.ndarray, " records"]
    drawn: Drawn = "fixed"


@dataclass(frozen=True, slots=True)
class Proportions:
    """What share of each class a client holds, and of which it has none: a guess, or the truth.

    Raises:
        DataError: the shares are not those of a whole.
    """

    share: Float64[np.ndarray, " classes"]
    null: Bool[np.ndarray, " classes"]
    """The classes of which there is no record."""
    even: float | None = None
    """Of a guess: how often a client with equally many records of each class looks at least as
    uneven as this one, a p-value; None if that was not tested."""
    how: str = ""
    """Of a guess: what it rests on, where the attack has a choice."""

    def __post_init__(self) -> None:
        if not (self.share >= 0).all() or abs(self.share.sum() - 1) > 1e-6:
            raise DataError(
                f"expected shares from 0 that sum to 1, got {self.share.tolist()}: divide counts "
                "by their sum"
            )

    @classmethod
    def of(cls, counts: Int[np.ndarray, " classes"]) -> "Proportions":
        """The truth about a client with so many records of each class.

        Raises:
            DataError: there are no records.

        Examples:
            >>> Proportions.of(np.array([3, 0, 1])).share.tolist()
            [0.75, 0.0, 0.25]
        """
        if not counts.sum():
            raise DataError("expected records of some class, got none: leave the client out")
        return cls(counts / counts.sum(), counts == 0)


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """A guess about interactions: which of the items handed out a user acted on."""

    score: Float[np.ndarray, " items"]
    """In [0, 1], higher means more likely acted on. It ranks; it is not a probability."""
    decided: Bool[np.ndarray, " items"]
    """The score rounded: what the attacker would say of each item."""
    how: str = ""
    """Which way was taken, and why; how far the answer is determined."""

    def __post_init__(self) -> None:
        inside = (self.score >= 0) & (self.score <= 1)
        if self.score.shape != self.decided.shape or not inside.all():
            raise DataError(
                f"expected a score in [0, 1] and a decision for each item, got "
                f"{np.sum(~inside)} of {self.score.size} scores outside and "
                f"{self.decided.size} decisions: the attack that made them is broken"
            )


@dataclass(frozen=True, slots=True)
class Interactions:
    """The truth about interactions: which of the items handed out the user acted on."""

    acted: Bool[np.ndarray, " items"]


V = TypeVar("V")
T = TypeVar("T")
V_contra = TypeVar("V_contra", contravariant=True)
G_co = TypeVar("G_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Challenge(Generic[V, T]):
    """One game, prepared: the attacker's view, and the truth that the auditor keeps."""

    view: V
    truth: T


@runtime_checkable
class Attack(Protocol[V_contra, G_co]):
    """Frozen settings plus one call; a frozen dataclass whose fields are the settings."""

    name: ClassVar[str]
    paper: ClassVar[str]

    @property
    def needs(self) -> Need:
        """What a view must offer for these settings to make sense."""
        ...

    def __call__(self, view: V_contra, rng: np.random.Generator) -> G_co:
        """The guess.

        Raises:
            NotApplicable: the view cannot support this attack; says what is missing.
            TargetError: the model stopped answering.
        """
        ...


MembershipAttack = Attack[ModelView, Scores]
CompositionAttack = Attack[UpdateView, Proportions]
InteractionAttack = Attack[UpdateView, Reconstruction]


@runtime_checkable
class Joint(Protocol[V_contra, G_co]):
    """What an attack has besides, if several victims of one federation cost it less together."""

    def many(self, views: Sequence[V_contra], rng: np.random.Generator) -> Sequence[G_co]:
        """One guess a view, in order; that of a single view is what calling the attack gives."""
        ...


NOBODY = -1
"""In an `Assignment`: no client trained on this record."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which client trained on each record: an attacker's guess, or the truth.

    Raises:
        DataError: a client is neither `NOBODY` nor counted from 0.
    """

    client: Int[np.ndarray, " records"]
    """From 0, or `NOBODY`."""
    score: Float[np.ndarray, "records clients"] | None = None
    """Of a guess: higher means more likely this client's; a posterior probability if the attack
    says so."""

    def __post_init__(self) -> None:
        if len(self.client) and self.client.min() < NOBODY:
            raise DataError(
                f"expected clients from 0, or {NOBODY} for nobody, got {self.client.min()}"
            )


AssignmentAttack = Attack[FederationView, Assignment]
