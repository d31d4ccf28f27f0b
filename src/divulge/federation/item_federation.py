"""Simulate federations of users who interact with the items that a server shows them."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int

from divulge._util.digest import digest
from divulge._util.json import Settings
from divulge._util.random import stream
from divulge.core import Round, Tensors, UpdateDefence
from divulge.errors import SpecError
from divulge.federation import server
from divulge.federation.recommender.model import ITEMS
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import models
from divulge.federation.search.users import Searching
from divulge.federation.simulation import SimulatedFederation
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.reader import Transcript

InteractionsByClient = Mapping[str, Int[np.ndarray, " items"]]
"""Numbers of the items that each client interacted with, by client."""


@runtime_checkable
class UserPopulation(Protocol):
    """Users of a service, each of whom takes part in one round."""

    @property
    def table(self) -> str | None:
        """Name of the tensor that has a row for each item; None if none has."""
        ...

    def initial_weights(self) -> Tensors:
        """First global weights."""
        ...

    def round(self, number: int, sent: Tensors) -> Round:
        """Simulate a round as the server sees it; equal numbers and weights give equal rounds."""
        ...

    def interactions_in_round(self, number: int, sent: Tensors) -> InteractionsByClient:
        """Interactions of the users of a round, which the server is not told."""
        ...


@dataclass(frozen=True, slots=True)
class RecommenderUsers:
    """Users of a recommender, in an order drawn once.

    Args:
        world: simulation of the users and their training.
        many: number of users in a round.
        defence: update defence.

    Raises:
        SpecError: nobody takes part.
    """

    world: Recommending
    many: int
    defence: UpdateDefence

    table = ITEMS

    def __post_init__(self) -> None:
        if self.many < 1:
            raise SpecError(f"expected one user a round or more, got {self.many}")

    def initial_weights(self) -> Tensors:
        """Untrained item embeddings and network."""
        return self.world.start()

    def round(self, number: int, sent: Tensors) -> Round:
        """Simulate a round of the next users.

        Raises:
            SpecError: all took part already.
        """
        return self.world.round(self._participants(number), self.defence, number, sent)[0]

    def interactions_in_round(self, number: int, sent: Tensors) -> InteractionsByClient:
        """Interactions of the users of a round, from the log: nobody has to train again."""
        del sent
        return self.world.interactions_of(self._participants(number))

    def _participants(self, number: int) -> list[int]:
        users = self.world.log.users
        order = stream(self.world.seed, "turns").permutation(users)
        now: list[int] = order[number * self.many : (number + 1) * self.many].tolist()
        if not now:
            raise SpecError(
                f"expected users who have not taken part in round {number}, all {users} have: "
                "ask for fewer rounds, or for fewer users in each"
            )
        return now


@dataclass(frozen=True, slots=True)
class SearchUsers:
    """Users of a search engine.

    Args:
        world: simulation of the users' queries, clicks and training.
        many: number of users in a round.
        asked: number of queries of each user.
        hidden: number of hidden units of the ranker; 0 is a linear ranker.
        defence: update defence.
        seed: seed of every random choice.
    """

    world: Searching
    many: int
    asked: int
    hidden: int
    defence: UpdateDefence
    seed: int

    _clicks_by_round: dict[tuple[int, str], InteractionsByClient] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    table = None

    def initial_weights(self) -> Tensors:
        """Untrained weights of the ranker."""
        generator = torch.Generator().manual_seed(int(stream(self.seed, "ranker").integers(2**62)))
        made = models.ranker(self.world.queries.x.shape[1], self.hidden, generator)
        return {name: weight.numpy() for name, weight in made.items()}

    def round(self, number: int, sent: Tensors) -> Round:
        """Simulate a round of the next users, whose queries are drawn at random.

        Raises:
            SpecError: there are not so many queries.
        """
        return self._simulate_round(number, sent)[0]

    def interactions_in_round(self, number: int, sent: Tensors) -> InteractionsByClient:
        """Clicks of the users of a round, which depend on what the ranker showed them.

        A round that was not simulated by this object is simulated again.
        """
        known = self._clicks_by_round.get((number, digest("", *sent.values())))
        return self._simulate_round(number, sent)[1] if known is None else known

    def _simulate_round(self, number: int, sent: Tensors) -> tuple[Round, InteractionsByClient]:
        weights = {name: torch.from_numpy(np.array(array)) for name, array in sent.items()}
        rng = stream(self.seed, "searching", number)
        played, acted = self.world.round(weights, self.many, self.asked, self.defence, rng, number)
        self._clicks_by_round[number, digest("", *sent.values())] = acted
        return played, acted


@dataclass(frozen=True)
class ItemFederation(SimulatedFederation):
    """A federation whose server shows items, and adds the mean of updates to its weights.

    Args:
        name: name of the federation in the transcript.
        crowd: users who take part.
        settings: everything that the rounds depend on, for the transcript.
    """

    name: str
    crowd: UserPopulation
    settings: Settings

    @property
    def header(self) -> Header:
        """Header of the transcript."""
        fresh = self.crowd.initial_weights()
        shapes = {name: array.shape for name, array in fresh.items()}
        settings = {**self.settings, "fresh": digest("", *fresh.values())}
        return Header(self.name, "update", shapes, "fedavg", settings, self.crowd.table)

    def rounds(self, first: int = 0, sent: Tensors | None = None) -> Iterator[Round]:
        """Yield one round after another.

        Args:
            first: number of the first round.
            sent: global weights that it starts from; fresh ones unless given.

        Raises:
            DivulgeError: nobody is left to take part, or the defence refused.
        """
        weights = self.crowd.initial_weights() if sent is None else sent
        for number in itertools.count(first):
            played = self.crowd.round(number, weights)
            mean = (
                played.masked.tensors if played.masked else server.average(played.received.values())
            )
            weights = {name: array + mean[name] for name, array in weights.items()}
            yield replace(played, aggregated=weights)

    def interactions_in(self, transcript: Transcript) -> InteractionsByClient:
        """Interactions of all clients in a transcript of this federation."""
        each = (
            self.crowd.interactions_in_round(played.number, played.sent)
            for played in transcript.rounds
        )
        return {client: items for interactions in each for client, items in interactions.items()}
