"""Compute the matrix D - W of FPDGD: pairs of items, weighted against position bias."""

import functools
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def laplacian(
    score: Float[Tensor, "*queries items"], *, whole_derivative: bool = True
) -> Float[Tensor, "*queries items items"]:
    """Matrix D - W of FPDGD, for items in the order shown.

    Args:
        score: scores of the items by the ranker; minus infinity for an item that only fills up
            the batch, whose row and column are 0.
        whole_derivative: whether the weights against position bias have their whole derivative,
            or that of RAIFLE's released code; see `_drop_swapped`.
    """
    real = torch.isfinite(score)
    score = torch.where(real, score, _LOWEST)
    gap = score[..., :, None] - score[..., None, :]
    # e^a e^b / (e^a + e^b)² = s(a - b) s(b - a), s being the sigmoid
    longer = _log_odds(score, real)
    if not whole_derivative:
        longer = _drop_swapped(longer, score, real)
    weight = torch.sigmoid(gap) * torch.sigmoid(-gap) * torch.sigmoid(longer)
    weight = weight * (real[..., :, None] & real[..., None, :])
    return torch.diag_embed(weight.sum(-1)) - weight


_LOWEST = -1e30
"""Score of a filler, next to which each other one counts; infinity has no derivative."""


def _log_odds(
    score: Float[Tensor, "*queries items"], real: Bool[Tensor, "*queries items"]
) -> Float[Tensor, "*queries items items"]:
    """Logarithm of P(R*) / P(R), R* being the ranking R with items i and j swapped.

    Its sigmoid is the weight against position bias, r_ij = P(R*) / (P(R) + P(R*)).

    P is the Plackett-Luce probability of a ranking: the product over places of e^f over the sum of
    e^f at this place and all below it. Items i and j, i above j, change the sums of the places
    below i down to j alone, where they have e^f_i instead of e^f_j. Fillers have no place.
    """
    many = score.shape[-1]
    swaps = _Swaps.of(many, score.dtype)
    from_below = score.flip(-1)
    without = from_below[..., None, :].masked_fill(swaps.own, _LOWEST)  # one row an item left out
    # in logarithms: sums of e^f overflow float64 for scores beyond some 700
    sums = torch.cat([from_below[..., None, :], without], -2).logcumsumexp(-1)
    changed = torch.logaddexp(sums[..., 1 + swaps.lower, swaps.place], from_below[..., swaps.upper])
    ratio = sums[..., 0, swaps.place] - changed
    ratio = ratio * real.flip(-1)[..., swaps.place]
    longer: Tensor = (ratio @ swaps.pair).reshape(*score.shape, many)
    return longer


def _drop_swapped(
    longer: Float[Tensor, "*queries items items"],
    score: Float[Tensor, "*queries items"],
    real: Bool[Tensor, "*queries items"],
) -> Float[Tensor, "*queries items items"]:
    """The same log odds, with the derivative that RAIFLE's released code gives them.

    It makes a new tensor of the swapped rankings' probabilities, which drops their derivative. What
    is left is that of -log P(R), the sum over places of the log of the sum of e^f from there down;
    the scores themselves, which both rankings have, are left out of both.
    """
    sums = torch.where(real.flip(-1), score.flip(-1).logcumsumexp(-1), 0.0).sum(-1)
    return longer.detach() + (sums - sums.detach())[..., None, None]


class _Swaps(NamedTuple):
    """The places whose sum changes when two items change places: one entry a place and pair.

    Places are counted from below.
    """

    own: Bool[Tensor, "items items"]
    """Where an item is itself."""
    place: Int[Tensor, " changes"]
    upper: Int[Tensor, " changes"]
    """The item of the pair that is shown above the other."""
    lower: Int[Tensor, " changes"]
    pair: Float[Tensor, "changes pairs"]
    """1 in the two columns of the pair, of all items by all items."""

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def of(many: int, dtype: torch.dtype) -> "_Swaps":
        """The swaps of two of this many items."""
        each = torch.arange(many)
        between = (each[:, None, None] < each[:, None]) & (each[:, None, None] >= each)
        place, upper, lower = between.nonzero().T
        pair, change = torch.zeros(len(place), many, many, dtype=dtype), torch.arange(len(place))
        first, second = many - 1 - upper, many - 1 - lower
        pair[change, first, second] = pair[change, second, first] = 1
        return _Swaps(torch.eye(many) > 0, place, upper, lower, pair.flatten(1))
