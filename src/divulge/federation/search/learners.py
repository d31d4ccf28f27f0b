"""Train rankers on clicks, on pairs of items or item by item (federated learning to rank)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from divulge._util.arguments import check_arguments
from divulge.core import Affine
from divulge.errors import SpecError
from divulge.federation.search import models


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
            queries in the order of their numbers.
        lr: learning rate of one step.

    Raises:
        SpecError: the learning rate is not above 0.

    References:
        Oosterhuis and de Rijke (2018), Differentiable unbiased online learning to rank, eq. 5 to 8;
        Wang et al. (2021), Effective and privacy-preserving federated online learning to rank;
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, section V-B.
    """

    query: Int[np.ndarray, " items"]
    lr: float = 0.1

    private = 0

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise SpecError(f"expected a learning rate above 0, got {self.lr}")

    @property
    def exact(self) -> bool:
        """Whether the update is exactly linear in the clicks: with one query there is one step."""
        return len(np.unique(self.query)) == 1

    def update(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "items features"],
        interactions: Float[Tensor, " items"],
        private: None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change of the weights over all steps."""
        del private
        weights = dict(sent)
        for chosen in self._queries():
            x, clicks = items[chosen], interactions[chosen]
            pull = laplacian(models.score(weights, x)) @ clicks
            step = models.vector_jacobian_product(weights, x, pull)
            weights = {name: w + self.lr * step[name] for name, w in weights.items()}
        return {name: weights[name] - w for name, w in sent.items()}

    def linearise(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "items features"],
        interactions: Float[Tensor, " items"],
    ) -> Affine:
        """Linearise the update: the step lr Jᵀ (D - W) of each query along these clicks."""
        weights = dict(sent)
        numbers = sum(w.numel() for w in sent.values())
        rows = torch.zeros(len(items), numbers, dtype=items.dtype)  # of the transposed matrix
        for chosen in self._queries():
            x = items[chosen]
            each = models.score_gradients(weights, x).mT
            rows[chosen] = part = self.lr * laplacian(models.score(weights, x)) @ each
            step = _split_vector(interactions[chosen] @ part, weights)
            weights = {name: w + step[name] for name, w in weights.items()}
        return Affine(np.zeros(numbers), rows.mT.numpy())

    def reorder(self, rng: np.random.Generator) -> "Pairwise":
        """This training with its queries in an order drawn at random: a client keeps its own."""
        queries, place = np.unique(self.query, return_inverse=True)
        return replace(self, query=rng.permutation(len(queries))[place])

    def _queries(self) -> list[Tensor]:
        return [
            torch.from_numpy(np.flatnonzero(self.query == query)) for query in np.unique(self.query)
        ]


Loss = Literal["squared", "cross-entropy"]


@check_arguments
@dataclass(frozen=True)
class Pointwise:
    """Local training by full-batch gradient descent on how far scores are from clicks.

    The step of the squared error is 2 lr Jᵀ (I - f), that of the cross-entropy lr Jᵀ (I - s(f)) / n
    with the sigmoid s and n items: both are affine in the clicks I. So with one epoch theorem 1 of
    RAIFLE holds, and appendix A gives them in closed form.

    Args:
        epochs: number of local epochs, one step each.
        lr: learning rate of one step.
        loss: ``squared``, the sum of squared errors; or ``cross-entropy`` of scores as logits, the
            mean over items.

    Raises:
        SpecError: a setting makes no sense.

    References:
        Pham, Kulkarni and Houmansadr (2024), RAIFLE, equations 8 to 12 and section V-C.
    """

    epochs: int = 1
    lr: float = 0.01
    loss: Loss = "squared"

    private = 0

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.epochs < 1:
            raise SpecError(f"expected epochs and a learning rate above 0, got {self}")

    @property
    def exact(self) -> bool:
        """Whether theorem 1 holds: with one epoch there is one step."""
        return self.epochs == 1

    def update(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "items features"],
        interactions: Float[Tensor, " items"],
        private: None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change of the weights over all steps."""
        del private
        weights, size = dict(sent), self._size(len(items))
        for _ in range(self.epochs):
            error = interactions - self._predict(weights, items)
            step = models.vector_jacobian_product(weights, items, error)
            weights = {name: w + size * step[name] for name, w in weights.items()}
        return {name: weights[name] - w for name, w in sent.items()}

    def linearise(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "items features"],
        interactions: Float[Tensor, " items"],
    ) -> Affine:
        """Linearise the update: sums of the steps' matrices and constants along these clicks."""
        weights, size = dict(sent), self._size(len(items))
        numbers = sum(w.numel() for w in sent.values())
        matrix = torch.zeros(len(items), numbers, dtype=items.dtype).mT
        constant = torch.zeros(numbers, dtype=items.dtype)
        for _ in range(self.epochs):
            predicted = self._predict(weights, items)
            gradients = models.score_gradients(weights, items)
            matrix += gradients
            constant -= gradients @ predicted
            step = _split_vector(gradients @ (interactions - predicted), weights)
            weights = {name: w + size * step[name] for name, w in weights.items()}
        return Affine(size * constant.numpy(), size * matrix.numpy())

    def reorder(self, rng: np.random.Generator) -> "Pointwise":
        """This training: each step is on all items, so there is no order."""
        del rng
        return self

    def _size(self, items: int) -> float:
        """Factor of Jᵀ (I - prediction) in a step."""
        return 2 * self.lr if self.loss == "squared" else self.lr / items

    def _predict(
        self, weights: Mapping[str, Tensor], items: Float[Tensor, "items features"]
    ) -> Float[Tensor, " items"]:
        score = models.score(weights, items)
        return score if self.loss == "squared" else torch.sigmoid(score)


def laplacian(score: Float[Tensor, "*queries items"]) -> Float[Tensor, "*queries items items"]:
    """Matrix D - W of FPDGD, for items in the order shown.

    Args:
        score: scores of the items by the ranker; minus infinity for an item that only fills up
            the batch, whose row and column are 0.
    """
    real = torch.isfinite(score)
    finite = torch.where(real, score, 0.0)
    gap = finite[..., :, None] - finite[..., None, :]
    # e^a e^b / (e^a + e^b)² = s(a - b) s(b - a), s being the sigmoid
    weight = torch.sigmoid(gap) * torch.sigmoid(-gap) * _position_weight(score)
    weight = weight * (real[..., :, None] & real[..., None, :])
    return torch.diag_embed(weight.sum(-1)) - weight


def _position_weight(
    score: Float[Tensor, "*queries items"],
) -> Float[Tensor, "*queries items items"]:
    """Weights r_ij = P(R*) / (P(R) + P(R*)), R* being the ranking R with items i and j swapped.

    P is the Plackett-Luce probability of a ranking. Its numerators are the same for both.
    """
    shown = _log_denominator(score)
    other = _log_denominator(score[..., _swap_pairs(score.shape[-1])])
    return torch.sigmoid(shown[..., None, None] - other)


@functools.lru_cache(maxsize=16)
def _swap_pairs(many: int) -> Int[Tensor, "items items items"]:
    """Ranking in which items i and j have changed places, for all i and j."""
    swapped = torch.arange(many).repeat(many, many, 1)
    first, second = torch.meshgrid(torch.arange(many), torch.arange(many), indexing="ij")
    swapped[first, second, first], swapped[first, second, second] = second, first
    return swapped


def _log_denominator(score: Float[Tensor, "*rankings items"]) -> Float[Tensor, "*rankings"]:
    """Sum over places of log Σ e^f over this place and all below it; fillers have no place."""
    behind = score.flip(-1).logcumsumexp(-1).flip(-1)
    return torch.where(torch.isfinite(score), behind, 0.0).sum(-1)


def _split_vector(
    vector: Float[Tensor, " numbers"], like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Split a vector into tensors of these shapes, in the order of their names."""
    parts, start = {}, 0
    for name in sorted(like):
        parts[name] = vector[start : start + like[name].numel()].reshape(like[name].shape)
        start += like[name].numel()
    return parts
