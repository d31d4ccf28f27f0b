"""Define rankers small enough for a closed form: linear, or one hidden layer without biases."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from divulge._util.arguments import Count, CountFromZero, check_arguments

HIDDEN, OUTPUT = "hidden.weight", "output.weight"


@check_arguments
def ranker(features: Count, hidden: CountFromZero, generator: torch.Generator) -> dict[str, Tensor]:
    """Initialise a ranker with weights uniform in [-1, 1], in float64.

    Args:
        features: number of features of an item.
        hidden: number of hidden units; 0 is a linear ranker.
        generator: source of randomness.
    """
    shapes = (
        {HIDDEN: (hidden, features), OUTPUT: (1, hidden)} if hidden else {OUTPUT: (1, features)}
    )
    return {
        name: 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
        for name, shape in shapes.items()
    }


class ForwardPass(NamedTuple):
    """Items that a ranker has scored, and what derivatives of the scores need; see `run`."""

    weights: Mapping[str, Tensor]
    x: Float[Tensor, "*users items features"]
    before: Float[Tensor, "*users hidden items"] | None
    """Inputs of the hidden units; a linear ranker has none."""

    @property
    def scores(self) -> Float[Tensor, "*users items"]:
        """The score of each item."""
        inputs = self.x.mT if self.before is None else self.before.relu()
        return (self.weights[OUTPUT] @ inputs)[..., 0, :]

    def vector_jacobian_product(self, v: Float[Tensor, "*users items"]) -> dict[str, Tensor]:
        """Sum over items of v times the gradient of the item's score in the weights."""
        v = v[..., None, :]
        if self.before is None:
            return {OUTPUT: v @ self.x}
        back = v * self.weights[OUTPUT].mT * (self.before > 0)
        return {HIDDEN: back @ self.x, OUTPUT: v @ self.before.relu().mT}

    def score_gradients(self) -> Float[Tensor, "*users numbers items"]:
        """The gradient of each item's score in all weights, tensors in the order of their names."""
        if self.before is None:
            return self.x.mT
        before = self.before.mT
        back = self.weights[OUTPUT] * (before > 0)
        inner = (back[..., :, None] * self.x[..., None, :]).flatten(-2)
        return torch.cat([inner, before.relu()], -1).mT


def run(weights: Mapping[str, Tensor], x: Float[Tensor, "*users items features"]) -> ForwardPass:
    """Run the ranker on items; weights may have the users' axes in front."""
    # items last: a wide product takes half the time of a tall one
    return ForwardPass(weights, x, weights[HIDDEN] @ x.mT if HIDDEN in weights else None)


def score(
    weights: Mapping[str, Tensor], x: Float[Tensor, "*users items features"]
) -> Float[Tensor, "*users items"]:
    """Score each item by the ranker; weights may have the users' axes in front."""
    return run(weights, x).scores


def split_vector(
    vector: Float[Tensor, "*clients numbers"], like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Split a vector, or one a client, into tensors of these shapes, by the order of names."""
    names, front = sorted(like), vector.shape[:-1]
    parts = torch.split(vector, [like[name].numel() for name in names], -1)
    return {n: part.reshape(*front, *like[n].shape) for n, part in zip(names, parts, strict=True)}
