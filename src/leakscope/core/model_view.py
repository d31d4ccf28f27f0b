"""What an attacker on one trained model has."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from leakscope.core.records import Need, Records, Target


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

    @property
    def offers(self) -> Need:
        """All that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        shadows = Need.NONE if self.shadows is None else Need.SHADOWS
        return self.target.offers | Need.LABELS | reference | shadows
