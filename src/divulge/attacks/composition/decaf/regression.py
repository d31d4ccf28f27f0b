"""A regression from virtual clients' update features infers what real clients hold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial.distance import cdist

from divulge.federation.output_layer import solve_on_simplex

FeatureKinds = tuple[Float64[np.ndarray, "_ _"], ...]
"""Features of clients' updates: one matrix for each kind of feature, one row a client."""
ClientShares = Float64[np.ndarray, "virtual classes"]
"""Class shares of virtual clients, or the presence of their classes."""

_WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Widths of the kernel that are tried, in root mean squared distances."""

_RIDGES = tuple(10.0**k for k in range(-6, 1))
"""Ridges that are tried."""


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """A kernel ridge regression in one round."""

    left_out: ClientShares
    """Guess about each virtual client, by a fit without it."""
    guess: Float64[np.ndarray, "victims classes"]
    """Guess about each victim."""
    error: float
    """Mean squared error of ``left_out``."""


def fit_shares(shown: FeatureKinds, shares: ClientShares, victims: FeatureKinds) -> RegressionFit:
    """Fit shares to features with Gaussian kernels; width and ridge are chosen by leaving one out.

    Each kind of features counts alike: squared distances are sums over kinds, each divided by its
    mean between virtual clients. Leaving one client out of kernel ridge regression moves its
    residual in closed form.

    Args:
        shown: update features of virtual clients.
        shares: what these clients hold.
        victims: update features of the victims.

    References:
        Rasmussen and Williams (2006), Gaussian processes for machine learning, equations 5.10
        to 5.12.
    """
    squares, across = _distances(shown, victims)
    middle = float(squares.mean()) or 1.0
    mean = shares.mean(axis=0)
    best, least = None, np.inf
    for width in _WIDTHS:
        rate = 0.5 / (width**2 * middle)
        values, vectors = np.linalg.eigh(np.exp(-rate * squares))
        turned = vectors.T @ (shares - mean)
        for ridge in _RIDGES:
            inverse = 1 / (np.maximum(values, 0) + ridge)
            dual = vectors @ (inverse[:, None] * turned)
            off = dual / ((vectors**2) @ inverse)[:, None]
            error = float((off**2).mean())
            if error < least:
                least = error
                best = RegressionFit(shares - off, mean + np.exp(-rate * across) @ dual, error)
    assert best is not None
    return best


def _distances(
    shown: FeatureKinds, victims: FeatureKinds
) -> tuple[Float64[np.ndarray, "virtual virtual"], Float64[np.ndarray, "victims virtual"]]:
    """Squared distances between virtual clients, and from victims to virtual clients."""
    squares, across = np.zeros((len(shown[0]),) * 2), np.zeros((len(victims[0]), len(shown[0])))
    for inner, outer in zip(shown, victims, strict=True):
        between = cdist(inner, inner, "sqeuclidean")
        if between.any():  # what never changes tells nothing
            squares += between / between.mean()
            across += cdist(outer, inner, "sqeuclidean") / between.mean()
    return squares, across


def combine_fits(
    fits: Sequence[RegressionFit], places: Sequence[int]
) -> tuple[Float64[np.ndarray, " classes"], ClientShares]:
    """Combine several rounds: the guess about one victim, and the guesses about virtual clients.

    Rounds count by the inverse of their mean squared error.

    Args:
        fits: one fit a round.
        places: the victim's position among the victims of each round.
    """
    weights = [1 / max(fit.error, 1e-12) for fit in fits]
    each = [fit.guess[place] for fit, place in zip(fits, places, strict=True)]
    others = np.average([fit.left_out for fit in fits], axis=0, weights=weights)
    return np.average(each, axis=0, weights=weights), others


def absent_classes(
    sign: Float64[np.ndarray, " classes"],
    signs: ClientShares,
    rare: Bool[np.ndarray, "virtual classes"],
    error: float,
) -> Bool[np.ndarray, " classes"]:
    """The classes that show fewer signs of being there than nearly all that are there, but rare.

    Of such classes of virtual clients at most a share of ``error`` shows as few; a real client's
    rare class is declared null by mistake no more often, as far as its mix and its records are
    like theirs, and a common class less often.

    Args:
        sign: guessed presence of each class at the victim: about 1 for a class that it holds.
        signs: guessed presence at virtual clients, each by a fit without it.
        rare: true for classes that they hold with less than an equal share.
        error: the permitted share of such mistakes.

    References:
        Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world, chapter 2: the
        rank of a new score among exchangeable ones.
    """
    scores = np.sort(signs[rare])
    allowed = int(error * (len(scores) + 1))
    if not allowed:
        return np.zeros(len(sign), np.bool_)
    low: np.ndarray = sign < scores[allowed - 1]
    low[sign.argmax()] = False  # a client holds some class
    return low


def evenness_p_value(
    guess: Float64[np.ndarray, " classes"], even: Float64[np.ndarray, "clients classes"]
) -> float:
    """P-value of the hypothesis that a client holds equally many records of each class.

    Args:
        guess: guessed shares of the victim.
        even: guessed shares of virtual clients that hold equally many, each by a fit without it.
    """
    spread = np.abs(even - 1 / even.shape[1]).sum(axis=1)
    mine = np.abs(guess - 1 / len(guess)).sum()
    return float((1 + (spread >= mine).sum()) / (1 + len(spread)))


def project_shares(
    raw: Float64[np.ndarray, " classes"], null: Bool[np.ndarray, " classes"]
) -> Float64[np.ndarray, " classes"]:
    """Project a guess to the nearest shares that are 0 for null classes."""
    shares = np.zeros(len(raw))
    shares[~null] = solve_on_simplex(np.eye(int((~null).sum())), raw[~null])
    return shares
