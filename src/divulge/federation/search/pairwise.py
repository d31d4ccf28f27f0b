"""Train rankers on clicks, on pairs of items or item by item (federated learning to rank)."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from divulge._util.arguments import check_arguments
from divulge.core import Affine, Learner
from divulge.errors import SpecError
from divulge.federation.search import models
from divulge.federation.search.laplacian import laplacian


@check_arguments
@dataclass(frozen=True)
class Pairwise:
    """Local training of FPDGD: one step of gradient ascent a query, on pairs of click and none.

    Where I is 1 for a click, the step of a query is lr times the sum over pairs (i, j) of
    I_i (1 - I_j) w_ij (∇f_i - ∇f_j), with w_ij = r_ij e^f_i e^f_j / (e^f_i + e^f_j)² and r_ij the
    weight against position bias. As w is symmetric, the products of two I cancel: the step is
    lr Jᵀ (D - W) I, with the rows ∇f_i of J, W = (w_ij), and D its row sums. Only the way that the
    weights take from query to query is not linear in I.

    Args:
        query: number of each item's query, items in the order shown; training steps through
            queries in the order of their numbers. With an axis of clients in front it trains
            several in one call; fillers at the end of a client's items then have number -1.
        lr: learning rate of one step.
        whole_derivative: whether the derivative of a training by clicks is whole, or lacks what
            RAIFLE's released code drops; the training itself is the same.

    Raises:
        SpecError: the learning rate is not above 0.

    References:
        Oosterhuis and de Rijke (2018), Differentiable unbiased online learning to rank, eq. 5 to 8;
        Wang et al. (2021), Effective and privacy-preserving federated online learning to rank;
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section V-B.
    """

    query: Int[np.ndarray, "*clients items"]
    lr: float = 0.1
    whole_derivative: bool = True

    private = 0

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise SpecError(f"expected a learning rate above 0, got {self.lr}")

    @property
    def exact(self) -> bool:
        """Whether the update is exactly linear in the clicks: with one query there is one step."""
        return len(self._steps) == 1

    def update(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "*clients items features"],
        interactions: Float[Tensor, "*clients items"],
        private: None = None,
        real: Bool[Tensor, "clients items"] | None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change of the weights over all steps.

        Several clients may share weights, items and interactions, or have their own. The mask of
        items that are no fillers is not read: the numbers of their queries tell them apart.
        """
        del private, real
        weights, of = self._start(sent, items, interactions)
        for step in self._steps:
            ranked, laplace = step.rank(weights, of, whole_derivative=self.whole_derivative)
            # I_i I_j cancels in the sum over pairs, as W is symmetric: (D - W) I is what is left
            pull = (laplace @ step.choose(of.interactions)[..., None])[..., 0]
            change = ranked.vector_jacobian_product(pull)
            weights = {name: w + self.lr * change[name] for name, w in weights.items()}
        moved = {name: weights[name] - w for name, w in sent.items()}
        return moved if self._many else {name: w[0] for name, w in moved.items()}

    def linearise(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "*clients items features"],
        interactions: Float[Tensor, "*clients items"],
    ) -> Affine:
        """Linearise the update: the step lr Jᵀ (D - W) of each query along these clicks.

        Several clients share the weights that were sent.
        """
        weights, of = self._start(sent, items, interactions)
        clients, many = of.interactions.shape
        numbers = sum(w.numel() for w in sent.values())
        rows = of.items.new_zeros(clients, many + 1, numbers)  # transposed; fillers' are the last
        for step in self._steps:
            ranked, laplace = step.rank(weights, of, whole_derivative=self.whole_derivative)
            # the weights are taken as given: only then is a query's step linear in its clicks
            part = self.lr * laplace @ ranked.score_gradients().mT
            rows[step.client, step.row] = part
            change = (step.choose(of.interactions)[:, None] @ part)[:, 0]
            parts = models.split_vector(change, sent)
            weights = {name: w + parts[name] for name, w in weights.items()}
        constant, matrix = np.zeros((clients, numbers)), rows[:, :many].mT.numpy()
        return Affine(constant, matrix) if self._many else Affine(constant[0], matrix[0])

    def join(self, learners: Sequence[Learner]) -> "Pairwise | None":
        """The learner that trains the clients of these learners in one call; None if they differ.

        They may differ in the numbers of queries.
        """
        settings = self.lr, self.whole_derivative
        alike = [
            each
            for each in learners
            if isinstance(each, Pairwise) and (each.lr, each.whole_derivative) == settings
        ]
        if len(alike) < len(learners):
            return None
        query = np.full((len(alike), max(len(each.query) for each in alike)), _FILLER)
        for row, each in zip(query, alike, strict=True):
            row[: len(each.query)] = each.query
        return replace(self, query=query)

    def reorder(self, rng: np.random.Generator, orders: int) -> "Pairwise":
        """Clients that train on this one's items with the queries in an order drawn at random."""
        queries, place = np.unique(self.query, return_inverse=True)
        drawn = [rng.permutation(len(queries))[place] for _ in range(orders)]
        return replace(self, query=np.stack(drawn))

    @property
    def _many(self) -> bool:
        return self.query.ndim == 2

    def _start(
        self, sent: Mapping[str, Tensor], items: Tensor, interactions: Tensor
    ) -> tuple[dict[str, Tensor], "_ShownItems"]:
        """Weights and data of one or several clients, with an axis of clients in front."""
        clients = len(self.query) if self._many else 1
        shown = _ShownItems(
            items if items.ndim == 3 else items.expand(clients, -1, -1),
            interactions if interactions.ndim == 2 else interactions.expand(clients, -1),
        )
        return {name: w if w.ndim == 3 else w[None] for name, w in sent.items()}, shown

    @functools.cached_property
    def _steps(self) -> "list[_QueryStep]":
        """The items of each step of all clients; one with fewer queries stands still at the end."""
        each = [
            [np.flatnonzero(query == number) for number in np.unique(query[query != _FILLER])]
            for query in np.atleast_2d(self.query)
        ]
        return [_QueryStep.of(chosen, self.query.shape[-1]) for chosen in zip_longest(*each)]


_FILLER = -1
"""Number of the query of what only fills up a client's items."""


class _ShownItems(NamedTuple):
    """Items shown to clients, and what they did with them."""

    items: Float[Tensor, "clients items features"]
    interactions: Float[Tensor, "clients items"]


class _QueryStep(NamedTuple):
    """Which items each client trains on in a step."""

    client: Int[Tensor, "clients 1"]
    place: Int[Tensor, "clients shown"]
    """Number of each item; fillers have that of the first."""
    row: Int[Tensor, "clients shown"]
    """Number of each item; fillers have the one after the last."""
    filler: Bool[Tensor, "clients shown"] | None
    """Which are fillers; None where there are none."""

    @classmethod
    def of(cls, chosen: Sequence[Int[np.ndarray, "_"] | None], many: int) -> "_QueryStep":
        """The step on these items of each client, None where a client has none left."""
        longest = max(len(positions) for positions in chosen if positions is not None)
        row = np.full((len(chosen), longest), many)
        for places, positions in zip(row, chosen, strict=True):
            if positions is not None:
                places[: len(positions)] = positions
        filler = row == many
        place = torch.from_numpy(np.where(filler, 0, row))
        mask = torch.from_numpy(filler) if filler.any() else None
        return cls(torch.arange(len(row))[:, None], place, torch.from_numpy(row), mask)

    def choose(
        self, interactions: Float[Tensor, "clients items"]
    ) -> Float[Tensor, "clients shown"]:
        """What each client did with the items of the step."""
        return interactions.gather(1, self.place)

    def rank(
        self, weights: Mapping[str, Tensor], shown: _ShownItems, *, whole_derivative: bool
    ) -> tuple[models.ForwardPass, Float[Tensor, "clients shown shown"]]:
        """Score the items of the step; also the matrix D - W of their scores, 0 for fillers."""
        ranked = models.run(weights, shown.items[self.client, self.place])
        score = ranked.scores
        return ranked, laplacian(
            score if self.filler is None else score.masked_fill(self.filler, -torch.inf),
            whole_derivative=whole_derivative,
        )
