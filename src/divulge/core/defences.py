"""A defence changes what attackers see: a model's answers, or the updates of a federation.

`AnswerDefence` changes a model's answers before anybody sees them. `UpdateDefence` changes what
travels between the clients and the server of a federation; the other classes are that traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float64, Shaped

from divulge.core.targets import Need
from divulge.core.training import Guarantee


@runtime_checkable
class AnswerDefence(Protocol):
    """Frozen settings, and a pure function from a model's answers to those that leave it.

    `divulge.targets.DefendedTarget` puts it around a target.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    keeps_label: ClassVar[bool]
    """Whether the most likely class stays the same. If it does, an attack that reads labels alone
    sees what it saw before: against such attacks this is no defence."""

    def offers(self, before: Need) -> Need:
        """What the answers still allow, of what they allowed before."""
        ...

    def change(
        self,
        answers: Float[np.ndarray, "records classes"],
        x: Shaped[np.ndarray, "records *features"],
        key: int,
    ) -> Float[np.ndarray, "records classes"]:
        """The answers that leave the model; the same for the same record, whenever it comes.

        Args:
            answers: probabilities, as the model gives them.
            x: the records asked about.
            key: a secret number that only the owner of the model knows; it seeds all randomness.
        """
        ...


class Range(NamedTuple):
    """Values of a setting that a search for the best one tries."""

    low: float
    high: float
    log: bool = False
    """Whether values are spread evenly by their logarithm."""


SearchSpace = Mapping[str, Range | tuple[Any, ...]]
"""By setting of a defence, or of its recipe, what a search tries: a range, or some values."""


NoiseKind = Literal["seeded", "secure"]
"""Where noise comes from: a seed, for experiments, or the system's entropy, for publication."""


@runtime_checkable
class NoiseSource(Protocol):
    """Adds noise to numbers; `divulge.defences.noise` has one of each kind."""

    @property
    def kind(self) -> NoiseKind:
        """Whether the noise can be drawn again from a seed."""
        ...

    def add_normal(
        self, values: Float64[np.ndarray, " entries"], scale: float
    ) -> Float64[np.ndarray, " entries"]:
        """The values with normal noise of this standard deviation."""
        ...

    def add_laplace(
        self, values: Float64[np.ndarray, " entries"], scale: float
    ) -> Float64[np.ndarray, " entries"]:
        """The values with Laplace noise of this scale b."""
        ...


Update = Mapping[str, np.ndarray]
"""What a client's training changed, by name: its weights minus the global weights it was sent."""


@dataclass(frozen=True, slots=True)
class RoundContext:
    """What the server and every client of a round know before anything is sent."""

    number: int
    participants: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of each tensor of the global weights, by name; every update has the same shapes."""
    announced: Mapping[int, bytes] = field(default_factory=dict)
    """What each participant announced to all the others, such as a public key."""
    noise: NoiseSource | None = field(default=None, repr=False, compare=False)
    """The server's own source of noise for this round; clients do not use it."""


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What one client knows when it sends its update."""

    round: RoundContext
    client: int
    noise: NoiseSource
    """Source of noise that belongs to this client in this round alone."""
    weight: float = 1.0
    """Weight of its update in the average. Used only where the server sees a sum alone, and cannot
    weight the update itself."""
    secret: Any = field(default=None, repr=False)
    """The private part of what it announced, such as a private key; it never leaves the client."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one client sends in one round."""

    round: int
    client: int
    session: bytes
    """Fingerprint of the round's context. It tells this round from one with the same number in
    another federation."""
    values: Update
    """The update after all client hooks; unsigned integers where it is masked."""


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
    search: ClassVar[SearchSpace] = {}
    """What `divulge.harden_federation` tries of the settings; others stay at their defaults."""

    @property
    def masks(self) -> bool:
        """Whether its client hook masks updates, so that no other client hook can follow it."""
        return False

    @property
    def weighs_equally(self) -> bool:
        """Whether each client counts the same in the mean, whatever its number of records."""
        return False

    @property
    def personal(self) -> bool:
        """Whether each client uses a model of its own, trained further from the global one."""
        return False

    @property
    def promises(self) -> bool:
        """Whether clients have a guarantee; then no update is refused for its numbers.

        One that is not finite counts as zeros: an error would tell of it, which no noise covers.
        """
        return self.guarantee() is not None

    def announce(self) -> tuple[Any, bytes]:
        """Prepare a round: return what the client keeps secret, and what all participants see."""
        return None, b""

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """Return what the client sends in place of its update, without changing the update itself.

        Raises:
            DataError: the update is empty or not of floating point; or it is not finite, and
                nothing is promised.
        """
        del context
        return update

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """Return what the server can compute from what arrived.

        Raises:
            DataError: it can make nothing of it; says whose message is missing or wrong.
        """
        del context
        return view

    def guarantee(self, rounds: int = 1) -> Guarantee | None:
        """The guarantee for a client that sends in so many rounds; None if there is none."""
        del rounds
        return None

    def noise_deviation(self, clients: int) -> float | None:
        """The standard deviation of Gaussian noise in each entry of the mean of so many updates.

        A lower bound where clients weigh differently; None where no such noise is promised.
        """
        del clients
        return None
