"""A view is all that an attacker has: on one trained model, or on the clients of a federation.

In a `FederationView` the attacker is one of the clients, which colludes against the others, or the
server, which sees their updates and knows no client's records.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Real

from divulge._util.arguments import check_arguments
from divulge.core.records import Records
from divulge.core.rounds import RecordedUpdates
from divulge.core.targets import Need, Target
from divulge.errors import DataError, NotApplicable


@dataclass(frozen=True, slots=True)
class Collusion:
    """What the colluding client knows of itself: the only truth an attacker has."""

    client: int | None
    """Number of the colluding client, from 0; None where the server attacks without any client."""
    relevant: Bool[np.ndarray, " relevant"]
    """True for each of its relevant records that it trained on."""
    records: Bool[np.ndarray, " records"]
    """True for each candidate that it trained on."""

    @property
    def colluder(self) -> int:
        """Number of the colluding client.

        Raises:
            NotApplicable: no client colludes.
        """
        if self.client is None:
            raise NotApplicable(
                "expected a colluding client, which knows its own records, got none: this is for "
                "tables of answers that a client gathered"
            )
        return self.client

    @classmethod
    def none(cls, records: int) -> "Collusion":
        """The knowledge of a server that no client helps.

        Args:
            records: number of candidates.
        """
        return cls(None, np.zeros(0, bool), np.zeros(records, bool))


@dataclass(frozen=True, slots=True)
class FederationView:
    """The models of all clients, and which records each of them may have trained on.

    Raises:
        DataError: there is not one of each for every client, or the collusion does not fit.
    """

    targets: tuple[Target, ...]
    """The model of each client."""
    records: Records
    """The candidates: which client, if any, trained on each? No two clients share a record."""
    relevant: tuple[Records, ...]
    """Records of which each client is suspected: it trained on some of them, and not on others."""
    external: tuple[Records, ...]
    """Records that each client certainly did not train on, of the same population."""
    collusion: Collusion
    updates: RecordedUpdates | None = None
    """What the server got from the clients, round by round; None if only the models are known."""

    def __post_init__(self) -> None:
        clients = len(self.targets)
        counts = {"relevant": len(self.relevant), "external": len(self.external)}
        for what, count in counts.items():
            if count != clients:
                raise DataError(
                    f"expected {what} records for each of {clients} clients, got {count}: "
                    "give one set a target, in the same order"
                )
        if self.updates is not None and len(self.updates.clients) != clients:
            raise DataError(
                f"expected the updates of {clients} clients, got those of "
                f"{len(self.updates.clients)}: name one a target, in the same order"
            )
        known = self.collusion
        if known.client is not None and not 0 <= known.client < clients:
            raise DataError(
                f"expected the colluding client from 0 to {clients - 1}, got {known.client}"
            )
        own = 0 if known.client is None else len(self.relevant[known.client])
        pairs = ((known.records, len(self.records)), (known.relevant, own))
        for mask, records in pairs:
            if len(mask) != records:
                raise DataError(
                    "expected the colluding client's membership of every record, got "
                    f"{len(mask)} for {records} records: give one truth value a record"
                )
        if known.client is None and known.records.any():
            raise DataError(
                "expected no known records without a colluding client, got "
                f"{int(known.records.sum())}: name the client, or mark none as known"
            )

    @property
    def offers(self) -> Need:
        """The flags of all that an attack can use here: what every one of the targets offers."""
        updates = Need.NONE if self.updates is None else Need.UPDATES
        return reduce(and_, (target.offers for target in self.targets)) | (
            Need.LABELS | Need.REFERENCE | updates
        )


@dataclass(frozen=True, slots=True)
class Shadows:
    """Predictions of models like the target, each trained on a random subset of the candidates.

    All predictions of classifiers are scaled logits φ = log p_y - log(1 - p_y), from which log p_y
    follows. Those of regression models are residuals φ = y - f(x), in the unit of y.
    """

    phi: Float[np.ndarray, "records models"]
    """φ of each candidate under each shadow."""
    member: Bool[np.ndarray, "records models"]
    """Which candidates each shadow was trained on; nowhere true for offline shadows."""
    reference_phi: Float[np.ndarray, "reference models"]
    """φ of the reference records, on which no shadow was trained; no rows without any."""
    augmented_phi: tuple[Float[np.ndarray, "records models"], ...] = ()
    """φ of the augmented candidates: one matrix for each of ``ModelView.augmented``."""
    pool: "PoolPredictions | None" = None
    """Predictions of offline shadows on their own training pool; None if nobody queried them."""
    softened: tuple[Float[np.ndarray, "records models"], ...] = ()
    """Log p_y of each candidate with logits at temperature 2, which does not follow from φ, and one
    matrix more for each of ``augmented_phi``; none for regression models, or where nobody kept it.
    """

    @property
    def online(self) -> bool:
        """Whether some shadows were trained on candidates."""
        return bool(self.member.any())


@runtime_checkable
class ConditionalShadows(Protocol):
    """Trains further shadow models, given who of some candidates is a member."""

    def __call__(
        self, inside: Bool[np.ndarray, " records"], outside: Bool[np.ndarray, " records"]
    ) -> Shadows:
        """Shadows that agree on some candidates and differ on random halves of the others.

        Args:
            inside: candidates that all shadows are trained on.
            outside: candidates that none is trained on.

        Raises:
            TargetError: a shadow could not be trained.
            StoreError: its predictions could not be stored.
        """
        ...

    def fewer(self) -> "ConditionalShadows":
        """The same with only a few models at a time, as controls need."""
        ...


@dataclass(frozen=True, slots=True)
class PoolPredictions:
    """Predictions of offline shadows on records of their pool, whose members are known."""

    y: Real[np.ndarray, " pool"]
    """The class of each record of the pool, or its true value."""
    phi: Float[np.ndarray, "pool models"]
    """φ of each record under each shadow, in the shadows' order."""
    member: Bool[np.ndarray, "pool models"]
    """Which of the records each shadow was trained on."""
    augmented_phi: tuple[Float[np.ndarray, "pool models"], ...] = ()
    """φ of the same records, augmented in the ways in which the candidates were."""


@dataclass(frozen=True, slots=True)
class ShadowModel:
    """A model that the attacker trained, with records whose membership in it the attacker knows."""

    target: Target
    records: Records
    """The records as the candidates are seen: with filled-in values where features are unknown."""
    member: Bool[np.ndarray, " rehearsed"]
    """True for each record that the model was trained on."""
    known: Bool[np.ndarray, "rehearsed *features"] | None = None
    """True for each known feature of each record; None if all features are known."""


@check_arguments
@dataclass(frozen=True, slots=True)
class ModelView:
    """The view of an attacker on one trained model."""

    target: Target
    records: Records
    """The candidates: was each of them a training record?"""
    reference: Records | None = None
    """Records the attacker owns that are certainly not members, of the same population."""
    shadows: Shadows | None = None
    """Predictions of shadow models on the candidates; None without shadow models."""
    augmented: tuple[Records, ...] = ()
    """Augmentations of the candidates, such as mirrored images, each in the candidates' order: a
    further query of every candidate."""
    known: Bool[np.ndarray, "records *features"] | None = None
    """True for each feature of each candidate that the attacker knows; None if it knows all.

    The values of the other features are not in the view: ``records`` and ``augmented`` hold what
    the attacker fills in, see `divulge.data.imputation`.
    """
    own: Records | None = None
    """The reference records with all features, where ``reference`` shows them as the candidates are
    seen; None where the two are the same."""
    shadow: ShadowModel | None = None
    """One shadow model with white-box access, to calibrate an attack on; None if there is none."""
    known_members: Records | None = None
    """Members that the attacker knows, none of them a candidate; None if it knows none."""
    loss_trace: Float[np.ndarray, "records moments"] | None = None
    """The cross-entropy of each candidate, in nats, at moments of the training in their order; the
    last one is the target itself. None without checkpoints."""
    conditional: ConditionalShadows | None = None
    """Trains further shadow models like ``shadows``; None where nobody can."""

    def __post_init__(self) -> None:
        if self.loss_trace is not None and len(self.loss_trace) != len(self.records):
            raise DataError(
                f"expected a trace of losses for each of {len(self.records)} candidates, got "
                f"{len(self.loss_trace)}: give one row a candidate, in their order"
            )
        if self.known is not None and self.known.shape != self.records.x.shape:
            raise DataError(
                f"expected one flag for each feature of shape {self.records.x.shape}, got known of "
                f"shape {self.known.shape}: broadcast it with numpy.broadcast_to"
            )

    @property
    def offers(self) -> Need:
        """The flags of all that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        shadows = Need.NONE if self.shadows is None else Need.SHADOWS
        partial = Need.NONE if self.known is None else Need.PARTIAL
        members = Need.NONE if self.known_members is None else Need.KNOWN_MEMBERS
        trace = Need.NONE if self.loss_trace is None else Need.LOSS_TRACE
        further = Need.NONE if self.conditional is None else Need.CONDITIONAL_SHADOWS
        own = reference | shadows | partial | members | trace | further
        return self.target.offers | Need.LABELS | own
