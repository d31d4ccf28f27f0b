"""Federations of users who act on what they are handed, each of whom takes part in one round."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int

from divulge._util.random import stream
from divulge.core import Round, Tensors, UpdateDefence
from divulge.errors import SpecError
from divulge.federation import server
from divulge.federation.recommender.model import ITEMS
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import models
from divulge.federation.search.users import Searching
from divulge.federation.simulation import Played
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.reader import Transcript

Acted = Mapping[str, Int[np.ndarray, " items"]]
"""By client, the numbers of the items that it acted on."""


@runtime_checkable
class Crowd(Protocol):
    """Users, of whom others take part in each round."""

    @property
    def table(self) -> str | None:
        """The tensor that has a row for each item, if one has."""
        ...

    def fresh(self) -> Tensors:
        """The first global weights."""
        ...

    def round(self, number: int, sent: Tensors) -> Round:
        """What the server sees of a round; the same whenever asked."""
        ...

    def acted(self, number: int, sent: Tensors) -> Acted:
        """What the users of a round acted on, which nobody tells the server."""
        ...


@dataclass(frozen=True, slots=True)
class Readers:
    """Users of a recommender, in an order drawn once.

    Args:
        world: who they are, and how they train.
        many: how many take part in a round.
        defence: what updates go through.

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

    def fresh(self) -> Tensors:
        """Embeddings and network as they are before anybody trained."""
        return self.world.start()

    def round(self, number: int, sent: Tensors) -> Round:
        """The next users train.

        Raises:
            SpecError: all took part already.
        """
        return self.world.round(self._now(number), self.defence, number, sent)[0]

    def acted(self, number: int, sent: Tensors) -> Acted:
        """What they acted on is in the log; nobody has to train again."""
        del sent
        return self.world.acted(self._now(number))

    def _now(self, number: int) -> list[int]:
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
class Searchers:
    """Users of a search engine.

    Args:
        world: what they ask, and what they click.
        many: how many take part in a round.
        asked: queries of each.
        hidden: units of the ranker; 0 is a linear one.
        defence: what updates go through.
        seed: of everything.
    """

    world: Searching
    many: int
    asked: int
    hidden: int
    defence: UpdateDefence
    seed: int

    _clicked: dict[tuple[int, str], Acted] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    table = None

    def fresh(self) -> Tensors:
        """A ranker that nobody trained."""
        generator = torch.Generator().manual_seed(int(stream(self.seed, "ranker").integers(2**62)))
        made = models.ranker(self.world.queries.x.shape[1], self.hidden, generator)
        return {name: weight.numpy() for name, weight in made.items()}

    def round(self, number: int, sent: Tensors) -> Round:
        """The next users, who ask queries drawn at random.

        Raises:
            SpecError: there are not so many queries.
        """
        return self._played(number, sent)[0]

    def acted(self, number: int, sent: Tensors) -> Acted:
        """What they clicked, which depends on what the ranker showed them.

        A round that was not played here is played again.
        """
        known = self._clicked.get((number, _digest(sent)))
        return self._played(number, sent)[1] if known is None else known

    def _played(self, number: int, sent: Tensors) -> tuple[Round, Acted]:
        weights = {name: torch.from_numpy(np.array(array)) for name, array in sent.items()}
        rng = stream(self.seed, "searching", number)
        seen, acted = self.world.round(weights, self.many, self.asked, self.defence, rng, number)
        self._clicked[number, _digest(sent)] = acted
        return seen, acted


@dataclass(frozen=True)
class HandingOut(Played):
    """A federation whose server hands out items; it adds the mean of updates to its weights.

    Args:
        name: for the transcript.
        crowd: who takes part.
        settings: all that its rounds depend on.
    """

    name: str
    crowd: Crowd
    settings: Mapping[str, Any]

    @property
    def header(self) -> Header:
        """What its transcript begins with."""
        fresh = self.crowd.fresh()
        shapes = {name: array.shape for name, array in fresh.items()}
        settings = {**self.settings, "fresh": _digest(fresh)}
        return Header(self.name, "update", shapes, "fedavg", settings, self.crowd.table)

    def rounds(self, first: int = 0, sent: Tensors | None = None) -> Iterator[Round]:
        """Round after round, each as soon as it is over.

        Args:
            first: the number of the first one.
            sent: the global weights it starts from; fresh ones unless given.

        Raises:
            DivulgeError: nobody is left to take part, or the defence refused.
        """
        weights = self.crowd.fresh() if sent is None else sent
        for number in itertools.count(first):
            seen = self.crowd.round(number, weights)
            mean = seen.masked.tensors if seen.masked else server.average(seen.received.values())
            weights = {name: array + mean[name] for name, array in weights.items()}
            yield replace(seen, aggregated=weights)

    def acted(self, transcript: Transcript) -> Acted:
        """What clients of a transcript of this federation acted on."""
        each = (self.crowd.acted(seen.number, seen.sent) for seen in transcript.rounds)
        return {client: items for told in each for client, items in told.items()}


def _digest(tensors: Tensors) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in tensors.values():
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
