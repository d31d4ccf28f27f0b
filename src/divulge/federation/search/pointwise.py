"""Train rankers on clicks item by item, by full-batch gradient descent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from divulge._util.arguments import check_arguments
from divulge.core import Affine, Learner
from divulge.errors import SpecError
from divulge.federation.search import models

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
        items: Float[Tensor, "*clients items features"],
        interactions: Float[Tensor, "*clients items"],
        private: None = None,
        real: Bool[Tensor, "clients items"] | None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change of the weights over all steps.

        Several clients share the weights that were sent, or have their own.

        Args:
            sent: weights of the ranker.
            items: features of the items shown, of one client or of several.
            interactions: 1 where a client acted on an item, else 0.
            private: there is none.
            real: mask of the items that count, where the others fill up a client's items; all
                unless given.
        """
        del private
        weights = dict(sent)
        counted = torch.ones_like(interactions) if real is None else real.to(items.dtype)
        weight = self._size(counted.sum(-1, keepdim=True)) * counted
        for _ in range(self.epochs):
            ranked = models.run(weights, items)
            # eq. 8, stepped down: -lr times its gradient, so that the factor becomes positive
            error = interactions - self._predict(ranked)
            step = ranked.vector_jacobian_product(weight * error)
            weights = {name: w + step[name] for name, w in weights.items()}
        return {name: weights[name] - w for name, w in sent.items()}

    def linearise(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "items features"],
        interactions: Float[Tensor, " items"],
    ) -> Affine:
        """Linearise the update: sums of the steps' matrices and constants along these clicks."""
        weights, size = dict(sent), float(self._size(items.new_tensor([len(items)])))
        numbers = sum(w.numel() for w in sent.values())
        matrix = torch.zeros(len(items), numbers, dtype=items.dtype).mT
        constant = torch.zeros(numbers, dtype=items.dtype)
        for _ in range(self.epochs):
            ranked = models.run(weights, items)
            predicted, gradients = self._predict(ranked), ranked.score_gradients()
            # eq. 9; later steps also depend on clicks through the weights, which eq. 10 excludes
            matrix += gradients
            constant -= gradients @ predicted
            step = models.split_vector(gradients @ (interactions - predicted), weights)
            weights = {name: w + size * step[name] for name, w in weights.items()}
        return Affine(size * constant.numpy(), size * matrix.numpy())

    def join(self, learners: Sequence[Learner]) -> "Pointwise | None":
        """This learner, which trains several clients in one call; None if one is another."""
        return self if all(each == self for each in learners) else None

    def reorder(self, rng: np.random.Generator, orders: int) -> None:
        """Nothing: each step is on all items, so there is no order."""
        del rng, orders

    def _size(self, items: Float[Tensor, "*clients 1"]) -> Float[Tensor, "*clients 1"]:
        """Factor of Jᵀ (I - prediction) in a step, by the number of items."""
        return 2 * self.lr * torch.ones_like(items) if self.loss == "squared" else self.lr / items

    def _predict(self, ranked: models.ForwardPass) -> Float[Tensor, "*clients items"]:
        return ranked.scores if self.loss == "squared" else torch.sigmoid(ranked.scores)
