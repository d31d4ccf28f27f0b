"""The security game: guesses, truths, and the attacks between them."""

from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from leakscope.core.model_view import ModelView
from leakscope.core.records import Need


@dataclass(frozen=True, slots=True)
class Scores:
    """A guess about membership: one score a candidate, higher means more likely a member."""

    score: Float[np.ndarray, " records"]


@dataclass(frozen=True, slots=True)
class Membership:
    """The truth about membership: which candidates the model was trained on."""

    member: Bool[np.ndarray, " records"]


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
