"""The nouns: records, targets, views, guesses, truths, findings.

One security game with three roles that never mix: the attacker gets a *view* and returns a
*guess*; only the auditor holds the *truth*. An attack's signature cannot receive the truth, so it
cannot cheat by accident.

Conventions, fixed once: a HIGHER score means MORE LIKELY A MEMBER; probabilities leave a target;
arrays are NumPy; rates lie in [0, 1]; randomness comes in as a generator and from nowhere else.
"""

import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakscope.errors import DataError, NotApplicable, SpecError


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


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A differential-privacy guarantee, as it is claimed for a model."""

    epsilon: float
    delta: float
    mechanism: str = ""
    """What it rests on, in a few words: ``DP-SGD, noise multiplier 1.1, 500 steps``."""

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and 0 <= self.delta < 1):
            raise SpecError(
                f"expected epsilon above 0 and finite, and delta from 0 to below 1, got "
                f"epsilon={self.epsilon} and delta={self.delta}: see what the accountant of the "
                "training said"
            )


@dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee that an audit holds its measurements against."""

    guarantee: Guarantee
    derived: bool = False
    """Nobody stated it: it is what the trainer of the shadow models promises."""


@runtime_checkable
class Trainer(Protocol):
    """Trains models of the target's kind."""

    def many(
        self,
        pool: Records,
        subsets: Bool[np.ndarray, "models records"],
        seeds: Sequence[int],
    ) -> Iterator[Target]:
        """One model a row of ``subsets``, in order, each trained on those records of the pool.

        Args:
            pool: the records to draw from.
            subsets: which of them each model is trained on.
            seeds: one a model, for its own randomness.

        Raises:
            TargetError: a model could not be trained.
        """
        ...


@runtime_checkable
class Private(Protocol):
    """What a trainer has besides, if its models come with a guarantee."""

    def guarantee(self, n_records: int) -> Guarantee | None:
        """What a model trained on so many records promises; None where that is nothing."""
        ...


Update = Mapping[str, np.ndarray]
"""What a client's training changed, by name: its weights minus the global weights it was sent."""


@dataclass(frozen=True, slots=True)
class RoundContext:
    """What the server and every client of a round know before anything is sent."""

    number: int
    participants: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    """Of the global weights, by name: every update has them."""
    announced: Mapping[int, bytes] = field(default_factory=dict)
    """What each participant announced to all the others, such as a public key."""


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What one client knows when it sends its update."""

    round: RoundContext
    client: int
    rng: np.random.Generator
    """Of this client in this round alone."""
    weight: float = 1.0
    """What its update counts for. Used only where the server, seeing a sum, cannot weigh it."""
    secret: Any = field(default=None, repr=False)
    """What it kept to itself when it announced: it never leaves the client."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one client sends in one round."""

    round: int
    client: int
    session: bytes
    """Fingerprint of the round's context: tells this round from one of that number elsewhere."""
    values: Update
    """The update behind all client hooks; unsigned integers where it is masked."""


@dataclass(frozen=True, slots=True)
class ClientUpdates:
    """A server's view of a round: the update of each client that arrived."""

    by_client: Mapping[int, Update]


@dataclass(frozen=True, slots=True)
class UpdateSum:
    """A server's view of a round: the weighted sum of the updates, and nothing else."""

    clients: tuple[int, ...]
    total: Update


ServerView = ClientUpdates | UpdateSum


@dataclass(frozen=True, slots=True)
class UpdateDefence:
    """Changes updates on the wire; as it stands, nothing: a defence overrides what it changes.

    Both hooks are pure functions, so that defences compose: see ``defences.compose.chain``.
    ``defences.exchange`` takes a round through them.
    """

    name: ClassVar[str] = "none"
    paper: ClassVar[str] = ""

    @property
    def masks(self) -> bool:
        """Whether what leaves its client hook is masked: nothing else can follow it there."""
        return False

    def announce(self) -> tuple[Any, bytes]:
        """Before a round: what a client keeps to itself, and what all participants get to see."""
        return None, b""

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """What the client sends in place of its update, which stays as it is.

        Raises:
            DataError: the update is empty, not of floating point, or not finite.
        """
        del context
        return update

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """What the server can make of what arrived.

        Raises:
            DataError: it can make nothing of it; says whose message is missing or wrong.
        """
        del context
        return view

    def guarantee(self, rounds: int = 1) -> Guarantee | None:
        """What is promised to a client that sends in so many rounds; None if nothing is."""
        del rounds
        return None


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


Tensors = Mapping[str, np.ndarray]
"""Arrays by name, in the network's order: weights and buffers, or what a client did to them."""

UpdateKind = Literal["weights", "update", "gradient"]


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """What the protocol gave away about how clients train; None is what it did not."""

    optimiser: str | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    epochs: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """What the server got from one client in one round."""

    tensors: Tensors
    records: int | None
    """How many training records the client says it has: its own claim; None if it said nothing."""
    guarantee: Guarantee | None = None
    """Claimed for all that this client sent up to and including this round."""


@dataclass(frozen=True, slots=True)
class MaskedSum:
    """All that secure aggregation shows the server: a sum, and whose."""

    clients: tuple[str, ...]
    tensors: Tensors
    """What the clients would have sent, each weighted by its share of the records, summed."""
    records: int | None
    """All their records together; None if the server is not told."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a federation, exactly as its server saw it."""

    number: int
    """From 0."""
    kind: UpdateKind
    """What clients send: their new ``weights``, an ``update`` (new less sent), or a ``gradient``
    of their mean loss at the weights sent."""
    sent: Tensors
    """The global weights that went out to the clients."""
    received: Mapping[str, Received]
    """By client; nothing under secure aggregation."""
    masked: MaskedSum | None = None
    training: LocalTraining = field(default_factory=LocalTraining)
    aggregated: Tensors | None = None
    """The global weights that the server made of it."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the server measured of them, such as accuracy."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Who took part."""
        return tuple(self.received) + (self.masked.clients if self.masked else ())

    def change(self, client: str) -> dict[str, np.ndarray]:
        """What the client's training did to the weights it was sent, whatever it sent back.

        Of a gradient that is one step of gradient descent.

        Raises:
            NotApplicable: the server did not get this client's own update, or got a gradient
                without a learning rate.
        """
        if client not in self.received:
            why = "only a sum with others" if client in self.clients else "nothing"
            raise NotApplicable(
                f"expected an update of client {client!r} in round {self.number}, the server got "
                f"{why}: choose another client or round"
            )
        got = self.received[client].tensors
        if self.kind == "update":
            return dict(got)
        if self.kind == "weights":
            return {name: got[name] - self.sent[name] for name in got}
        if self.training.lr is None:
            raise NotApplicable(
                f"expected the learning rate beside the gradients of round {self.number}, got "
                "none: it says how large a step is"
            )
        return {name: -self.training.lr * array for name, array in got.items()}


@runtime_checkable
class Rounds(Protocol):
    """Rounds in order, of which perhaps only one at a time is in memory: a tuple is one kind."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Round:
        """One round; IndexError beyond the last."""
        ...

    def __iter__(self) -> Iterator[Round]: ...


@dataclass(frozen=True, slots=True)
class UpdateView:
    """What an attacker who sees what the server sees has against one client."""

    victim: str
    rounds: Rounds
    """Those in which the victim took part."""
    network: Callable[[], Any] | None = None
    """Makes the module that the weights belong to."""
    reference: Records | None = None
    """Records the attacker owns, of the same population as the victim's."""
    inputs: Shaped[np.ndarray, "items *features"] | None = None
    """What the server handed out to be trained on, where it does."""

    @property
    def offers(self) -> Need:
        """All that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        seen = any(self.victim in seen.received for seen in self.rounds)
        return reference | (Need.UPDATES if seen else Need.NONE)


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with its 95 % interval. ``high`` is None for a one-sided lower bound."""

    value: float
    low: float
    high: float | None

    def __contains__(self, value: float) -> bool:
        return self.low <= value and (self.high is None or value <= self.high)


class Verdict(enum.StrEnum):
    """How a check of the audit's own soundness ended."""

    PASS = "pass"  # noqa: S105 (a verdict, not a password)
    WARNING = "warning"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the audit itself, asked before any attack, and its answer."""

    name: str
    verdict: Verdict
    text: str
    """The answer in one or two plain sentences."""
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


class Status(enum.StrEnum):
    """How an attack ended. Nothing that was asked for ends in silence."""

    DONE = "done"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Control:
    """Whether one attack saw a leak planted on purpose, and stayed calm where there is none."""

    planted: Estimate | None
    """AUC on the planted leak; None when the attack did not run there."""
    covered: int
    """Of the shuffles of membership, how many AUC intervals covered one half."""
    shuffles: int
    calm: bool
    """Shuffled membership was not mistaken for a leak more often than chance allows."""
    reason: str = ""

    @property
    def sees(self) -> bool:
        """The planted leak was found."""
        return self.planted is not None and self.planted.low > 0.5


@dataclass(frozen=True, slots=True)
class Finding:
    """What one attack showed, or why it showed nothing."""

    label: str
    """The attack with its settings, unique within an audit: ``threshold(signal=loss)``."""
    attack: str
    paper: str
    settings: Mapping[str, Any]
    status: Status
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Metrics that these sizes cannot support, each with the reason."""
    reason: str = ""
    queries: int = 0
    """Answers of the model that the attack used, remembered ones included."""
    seconds: float = 0.0
