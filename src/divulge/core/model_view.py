"""What an attacker on one trained model has."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from divulge.core.records import Need, Records, Target
from divulge.errors import DataError


@dataclass(frozen=True, slots=True)
class Shadows:
    """What models like the target say, each trained on its own random subset of the candidates.

    All is in scaled logits φ = log p_y - log(1 - p_y), from which log p_y follows.
    """

    phi: Float[np.ndarray, "records models"]
    """φ of each candidate under each shadow."""
    member: Bool[np.ndarray, "records models"]
    """Which candidates each shadow was trained on; nowhere true for offline shadows."""
    reference_phi: Float[np.ndarray, "reference models"]
    """φ of the reference records, on which no shadow was trained; no rows without any."""
    augmented_phi: tuple[Float[np.ndarray, "records models"], ...] = ()
    """φ of the candidates seen otherwise: one matrix for each of ``ModelView.augmented``."""
    pool: "PoolAnswers | None" = None
    """What offline shadows say of the records they were trained on; None where nobody asked."""

    @property
    def online(self) -> bool:
        """Whether some shadows were trained on candidates."""
        return bool(self.member.any())


@dataclass(frozen=True, slots=True)
class PoolAnswers:
    """What offline shadows say of records of their pool, where each knows its members."""

    y: Int[np.ndarray, " pool"]
    phi: Float[np.ndarray, "pool models"]
    """φ of each record under each shadow, in the shadows' order."""
    member: Bool[np.ndarray, "pool models"]
    """Which of the records each shadow was trained on."""
    augmented_phi: tuple[Float[np.ndarray, "pool models"], ...] = ()
    """φ of the same records seen otherwise, as the candidates were."""


@dataclass(frozen=True, slots=True)
class ShadowModel:
    """A model that the attacker trained, and records of which it knows the part in that."""

    target: Target
    records: Records
    """Seen as the candidates are: with filled-in values where features are not known."""
    member: Bool[np.ndarray, " rehearsed"]
    known: Bool[np.ndarray, "rehearsed *features"] | None = None


@dataclass(frozen=True, slots=True)
class ModelView:
    """What an attacker on one trained model has."""

    target: Target
    records: Records
    """The candidates: was each of them a training record?"""
    reference: Records | None = None
    """Records the attacker owns that are certainly not members, of the same population."""
    shadows: Shadows | None = None
    augmented: tuple[Records, ...] = ()
    """The candidates seen otherwise, such as mirrored: further queries, in the same order."""
    known: Bool[np.ndarray, "records *features"] | None = None
    """Which features of the candidates the attacker knows; None is all of them.

    The values of the others are not in the view: in ``records`` and ``augmented`` stands what the
    attacker fills in, see `divulge.data.impute`.
    """
    own: Records | None = None
    """The reference records whole, where ``reference`` shows them as the candidates are seen."""
    shadow: ShadowModel | None = None
    """One model like the target, for attacks that look into it, or rehearse on it."""

    def __post_init__(self) -> None:
        if self.known is not None and self.known.shape != self.records.x.shape:
            raise DataError(
                f"expected one flag for each feature of shape {self.records.x.shape}, got known of "
                f"shape {self.known.shape}: broadcast it with numpy.broadcast_to"
            )

    @property
    def offers(self) -> Need:
        """All that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        shadows = Need.NONE if self.shadows is None else Need.SHADOWS
        partial = Need.NONE if self.known is None else Need.PARTIAL
        return self.target.offers | Need.LABELS | reference | shadows | partial
