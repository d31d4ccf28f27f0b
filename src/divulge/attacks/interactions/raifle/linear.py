"""Linear systems give the interactions of updates that are affine in them, or nearly so."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from divulge.attacks.interactions.raifle import coins
from divulge.attacks.interactions.raifle.coins import PRIOR_MEAN, PRIOR_VARIANCE
from divulge.core import Affine, LinearisedLearner
from divulge.errors import NotApplicable


class Solution(NamedTuple):
    """Interactions, and how far the update determines them."""

    value: Float[np.ndarray, " items"]
    """Interaction with each item: about 1 where the user acted on it, about 0 elsewhere."""
    rank: int
    """Rank of the matrix that maps interactions to the update."""
    condition: float
    """Condition number of that matrix: its largest singular value over the smallest that counts."""
    left: float
    """Norm of the unexplained part of the update, over the norm of the update."""
    systems: int
    """Number of linear systems that were solved."""


def closed_form(affine: Affine, update: Float[np.ndarray, " numbers"]) -> Solution:
    """Least squares without limits: equation 12 of RAIFLE, by singular values.

    The normal equations of the paper have the square of this condition number.

    Raises:
        NotApplicable: the rank is below the number of items, so that many answers fit as well.
    """
    solution, rank, condition = _least_squares(affine, update)
    items = affine.matrix.shape[1]
    if rank < items:
        raise NotApplicable(
            f"expected an update that determines all {items} interactions, got equations of rank "
            f"{rank} (condition number {condition:.3g}): hand out fewer items or others, or take "
            "method='gauss-newton', which guesses"
        )
    return Solution(solution, rank, condition, _unexplained_share(affine, update, solution), 1)


def gauss_newton(
    learner: LinearisedLearner,
    sent: Mapping[str, Any],
    items: Any,
    update: Float[np.ndarray, " received"],
    received: Bool[np.ndarray, " numbers"],
    steps: int,
) -> Solution:
    """Posterior means of linear systems, each along the weights' way that the last one leads to.

    It starts from one half for all items, and ends when a system explains the update no better
    than the one before (the unknown order of a client's queries, and noise, leave a rest), or
    when interactions hardly move any more.

    Args:
        learner: how the client trains.
        sent: the global weights, as tensors of the learner's framework.
        items: features of the items shown, as a tensor of the learner's framework.
        update: the received numbers, tensors in the order of their names.
        received: true for the numbers of an update that arrived.
        steps: the most systems to solve.
    """
    best: _Posterior | None = None
    value = np.full(len(items), PRIOR_MEAN)
    for step in range(1, steps + 1):
        way = items.new_tensor(np.clip(value, 0.0, 1.0))
        affine = select_received(learner.linearise(sent, items, way), received)
        posterior = _posterior(affine, update)
        if best is not None and posterior.surprise >= best.surprise:
            break
        moved = float(np.abs(posterior.value - value).max())
        best, value, systems = posterior, posterior.value, step
        left = _unexplained_share(affine, update, value)
        if learner.exact or moved < _SMALLEST_MOVE:
            break
    assert best is not None
    return Solution(best.value, best.rank, best.condition, left, systems)


def settle_coins(
    learner: LinearisedLearner,
    sent: Mapping[str, Any],
    items: Any,
    update: Float[np.ndarray, " received"],
    received: Bool[np.ndarray, " numbers"],
    start: Solution,
    rng: np.random.Generator,
) -> Solution:
    """Posterior means where interactions are 0 or 1, from those of a normal prior.

    Where clients keep the order of their steps to themselves, updates are simulated in orders drawn
    at random: the system is that of their mean, and what they vary by is part of its noise. Numbers
    that are 0 though interactions move them are left out, as clients may drop small ones (top-k).
    If the start, rounded, explains the last system better than what was found, it is returned.

    Args:
        learner: how the client trains.
        sent: the global weights, as tensors of the learner's framework.
        items: features of the items shown, as a tensor of the learner's framework.
        update: the received numbers, tensors in the order of their names.
        received: true for the numbers of an update that arrived.
        start: solution of `gauss_newton`.
        rng: random numbers of the orders.
    """
    ordered = [learner.reorder(rng, _LINEARISED_ORDERS), learner.reorder(rng, _FURTHER_ORDERS)]
    learners = [drawn for drawn in ordered if drawn is not None] or [learner]
    value, moved, systems = start.value.clip(0.0, 1.0), np.inf, 0
    belief: coins.Belief | None = None
    while moved >= _SMALLEST_MOVE and systems < _COIN_SYSTEMS:
        affine, drifts = _average_orders(learners, sent, items, value, received)
        informative = (update != 0) | ~affine.matrix.any(axis=1)
        rest = update - affine.constant
        white = coins.whiten(affine.matrix[informative], rest[informative], drifts[:, informative])
        # the next system differs by little: it goes on where this one ended
        belief = coins.propagate(white, belief)
        before, value = value, belief.probability
        moved, systems = float(np.abs(value - before).max()), systems + 1
    rounded = ((mean > PRIOR_MEAN).astype(np.float64) for mean in (start.value, value))
    by_normal, by_coins = (coins.unexplained(white, labels) for labels in rounded)
    if by_normal < by_coins:
        return start
    left = _unexplained_share(affine, update, value)
    return start._replace(value=value, left=left, systems=start.systems + systems)


def _average_orders(
    learners: Sequence[LinearisedLearner],
    sent: Mapping[str, Any],
    items: Any,
    value: Float[np.ndarray, " items"],
    received: Bool[np.ndarray, " numbers"],
) -> tuple[Affine, Float[np.ndarray, "orders received"]]:
    """Linearise the mean update over orders, and say how far each order's update is from it.

    The learners are those of several orders each, of which the first are linearised; or the one
    learner of the only order.
    """
    way = items.new_tensor(value)
    affine = learners[0].linearise(sent, items, way)
    each = affine.matrix.reshape(-1, *affine.matrix.shape[-2:])
    # a system gives the update along its own way: those of the first learner need no simulation
    parts = [affine.constant.reshape(len(each), -1) + each @ value]
    for learner in learners[1:]:
        change = learner.update(sent, items, way)
        flat = [change[n].numpy().reshape(-1, sent[n].numel()) for n in sorted(change)]
        parts.append(np.concatenate(flat, 1))
    updates = np.concatenate(parts)[:, received]
    matrix, mean = each.mean(axis=0)[received], updates.mean(axis=0)
    return Affine(mean - matrix @ value, matrix), updates - mean


_LINEARISED_ORDERS = 8
"""Number of orders of a client's steps, drawn where its own is not known, whose matrices are
averaged."""
_FURTHER_ORDERS = 16
"""Number of further orders, whose updates show with the others' how much the order matters."""
_COIN_SYSTEMS = 4
"""Most systems that are solved for interactions of 0 and 1."""
_SMALLEST_MOVE = 1e-3
"""Smallest move: a system that moves no interaction further is the last one."""


class _Posterior(NamedTuple):
    value: Float[np.ndarray, " items"]
    surprise: float
    """Minus the logarithm of the update's probability density, but for a constant."""
    rank: int
    condition: float


def _posterior(affine: Affine, update: Float[np.ndarray, " numbers"]) -> _Posterior:
    """The posterior mean of interactions with a normal prior, and noise of the likeliest size.

    What the update does not determine stays at the prior mean. The size of the noise is the one
    that makes the update most probable, so nobody has to say whether there is any: where the
    system explains all, next to none is left, and the mean is the least-squares solution.

    Squares of singular values, from the smaller of the two products of the matrix with itself, are
    a third of the work of the values. They are exact to 1e-16 of the largest, and noise is never
    taken for less than about 1e-9 of a mean one: smaller ones count neither there nor in the rank.

    References:
        MacKay (1992), Bayesian interpolation, equation 2.13 (the evidence).
    """
    matrix = affine.matrix
    numbers, items = matrix.shape
    # centred on the prior mean, so that what is not determined stays there
    rest = update - affine.constant - matrix.sum(axis=1) * PRIOR_MEAN
    pull = matrix.T @ rest
    # the smaller product: both have the same eigenvalues but for zeros
    square, basis = np.linalg.eigh(matrix.T @ matrix if items <= numbers else matrix @ matrix.T)
    square = square.clip(min=0.0)
    along = basis.T @ (pull if items <= numbers else rest)
    power = along**2 if items <= numbers else square * along**2
    total = max(float(rest @ rest), 1e-200)
    noises = total / numbers * np.exp(np.linspace(-20, 2, 89))
    # for each size of noise the update's variance along each axis
    spread = PRIOR_VARIANCE * square + noises[:, None]
    # the quadratic form of the evidence (MacKay, eq. 2.13), by Woodbury
    fit = (total - (PRIOR_VARIANCE * power / spread).sum(axis=1)) / noises
    size = np.log(spread).sum(axis=1) + (numbers - len(square)) * np.log(noises)
    surprise = (size + fit) / 2
    likeliest = int(surprise.argmin())
    gained = basis @ (PRIOR_VARIANCE * along / spread[likeliest])
    shift = gained if items <= numbers else matrix.T @ gained
    mean = PRIOR_MEAN + np.where(matrix.any(axis=0), shift, 0.0)  # no trace: a tie, not rounding
    least = max(_cutoff(affine, update) ** 2, np.finfo(np.float64).eps * max(matrix.shape))
    counted = square[square > least * square[-1]]
    condition = float(np.sqrt(counted[-1] / counted[0])) if len(counted) else np.inf
    return _Posterior(mean, float(surprise[likeliest]), len(counted), condition)


def select_received(affine: Affine, received: Bool[np.ndarray, " numbers"]) -> Affine:
    """The map to those numbers of an update that arrived."""
    if received.all():
        return affine
    return Affine(affine.constant[received], affine.matrix[received])


def _least_squares(
    affine: Affine, update: Float[np.ndarray, " numbers"]
) -> tuple[Float[np.ndarray, " items"], int, float]:
    # eq. 12 by singular values: its normal equations would square the condition number
    solution, _, rank, values = np.linalg.lstsq(
        affine.matrix, update - affine.constant, rcond=_cutoff(affine, update)
    )
    condition = float(values[0] / values[rank - 1]) if rank else np.inf
    return solution, int(rank), condition


def _cutoff(affine: Affine, update: Float[np.ndarray, " numbers"]) -> float:
    """The part of the largest singular value that counts as nothing, at the update's precision."""
    items_or_numbers: int = max(affine.matrix.shape)
    return float(np.finfo(update.dtype).eps) * items_or_numbers


def _unexplained_share(
    affine: Affine, update: Float[np.ndarray, " numbers"], value: Float[np.ndarray, " items"]
) -> float:
    rest = update - affine.constant - affine.matrix @ value
    received = max(float(np.linalg.norm(update)), 1e-300)
    return float(np.linalg.norm(rest)) / received
