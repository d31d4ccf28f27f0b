"""Simulate users of a federated search engine: their queries, clicks and updates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from divulge._util.arguments import check_arguments
from divulge.core import Game, Interactions, LocalTraining, Round, UpdateDefence, UpdateView
from divulge.data.ranking import Queries
from divulge.errors import SpecError
from divulge.federation import client_challenge, server
from divulge.federation.search import models
from divulge.federation.search.click_models import ClickModel
from divulge.federation.search.pairwise import Pairwise

Manipulate = Callable[
    [Float[np.ndarray, "items features"], np.random.Generator],
    Float[np.ndarray, "items features"],
]
"""Function by which a server manipulates features before it shows them."""


def keep_features(
    x: Float[np.ndarray, "items features"], rng: np.random.Generator
) -> Float[np.ndarray, "items features"]:
    """Show the features unchanged."""
    del rng
    return x


class _ShownDocuments(NamedTuple):
    """Documents of a query, in the order shown."""

    x: Float[np.ndarray, "places features"]
    grades: Int[np.ndarray, " places"]
    number: Int[np.ndarray, " places"]
    """Place of each among the query's documents in the file."""


class _UserSession(NamedTuple):
    """Documents that one user was shown, its clicks, and its update."""

    x: Float[np.ndarray, "items features"]
    query: Int[np.ndarray, " items"]
    acted: Bool[np.ndarray, " items"]
    change: dict[str, Tensor]


@check_arguments
@dataclass(frozen=True)
class Searching:
    """Users who train a ranker by FPDGD on what they click.

    Args:
        queries: queries with judged documents; those with a single document are never asked.
        clicks: click model of the users.
        shown: largest number of documents shown for a query, drawn by their scores.
        lr: learning rate of a step.
        manipulate: function by which the server manipulates the features of each query.
        order: order of a query's documents that the weights against position bias are for:
            ``shown``, or that of the ``file``, as RAIFLE's released code has it, which also hands
            the documents to the attack in that order.

    Raises:
        SpecError: fewer than two documents are shown, or no query has two.

    References:
        Wang et al. (2021), Effective and privacy-preserving federated online learning to rank;
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section V-B.
    """

    queries: Queries
    clicks: ClickModel
    shown: int = 10
    lr: float = 0.1
    manipulate: Manipulate = keep_features
    order: Literal["shown", "file"] = "shown"

    def __post_init__(self) -> None:
        if self.shown < 2 or not len(self._rankable_queries):
            raise SpecError(
                "expected two documents or more to be shown, got fewer: nothing to rank"
            )

    def challenge(
        self,
        weights: Mapping[str, Tensor],
        queries: int,
        defence: UpdateDefence,
        rng: np.random.Generator,
    ) -> Game[UpdateView, Interactions]:
        """Challenge on one user, who trains on its queries in an order of its own.

        The server knows which items belong to which query, and not the order.

        Args:
            weights: weights of the ranker.
            queries: number of queries of the user.
            defence: update defence.
            rng: random numbers of queries, lists, clicks, order and defence.

        Raises:
            SpecError: there are not so many queries.
        """
        simulated = self._simulate_user(weights, queries, rng)
        seed = int(rng.integers(2**31))
        learner = Pairwise(simulated.query, self.lr)
        return client_challenge.make_challenge(
            weights, simulated.x, simulated.acted, simulated.change, learner, defence, seed
        )

    def round(
        self,
        weights: Mapping[str, Tensor],
        users: int,
        queries: int,
        defence: UpdateDefence,
        rng: np.random.Generator,
        number: int = 0,
    ) -> tuple[Round, dict[str, Int[np.ndarray, " acted"]]]:
        """Simulate several such users as a round of a transcript, and return it with their clicks.

        Documents are numbered from 0 for each user, in the order in which they were shown.

        Args:
            weights: weights of the ranker.
            users: number of users, whose numbers go on from those of the rounds before.
            queries: number of queries of each user.
            defence: update defence.
            rng: random numbers of queries, lists, clicks, order and defence.
            number: number of the round.

        Raises:
            SpecError: there are not so many queries.
            DivulgeError: the defence refused.
        """
        names = range(number * users, (number + 1) * users)
        each = {name: self._simulate_user(weights, queries, rng) for name in names}
        sent = {name: w.numpy() for name, w in weights.items()}
        updates = {
            k: {n: w.numpy() for n, w in simulated.change.items()} for k, simulated in each.items()
        }
        sizes = {k: len(simulated.acted) for k, simulated in each.items()}
        promised = dict.fromkeys(updates, defence.guarantee())
        seed = int(rng.integers(2**31))
        received, masked = server.exchange_updates(
            defence, number, sent, updates, sizes, promised, seed
        )
        handed = {str(k): {"features": o.x, "query": o.query} for k, o in each.items()}
        acted = {str(k): np.flatnonzero(simulated.acted) for k, simulated in each.items()}
        training = LocalTraining("sgd", self.lr, epochs=1)
        return Round(number, "update", sent, received, masked, training, handed=handed), acted

    def _simulate_user(
        self, weights: Mapping[str, Tensor], queries: int, rng: np.random.Generator
    ) -> _UserSession:
        """Simulate one user, who trains on its queries in an order of its own."""
        rankable = self._rankable_queries
        if not 1 <= queries <= len(rankable):
            raise SpecError(f"expected 1 to {len(rankable)} queries a user, got {queries}")
        chosen = rng.choice(rankable, queries, replace=False)
        lists = [self._draw_documents(int(query), weights, rng) for query in chosen]
        # clicks depend on the order shown, whatever order weights go by
        clicks = [self.clicks.draw(ranking.grades, rng) for ranking in lists]
        if self.order == "file":
            orders = [np.argsort(ranking.number) for ranking in lists]
        else:
            orders = [np.arange(len(ranking.number)) for ranking in lists]
        x = np.concatenate([ranking.x[order] for ranking, order in zip(lists, orders, strict=True)])
        acted = np.concatenate(
            [ranking[order] for ranking, order in zip(clicks, orders, strict=True)]
        )
        query = np.repeat(np.arange(queries), [len(ranking.grades) for ranking in lists])
        turn = rng.permutation(queries)
        change = Pairwise(turn[query], self.lr).update(
            weights, torch.from_numpy(x), torch.from_numpy(acted).to(torch.float64)
        )
        return _UserSession(x, query, acted, change)

    def train(
        self,
        weights: Mapping[str, Tensor],
        defence: UpdateDefence,
        rng: np.random.Generator,
        users: int = 100,
    ) -> dict[str, Tensor]:
        """Train the ranker by one pass over the queries, each asked by a user of its own.

        Args:
            weights: weights of the ranker at the start.
            defence: update defence.
            rng: random numbers of order, lists, clicks and defence.
            users: number of users whose updates are averaged in each round.
        """
        trained = {name: w.clone() for name, w in weights.items()}
        order = rng.permutation(self._rankable_queries)
        for number, start in enumerate(range(0, len(order), users)):
            updates: dict[int, dict[str, np.ndarray]] = {}
            for user, query in enumerate(order[start : start + users].tolist()):
                x, grades, _ = self._draw_documents(query, trained, rng)
                clicks = torch.from_numpy(self.clicks.draw(grades, rng)).to(torch.float64)
                learner = Pairwise(np.zeros(len(x), np.int64), self.lr)
                change = learner.update(trained, torch.from_numpy(x), clicks)
                updates[user] = {name: value.numpy() for name, value in change.items()}
            ones, promised = dict.fromkeys(updates, 1), dict.fromkeys(updates, defence.guarantee())
            sent = {name: w.numpy() for name, w in trained.items()}
            got, masked = server.exchange_updates(
                defence, number, sent, updates, ones, promised, int(rng.integers(2**31))
            )
            mean = masked.tensors if masked else server.average(got.values())
            trained = {name: w + torch.from_numpy(mean[name]) for name, w in trained.items()}
        return trained

    def _draw_documents(
        self, query: int, weights: Mapping[str, Tensor], rng: np.random.Generator
    ) -> _ShownDocuments:
        """Draw documents of a query by their scores."""
        at = self._documents[query]
        x = self.manipulate(self.queries.x[at], rng)
        score = models.score(weights, torch.from_numpy(x)).numpy()
        lowest = score.min()
        weight = score - lowest + 1e-10 if lowest <= 0 else score
        drawn = rng.choice(len(x), min(self.shown, len(x)), replace=False, p=weight / weight.sum())
        return _ShownDocuments(x[drawn], self.queries.relevance[at][drawn], drawn)

    @cached_property
    def _documents(self) -> list[slice]:
        return self.queries.of_each()

    @cached_property
    def _rankable_queries(self) -> Int[np.ndarray, " queries"]:
        return np.flatnonzero(np.bincount(self.queries.query) > 1)
