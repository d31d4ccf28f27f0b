"""These classes describe what the server of a federation sees of its clients.

A `Learner` is how a client trains on its interactions, as far as the server knows it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float64, Shaped

from divulge.core.records import Records
from divulge.core.targets import Need, Target
from divulge.core.training import Guarantee
from divulge.errors import DataError, NotApplicable


class OutputLayerNames(NamedTuple):
    """Names of the tensors of the layer that gives one logit a class."""

    weight: str
    bias: str | None

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]]) -> "OutputLayerNames":
        """Find the last matrix in the network's order, and its biases if it has any.

        Raises:
            DataError: there is no matrix.

        Examples:
            >>> OutputLayerNames.of({"a.weight": (4, 2), "b.weight": (3, 4), "b.bias": (3,)})
            OutputLayerNames(weight='b.weight', bias='b.bias')
        """
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        if not matrices:
            raise DataError(
                "expected a fully connected last layer, got no matrix among the weights: attack a "
                "network whose logits come from one"
            )
        weight = matrices[-1]
        bias = weight.removesuffix("weight") + "bias"
        fits = shapes.get(bias) == shapes[weight][:1]
        return cls(weight, bias if fits else None)


@runtime_checkable
class Learner(Protocol):
    """A client's local training as a function of its interactions, differentiable in them.

    Tensors are those of the framework that the learner is written in.
    """

    @property
    def private(self) -> int:
        """How many private numbers, such as a user embedding, enter a client's training."""
        ...

    def update(
        self, sent: Mapping[str, Any], items: Any, interactions: Any, private: Any = None
    ) -> dict[str, Any]:
        """The update: what training adds to each of the tensors that were sent, by name.

        Args:
            sent: the global weights.
            items: features of the items handed out, items x features.
            interactions: of each item, from 0 (left alone) to 1 (acted on).
            private: the client's private numbers, where it has any.
        """
        ...


@runtime_checkable
class JointLearner(Learner, Protocol):
    """A learner that trains several clients in one call, which costs less than one after another.

    Tensors then have an axis of clients in front, and fillers where clients have fewer items.
    """

    def update(
        self,
        sent: Mapping[str, Any],
        items: Any,
        interactions: Any,
        private: Any = None,
        real: Any = None,
    ) -> dict[str, Any]:
        """The update of each client: what training adds to each of the tensors that were sent.

        Args:
            sent: the global weights of each client.
            items: features of the items handed out, clients x items x features.
            interactions: of each item, from 0 (left alone) to 1 (acted on).
            private: the clients' private numbers, where they have any.
            real: mask of the items that are no fillers; all unless given.
        """
        ...

    def join(self, learners: Sequence[Learner]) -> "JointLearner | None":
        """The learner that trains the clients of these learners in one call; None if it cannot."""
        ...


class Affine(NamedTuple):
    """An update as constant + matrix @ interactions; tensors in the order of their names."""

    constant: Float[np.ndarray, "*clients numbers"]
    matrix: Float[np.ndarray, "*clients numbers items"]


@runtime_checkable
class LinearisedLearner(Learner, Protocol):
    """A learner whose update is affine in the interactions once the path of weights is fixed."""

    @property
    def exact(self) -> bool:
        """Whether the update is exactly affine, because training is a single step."""
        ...

    def linearise(self, sent: Mapping[str, Any], items: Any, interactions: Any) -> Affine:
        """The update as an affine map, along the path that training takes with these interactions.

        At these interactions the map gives the update itself.
        """
        ...

    def reorder(self, rng: np.random.Generator, orders: int) -> "LinearisedLearner | None":
        """The learner of several clients, each of which trains in an order drawn at random.

        What it returns has an axis of clients in front, who share weights, items and interactions.
        None if the order is known.

        Args:
            rng: draws the orders.
            orders: number of orders, and of clients.
        """
        ...


Tensors = Mapping[str, np.ndarray]
"""Arrays by name, in the network's order: weights and buffers, or the changes to them."""


UpdateKind = Literal["weights", "update", "gradient"]


@dataclass(frozen=True, slots=True)
class LocalTraining:
    """What the protocol tells about how clients train; None stands for what it does not tell."""

    optimiser: str | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    epochs: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class ReceivedUpdate:
    """What the server got from one client in one round."""

    tensors: Tensors
    records: int | None
    """How many training records the client says it has: its own claim; None if it said nothing."""
    guarantee: Guarantee | None = None
    """The guarantee claimed for all that this client sent, up to and including this round."""


@dataclass(frozen=True, slots=True)
class MaskedSum:
    """All that secure aggregation shows the server: a sum, and the clients that it is of."""

    clients: tuple[str, ...]
    tensors: Tensors
    """The sum of what the clients would have sent, each weighted by its share of the records."""
    records: int | None
    """How many records they have together; None if the server is not told."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a federation, exactly as its server saw it."""

    number: int
    """Number of the round, from 0."""
    kind: UpdateKind
    """What clients send: their new ``weights``, an ``update`` (new less sent), or a ``gradient``
    of their mean loss at the weights sent."""
    sent: Tensors
    """The global weights that went out to the clients."""
    received: Mapping[str, ReceivedUpdate]
    """What each client sent, by client; empty under secure aggregation."""
    masked: MaskedSum | None = None
    training: LocalTraining = field(default_factory=LocalTraining)
    aggregated: Tensors | None = None
    """The new global weights that the server computed; None if it did not record them."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the server measured on the new weights, such as accuracy, by name; and under ``stated
    epsilon`` and ``stated delta`` what its mechanism states so far."""
    handed: Mapping[str, Tensors] = field(default_factory=dict)
    """The items that the server showed to each client, by client: arrays with one entry an item."""

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that took part in the round."""
        return tuple(self.received) + (self.masked.clients if self.masked else ())

    def change(self, client: str) -> dict[str, np.ndarray]:
        """What the client's training added to the weights it was sent, in whatever form it replied.

        For a gradient, that is one step of gradient descent.

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
    """A sequence of rounds, perhaps with only one of them in memory at a time; a tuple will do."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Round:
        """One round; IndexError beyond the last."""
        ...

    def __iter__(self) -> Iterator[Round]: ...


class RoundSignals(NamedTuple):
    """What one round says about records; columns of clients whose update did not arrive are NaN.

    The pseudo-gradient of a client is the weights that it was sent less those it came to.
    """

    loss: Float64[np.ndarray, "records clients"]
    """Cross-entropy of each record under each client's weights after its training, in nats."""
    inner: Float64[np.ndarray, "records clients"]
    """Inner product of each record's gradient, at the weights sent, and the pseudo-gradient."""
    gradient_norm: Float64[np.ndarray, " records"]
    """Euclidean norm of each record's gradient at the weights sent."""
    update_norm: Float64[np.ndarray, " clients"]
    """Euclidean norm of each pseudo-gradient."""


@runtime_checkable
class RecordedUpdates(Protocol):
    """The updates that a server got from clients, round by round, asked about records."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients, in the order of the columns of `RoundSignals`."""
        ...

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """What each round says about these records, in the order of the rounds.

        Raises:
            TargetError: the network could not be made, asked or differentiated.
        """
        ...

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """By round, the share of each record's input of a layer that no update's rows span.

        NaN for clients whose update did not arrive. Without a layer, that which can name most.

        Raises:
            NotApplicable: the network has no such layer.
        """
        ...


@runtime_checkable
class RecordedRounds(RecordedUpdates, Protocol):
    """Updates of rounds that can be cut short, and the models that came out of them."""

    def first(self, rounds: int) -> "RecordedRounds":
        """What the server had after so many of the rounds."""
        ...

    def models(self) -> tuple[Target, ...]:
        """Each client's model as it came out of the last round that has its own update.

        Raises:
            NotApplicable: no round has an own update of one of the clients.
        """
        ...


@dataclass(frozen=True, slots=True)
class UpdateView:
    """The view of an attacker who sees what the server sees, and attacks one client."""

    victim: str
    rounds: Rounds
    """The rounds in which the victim took part."""
    network: Callable[[], Any] | None = None
    """Function that builds the torch module that the weights belong to; None if unknown."""
    reference: Records | None = None
    """Records the attacker owns, of the same population as the victim's."""
    inputs: Shaped[np.ndarray, "items *features"] | None = None
    """Items that the server gave the victim to train on; None if clients use their own data."""
    learner: Learner | None = None
    """How clients compute updates from their interactions; None if the server does not know."""

    @classmethod
    def between(
        cls,
        sent: Tensors,
        got: Tensors,
        records: int,
        training: LocalTraining,
        network: Callable[[], Any] | None = None,
        reference: Records | None = None,
    ) -> "UpdateView":
        """The view that two state dictionaries of one round give: weights sent, weights received.

        Args:
            sent: the global weights.
            got: the victim's new weights.
            records: how many training records the victim says it has.
            training: how clients train.
            network: makes the module that the weights belong to.
            reference: records the attacker owns, of the same population as the victim's.
        """
        received = {"victim": ReceivedUpdate(got, records)}
        only = Round(0, "weights", sent, received, training=training)
        return cls("victim", (only,), network, reference)

    @property
    def offers(self) -> Need:
        """All that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        visible = any(self.victim in played.received for played in self.rounds)
        inputs = Need.NONE if self.inputs is None else Need.INPUTS
        return reference | inputs | (Need.UPDATES if visible else Need.NONE)
