"""What the server of a federation sees of its clients."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from divulge.core.records import Records
from divulge.core.targets import Need
from divulge.core.training import Guarantee
from divulge.errors import NotApplicable

# How a client of a federation learns from what it acted on, as its server knows it.


@runtime_checkable
class Learner(Protocol):
    """A client's local training as a function of its interactions, differentiable in them.

    Tensors are those of the framework that the learner is written in.
    """

    @property
    def private(self) -> int:
        """How many numbers of its own a client keeps that go into its training; 0 is none."""
        ...

    def update(
        self, sent: Mapping[str, Any], items: Any, interactions: Any, private: Any = None
    ) -> dict[str, Any]:
        """What training changes of what was sent, by name.

        Args:
            sent: the global weights.
            items: features of the items handed out, items x features.
            interactions: of each item, from 0 (left alone) to 1 (acted on).
            private: what the client keeps to itself, where there is any.
        """
        ...


class Affine(NamedTuple):
    """An update as constant + matrix @ interactions; tensors in the order of their names."""

    constant: Float[np.ndarray, " numbers"]
    matrix: Float[np.ndarray, "numbers items"]


@runtime_checkable
class LinearisedLearner(Learner, Protocol):
    """A learner whose update is affine in the interactions but for the way its weights take."""

    @property
    def exact(self) -> bool:
        """The update is affine as it is: there is one step."""
        ...

    def linearised(self, sent: Mapping[str, Any], items: Any, interactions: Any) -> Affine:
        """The update as an affine map, along the way that training takes with these interactions.

        At these interactions it gives the update itself.
        """
        ...


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
    handed: Mapping[str, Tensors] = field(default_factory=dict)
    """By client: the items that the server handed out to it, an entry an item in each array."""

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
    learner: Learner | None = None
    """How clients make updates of what they acted on, where the server knows."""

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
        """What two state dictionaries of one round show: the weights sent out, and those got back.

        Args:
            sent: the global weights.
            got: the victim's new weights.
            records: how many training records the victim says it has.
            training: how clients train.
            network: makes the module that the weights belong to.
            reference: records the attacker owns, of the same population as the victim's.
        """
        received = {"victim": Received(got, records)}
        only = Round(0, "weights", sent, received, training=training)
        return cls("victim", (only,), network, reference)

    @property
    def offers(self) -> Need:
        """All that an attack can use here."""
        reference = Need.NONE if self.reference is None else Need.REFERENCE
        seen = any(self.victim in seen.received for seen in self.rounds)
        inputs = Need.NONE if self.inputs is None else Need.INPUTS
        return reference | inputs | (Need.UPDATES if seen else Need.NONE)
