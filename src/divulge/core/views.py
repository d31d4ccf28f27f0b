"""What an attacker on one trained model has."""

from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np
from jaxtyping import Bool, Float, Int

from divulge.core.records import Records
from divulge.core.targets import Need, Target
from divulge.errors import DataError

# What one client of a federation, turned attacker, has against the others.


@dataclass(frozen=True, slots=True)
class Collusion:
    """What the colluding client knows of itself: the only truth an attacker has."""

    client: int
    """From 0."""
    relevant: Bool[np.ndarray, " relevant"]
    """Which of its relevant records it trained on."""
    records: Bool[np.ndarray, " records"]
    """Which of the candidates it trained on."""


@dataclass(frozen=True, slots=True)
class FederationView:
    """The models of all clients, and which records each of them may have trained on.

    Raises:
        DataError: there is not one of each for every client, or the collusion does not fit.
    """

    targets: tuple[Target, ...]
    """The model of each client."""
    records: Records
    """The candidates: which client, if any, trained on each? None trained on one in common."""
    relevant: tuple[Records, ...]
    """Records that each client is suspected of: some it trained on, and some it did not."""
    external: tuple[Records, ...]
    """Records that each client certainly did not train on, of the same population."""
    collusion: Collusion

    def __post_init__(self) -> None:
        clients = len(self.targets)
        counts = {"relevant": len(self.relevant), "external": len(self.external)}
        for what, count in counts.items():
            if count != clients:
                raise DataError(
                    f"expected {what} records for each of {clients} clients, got {count}: "
                    "give one set a target, in the same order"
                )
        known = self.collusion
        if not 0 <= known.client < clients:
            raise DataError(
                f"expected the colluding client from 0 to {clients - 1}, got {known.client}"
            )
        pairs = ((known.records, self.records), (known.relevant, self.relevant[known.client]))
        for mask, records in pairs:
            if len(mask) != len(records):
                raise DataError(
                    "expected the colluding client's membership of every record, got "
                    f"{len(mask)} for {len(records)} records: give one truth value a record"
                )

    @property
    def offers(self) -> Need:
        """All that an attack can use here: what every one of the targets offers."""
        return reduce(and_, (target.offers for target in self.targets)) | (
            Need.LABELS | Need.REFERENCE
        )


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
    attacker fills in, see `divulge.data.imputation`.
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
