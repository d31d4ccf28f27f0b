"""Interactions are 0 or 1: expectation propagation finds how likely each one is 1."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack, solve_triangular
from scipy.special import expit, logit
from scipy.stats import chi2
from sklearn.covariance import ledoit_wolf

PRIOR_MEAN, PRIOR_VARIANCE = 0.5, 0.25
"""Of a fair coin."""
_ITERATIONS = 150
_DAMPING = 0.3
_SMALLEST_MOVE = 1e-4
_LEAST_VARIANCE = 1e-8
_LEAST_PRECISION = 1e-6
_IMPLAUSIBLE = 1e-3
"""An answer is taken for wrong if noise leaves as much unexplained with less probability."""
_TINY = 1e-300
"""Least variance of an interaction, for rounding."""

_Items = Float[np.ndarray, " items"]
_Solver = Callable[[_Items, _Items], tuple[_Items, _Items]]
"""Means and variances of interactions that have normal factors of these precisions and shifts."""


class WhiteSystem(NamedTuple):
    """A linear system whose noise has variance 1 in each equation."""

    matrix: Float[np.ndarray, "equations items"]
    rest: Float[np.ndarray, " equations"]
    """What ``matrix`` times the interactions is to explain."""


class Belief(NamedTuple):
    """What expectation propagation ends with."""

    probability: Float[np.ndarray, " items"]
    """That each interaction is 1."""
    precision: Float[np.ndarray, " items"]
    """Of the normal factor of each coin."""
    shift: Float[np.ndarray, " items"]
    """Mean of each factor times its precision."""


def whiten(
    matrix: Float[np.ndarray, "numbers items"],
    rest: Float[np.ndarray, " numbers"],
    drifts: Float[np.ndarray, "draws numbers"],
) -> WhiteSystem:
    """Whiten a system whose noise is partly known by examples.

    The noise is a sum: of what ``drifts`` vary by, and of equal noise in all numbers, whose size
    makes ``rest`` most probable. Few draws leave their covariance uncertain: it is shrunk, in the
    coordinates in which ``rest`` is white, so that no direction counts as free of noise.

    Args:
        matrix: numbers of an update by interaction.
        rest: the update less its part that does not depend on interactions.
        drifts: draws of the structured noise, around 0; all zeros if there is none.

    References:
        MacKay (1992), Bayesian interpolation, equation 2.13 (the evidence); Ledoit and Wolf (2004),
        A well-conditioned estimator for large-dimensional covariance matrices.
    """
    many, outside, beyond = len(rest), 0.0, 0
    if many > matrix.shape[1] + len(drifts):  # the other directions hold equal noise alone
        basis, _ = np.linalg.qr(np.concatenate([matrix, drifts.T], axis=1))
        inside = basis.T @ rest
        outside, beyond = max(float(rest @ rest - inside @ inside), 0.0), many - len(inside)
        matrix, rest, drifts = basis.T @ matrix, inside, drifts @ basis
    signal = PRIOR_VARIANCE * matrix @ matrix.T
    drift = _shrink(signal, drifts)
    left = rest - matrix.sum(axis=1) * PRIOR_MEAN
    values, vectors = np.linalg.eigh(signal + drift)
    values, power = values.clip(min=0.0), (vectors.T @ left) ** 2
    total = max(float(left @ left) + outside, 1e-200)
    noises = total / many * np.exp(np.linspace(-24, 2, 105))
    spread = values + noises[:, None]
    # MacKay, eq. 2.13: minus twice the log evidence, in the axes where the covariance is diagonal
    surprise = (np.log(spread) + power / spread).sum(axis=1)
    # directions that were projected away hold equal noise alone
    surprise += beyond * np.log(noises) + outside / noises
    noise = noises[int(surprise.argmin())]
    size, axes = np.linalg.eigh(drift)
    white = (axes / np.sqrt(size.clip(min=0.0) + noise)).T
    return WhiteSystem(white @ matrix, white @ rest)


def _shrink(
    signal: Float[np.ndarray, "numbers numbers"], drifts: Float[np.ndarray, "draws numbers"]
) -> Float[np.ndarray, "numbers numbers"]:
    """Covariance of the drifts, shrunk in the coordinates in which the update is white."""
    if not drifts.any():
        return np.zeros_like(signal)
    values, vectors = np.linalg.eigh(signal + drifts.T @ drifts / len(drifts))
    # smaller eigenvalues are rounding, and their roots would be divided by
    counted = values > values[-1] * 1e-13
    root, axes = np.sqrt(values[counted]), vectors[:, counted]
    shrunk, _ = ledoit_wolf(drifts @ (axes / root), assume_centered=True)
    back = axes * root
    covariance: Float[np.ndarray, "numbers numbers"] = back @ shrunk @ back.T
    return covariance


def propagate(system: WhiteSystem, start: Belief | None = None) -> Belief:
    """Probability that each interaction is 1, where all are fair coins before the update.

    Each coin is stood in for by a normal factor, which is fitted in turn to what the coin makes of
    what all others say about it, with damping. Items without a trace stay at one half exactly.

    With little noise and fewer equations than items this can end at a combination that leaves far
    more unexplained than noise does. If so, all is repeated: the noise begins at a size that would
    explain what was left and is then halved step by step, and the coins' common rate, no longer one
    half, is estimated on the way. The answer that leaves less unexplained is returned.

    Args:
        system: the system.
        start: what a system much like this one ended with; factors of fair coins unless given.

    References:
        Minka (2001), Expectation propagation for approximate Bayesian inference; Ueda and Nakano
        (1998), Deterministic annealing EM algorithm; Vila and Schniter (2013),
        Expectation-maximization Gaussian-mixture approximate message passing (the rate).
    """
    belief = _lower_noise(system, 1.0, start or _fair_coins(system), fair=True)
    left, equations = unexplained(system, belief.probability), len(system.rest)
    # at the truth the unexplained squares are chi-squared with one degree an equation; a start has
    # been through this
    if start is None and chi2.sf(left, equations) < _IMPLAUSIBLE:
        noise = max(float(np.sqrt(left / equations)), 1.0)
        again = _lower_noise(system, noise, _fair_coins(system), fair=False)
        belief = min(belief, again, key=lambda end: unexplained(system, end.probability))
    traced = system.matrix.any(axis=0)
    return belief._replace(probability=np.where(traced, belief.probability, PRIOR_MEAN))


def _fair_coins(system: WhiteSystem) -> Belief:
    """Fair coins, and normal factors of their mean and variance."""
    items = system.matrix.shape[1]
    precision = np.full(items, 1 / PRIOR_VARIANCE)
    return Belief(np.full(items, PRIOR_MEAN), precision, precision * PRIOR_MEAN)


def _lower_noise(system: WhiteSystem, noise: float, start: Belief, *, fair: bool) -> Belief:
    """Beliefs at standard deviations of the noise from ``noise`` down to 1, halved each time.

    Args:
        system: the system.
        noise: first standard deviation, at least 1.
        start: the belief to begin with.
        fair: whether coins are fair; if not, their common rate is estimated.
    """
    equations, items = system.matrix.shape
    odds = 0.0
    probability, precision, shift = start
    marginals = _solve_by_item if items <= equations else _solve_by_equation
    while True:
        scaled = WhiteSystem(system.matrix / noise, system.rest / noise)
        solve = marginals(scaled)
        for _ in range(_ITERATIONS):
            mean, variance = solve(precision, shift)
            # the cavity: what all others say, with this item's own factor divided out
            others = (1 / variance - precision).clip(min=_LEAST_PRECISION)
            centre = (mean / variance - shift) / others
            if not fair:
                rate = (probability.sum() + 1) / (items + 2)  # Laplace's rule of succession
                odds += _DAMPING * (logit(rate) - odds)
            before, probability = probability, expit((centre - 0.5) * others + odds)
            # moments of the tilted Bernoulli, which the normal factor is to match
            own = (probability * (1 - probability)).clip(min=_LEAST_VARIANCE)
            fitted, pull = 1 / own - others, probability / own - centre * others
            # a factor of negative precision is no normal: the old one stays for this round
            sound = fitted > _LEAST_PRECISION
            precision = np.where(sound, precision + _DAMPING * (fitted - precision), precision)
            shift = np.where(sound, shift + _DAMPING * (pull - shift), shift)
            if np.abs(probability - before).max() < _SMALLEST_MOVE:
                break
        if noise == 1.0:
            return Belief(probability, precision, shift)
        noise = max(noise / 2, 1.0)


def unexplained(system: WhiteSystem, value: Float[np.ndarray, " items"]) -> float:
    """Sum of squares that interactions leave unexplained; chi-squared at the true ones."""
    return float(((system.rest - system.matrix @ value) ** 2).sum())


def _solve_by_item(system: WhiteSystem) -> _Solver:
    """Marginals by the inverse root of the interactions' precision, fastest with few items."""
    square, pull = system.matrix.T @ system.matrix, system.matrix.T @ system.rest

    def solve(precision: _Items, shift: _Items) -> tuple[_Items, _Items]:
        root, _ = lapack.dtrtri(_factor(square + np.diag(precision)), lower=1)
        return root.T @ (root @ (pull + shift)), (root**2).sum(axis=0).clip(min=_TINY)

    return solve


def _solve_by_equation(system: WhiteSystem) -> _Solver:
    """Marginals by the root of the equations' covariance, fastest with few equations."""
    matrix, rest = system

    def solve(precision: _Items, shift: _Items) -> tuple[_Items, _Items]:
        deviation, start = 1 / np.sqrt(precision), shift / precision
        scaled = matrix * deviation
        root = _factor(scaled @ scaled.T + np.eye(len(rest)))
        both = np.column_stack([scaled, rest - matrix @ start])
        white = solve_triangular(root, both, lower=True, check_finite=False)
        explained, left = white[:, :-1], white[:, -1]
        # Woodbury: with fewer equations than items the smaller matrix is factored
        variance = (1 - (explained**2).sum(axis=0)) / precision
        return start + deviation * (left @ explained), variance.clip(min=_TINY)

    return solve


def _factor(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The lower Cholesky factor of a matrix that is positive definite, but perhaps for rounding.

    Where rounding took that away, the diagonal grows by as little as gives it back.

    References:
        Demmel (1989), On floating point errors in Cholesky: how little that is.
    """
    more = len(matrix) * np.finfo(np.float64).eps
    root: Float[np.ndarray, "n n"]
    root, failed = lapack.dpotrf(matrix.T, lower=1)
    while failed:
        root, failed = lapack.dpotrf(matrix.T + np.diag(more * matrix.diagonal()), lower=1)
        more *= 10
    return root
