"""These classes are the security game: an attack turns a view into a guess; a truth judges it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from divulge._util.arguments import check_arguments
from divulge.core.rounds import UpdateView
from divulge.core.targets import Need
from divulge.core.views import FederationView, ModelView
from divulge.errors import DataError


@check_arguments
@dataclass(frozen=True, slots=True)
class Scores:
    """A guess about membership: one score a candidate, higher means more likely a member."""

    about: ClassVar = "membership"
    score: Float[np.ndarray, " records"]
    by_record: Float[np.ndarray, " person_records"] | None = None
    """Where ``score`` is one a person: the scores of the records that it was made of."""


MembershipDraw = Literal["coins", "fixed"]
"""How membership came about: a fair coin of its own decided about each candidate, or fixed numbers
of members and of non-members were drawn at random."""


@check_arguments
@dataclass(frozen=True, slots=True)
class Membership:
    """The truth about membership: which candidates the model was trained on."""

    member: Bool[np.ndarray, " records"]
    drawn: MembershipDraw = "fixed"


@dataclass(frozen=True, slots=True)
class SimulatedErrors:
    """How far off guesses are about simulated clients like the victim, whose shares are known.

    None of them was used to learn how to guess about it.
    """

    which: Int[np.ndarray, " alike"]
    """Number of each of them among all that were simulated."""
    l1: Float64[np.ndarray, " alike"]
    """L1 distance of the guess about each of them."""
    equal: Float64[np.ndarray, " alike"]
    """L1 distance of equal shares of all classes from what it holds."""
    null: Int[np.ndarray, "alike 4"]
    """Classes declared null, those of them that it holds, classes that it lacks, and those of them
    that were not declared null."""
    far: float
    """P-value that the victim trains as simulated clients do: how often the update of one of them
    differs in length as much from those of others with such guesses."""


@dataclass(frozen=True, slots=True)
class Proportions:
    """What share of each class a client holds, and which classes it lacks: a guess, or the truth.

    Raises:
        DataError: the shares are not those of a whole.
    """

    about: ClassVar = "composition"
    share: Float64[np.ndarray, " classes"]
    null: Bool[np.ndarray, " classes"]
    """True for each class of which the client has no record."""
    even: float | None = None
    """P-value of a guess: how often a client with equally many records of each class looks at least
    as uneven as this one; None if that was not tested."""
    how: str = ""
    """What a guess rests on, where the attack has a choice; empty for the truth."""
    errors: SimulatedErrors | None = None
    """How far off such guesses are, where the attack simulates clients."""

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

    about: ClassVar = "interactions"
    score: Float[np.ndarray, " items"]
    """A number in [0, 1] for each item; higher means that the user more likely acted on it. Scores
    rank the items; they are not probabilities."""
    decided: Bool[np.ndarray, " items"]
    """The attacker's decision for each item: true where the attacker says that the user acted."""
    how: str = ""
    """Which method was used and why, and how far the update determines the interactions."""

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


@check_arguments
@dataclass(frozen=True, slots=True)
class Game(Generic[V, T]):
    """One game, prepared: the attacker's view, and the truth that the auditor keeps."""

    view: V
    truth: T


@runtime_checkable
class Attack(Protocol[V_contra, G_co]):
    """Frozen settings plus one call; a frozen dataclass whose fields are the settings."""

    @property
    def name(self) -> str:
        """The short name; of most attacks a constant of the class."""
        ...

    @property
    def paper(self) -> str:
        """Authors and year."""
        ...

    @property
    def needs(self) -> Need:
        """What a view must offer for these settings to make sense."""
        ...

    def __call__(self, view: V_contra, rng: np.random.Generator) -> G_co:
        """Guess the secret of this view.

        Args:
            view: what the attacker sees; it holds nothing of the truth.
            rng: the attack's only source of randomness.

        Raises:
            NotApplicable: the view cannot support this attack; says what is missing.
            TargetError: the model stopped answering.
        """
        ...


MembershipAttack = Attack[ModelView, Scores]
CompositionAttack = Attack[UpdateView, Proportions]
InteractionAttack = Attack[UpdateView, Reconstruction]


@runtime_checkable
class JointAttack(Protocol[V_contra, G_co]):
    """An attack that costs less for several victims of one federation than for each alone."""

    def many(self, views: Sequence[V_contra], rng: np.random.Generator) -> Iterable[G_co]:
        """Give one guess for each view, in order; one after another where the work is in parts.

        For a single view the guess equals what calling the attack gives.
        """
        ...


NOBODY = -1
"""The number in an `Assignment` for a record that no client trained on."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which client trained on each record: an attacker's guess, or the truth.

    Raises:
        DataError: a client is neither `NOBODY` nor counted from 0.
    """

    about: ClassVar = "assignment"
    client: Int[np.ndarray, " records"]
    """Number of the client that trained on each record, from 0, or `NOBODY`."""
    score: Float[np.ndarray, "records clients"] | None = None
    """Scores of a guess: higher means that the record is more likely this client's. They are
    posterior probabilities if the attack says so; None for the truth."""

    def __post_init__(self) -> None:
        if len(self.client) and self.client.min() < NOBODY:
            raise DataError(
                f"expected clients from 0, or {NOBODY} for nobody, got {self.client.min()}"
            )


AssignmentAttack = Attack[FederationView, Assignment]
