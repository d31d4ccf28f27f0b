"""Define rankers small enough for a closed form: linear, or one hidden layer without biases."""

from collections.abc import Mapping

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


def score(
    weights: Mapping[str, Tensor], x: Float[Tensor, "*users items features"]
) -> Float[Tensor, "*users items"]:
    """Score each item by the ranker; weights may have the users' axes in front."""
    if HIDDEN in weights:
        x = (x @ weights[HIDDEN].mT).relu()
    return (x @ weights[OUTPUT].mT)[..., 0]


def vector_jacobian_product(
    weights: Mapping[str, Tensor],
    x: Float[Tensor, "*users items features"],
    v: Float[Tensor, "*users items"],
) -> dict[str, Tensor]:
    """Sum over items of v times the gradient of the item's score in the weights."""
    if HIDDEN not in weights:
        return {OUTPUT: v[..., None, :] @ x}
    before = x @ weights[HIDDEN].mT
    back = v[..., None] * weights[OUTPUT] * (before > 0)
    return {HIDDEN: back.mT @ x, OUTPUT: v[..., None, :] @ before.relu()}


def score_gradients(
    weights: Mapping[str, Tensor], x: Float[Tensor, "*users items features"]
) -> Float[Tensor, "*users numbers items"]:
    """The gradient of each item's score in all weights, tensors in the order of their names."""
    if HIDDEN not in weights:
        return x.mT
    before = x @ weights[HIDDEN].mT
    back = weights[OUTPUT] * (before > 0)
    inner = (back[..., :, None] * x[..., None, :]).flatten(-2)
    return torch.cat([inner, before.relu()], -1).mT
