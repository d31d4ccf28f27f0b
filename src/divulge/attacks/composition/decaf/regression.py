"""A regression from virtual clients' update features infers what real clients hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial.distance import cdist

from divulge.attacks.shared.simulated_errors import SimulatedGuesses
from divulge.federation.output_layer import solve_on_simplex

FeatureKinds = tuple[Float64[np.ndarray, "_ _"], ...]
"""Features of clients' updates: one matrix for each kind of feature, one row a client."""
ClientShares = Float64[np.ndarray, "virtual classes"]
"""Class shares of virtual clients, or the presence of their classes."""

_WIDTHS = (1.0, 4.0)
"""Widths of the kernel that are tried, in root mean squared distances."""

_RIDGES = tuple(10.0**k for k in range(-6, 4))
"""Ridges that are tried; the largest guess the mean."""


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """A kernel ridge regression in one round."""

    left_out: ClientShares
    """Guess about each virtual client, by a fit without it."""
    guess: Float64[np.ndarray, "victims classes"]
    """Guess about each victim, or whoever is guessed beside them."""
    error: float
    """Mean squared error of ``left_out``."""


class TensorGuesses(NamedTuple):
    """Class shares as each tensor alone tells them."""

    left_out: Float64[np.ndarray, "virtual classes tensors"]
    """About each virtual client, by fits without it."""
    guess: Float64[np.ndarray, "others classes tensors"]
    """About each of the others."""


def guess_by_tensor(
    shown: FeatureKinds, shares: ClientShares, others: FeatureKinds
) -> TensorGuesses:
    """Guess shares from each tensor alone: they become numbers of a class like the others.

    A regression on all tensors at once has to find out by itself which of them tell something; from
    the same clients, its guesses err more than those of a regression for all classes on these.

    Args:
        shown: changes of each tensor at virtual clients.
        shares: what these clients hold.
        others: changes of the same tensors at those to be guessed.

    References:
        Wolpert (1992), Stacked generalization: guesses about what was left out are the next input.
    """
    each = [_fit_tensor(*pair, shares) for pair in zip(shown, others, strict=True)]
    return TensorGuesses(*(np.stack(guesses, axis=2) for guesses in zip(*each, strict=True)))


def _fit_tensor(
    shown: Float64[np.ndarray, "virtual numbers"],
    others: Float64[np.ndarray, "others numbers"],
    shares: ClientShares,
) -> tuple[ClientShares, Float64[np.ndarray, "others classes"]]:
    """Kernel ridge regression; width and ridge are those that err least on clients left out.

    References:
        Rasmussen and Williams (2006), Gaussian processes for machine learning, equations 5.10
        to 5.12.
    """
    squares, across = (cdist(those, shown, "sqeuclidean") for those in (shown, others))
    middle = float(squares.mean()) or 1.0
    mean = shares.mean(axis=0)
    best, least = None, np.inf
    for width in _WIDTHS:
        rate = 0.5 / (width**2 * middle)
        values, vectors = np.linalg.eigh(np.exp(-rate * squares))
        turned = vectors.T @ (shares - mean)
        for ridge in _RIDGES:
            # rounding makes the smallest eigenvalues of a kernel matrix negative
            inverse = 1 / (np.maximum(values, 0) + ridge)
            dual = vectors @ (inverse[:, None] * turned)
            # eqs. 5.10 to 5.12: residuals of left-out clients, without refitting
            off = dual / ((vectors**2) @ inverse)[:, None]
            error = float((off**2).mean())
            if error < least:
                least, best = error, (shares - off, mean + np.exp(-rate * across) @ dual)
    assert best is not None
    return best


class CombinedFit(NamedTuple):
    """What the regressions of several rounds say together."""

    guess: Float64[np.ndarray, " classes"]
    """Guess about one victim."""
    left_out: ClientShares
    """Guess about each virtual client, by fits without it."""
    others: Float64[np.ndarray, "_ classes"]
    """Guesses about those who were guessed beside the victims."""
    error: float
    """Mean squared error of ``left_out``, in the mean over rounds; 1 where there is none."""


def combine_fits(
    fits: Sequence[RegressionFit], places: Sequence[int], victims: Sequence[int]
) -> CombinedFit:
    """Combine the regressions of several rounds for one victim.

    Rounds count by the inverse of their mean squared error.

    Args:
        fits: one fit a round.
        places: the victim's position among the victims of each round.
        victims: number of victims of each round; those guessed after them are the same in all.
    """
    weights = [1 / max(fit.error, 1e-12) for fit in fits]
    each = [fit.guess[place] for fit, place in zip(fits, places, strict=True)]
    beside = [fit.guess[many:] for fit, many in zip(fits, victims, strict=True)]
    left_out = np.average([fit.left_out for fit in fits], axis=0, weights=weights)
    return CombinedFit(
        np.average(each, axis=0, weights=weights),
        left_out,
        np.average(beside, axis=0, weights=weights),
        float(np.average([fit.error for fit in fits], weights=weights)) or 1.0,
    )


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
        sign: a score of each class at the victim, larger for classes that it holds.
        signs: scores at virtual clients, each by a fit without it.
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
    # strictly below: ties with what is there are no evidence of absence
    low: np.ndarray = sign < scores[allowed - 1]
    low[sign.argmax()] = False  # a client holds some class
    return low


def guess_left_out(
    raw: ClientShares,
    signs: ClientShares,
    rare: Bool[np.ndarray, "virtual classes"],
    true_shares: ClientShares,
    error: float,
) -> SimulatedGuesses:
    """Guess about each virtual client as about a victim, without what it taught itself.

    Args:
        raw: guessed shares of each, by a fit without it.
        signs: as of `absent_classes`, likewise.
        rare: as of `absent_classes`.
        true_shares: the shares that they hold.
        error: as of `absent_classes`.
    """
    others = ~np.eye(len(raw), dtype=np.bool_)
    null = np.array([
        absent_classes(sign, signs[rest], rare[rest], error)
        for sign, rest in zip(signs, others, strict=True)
    ])  # fmt: skip
    share = np.array([project_shares(*pair) for pair in zip(raw, null, strict=True)])
    return SimulatedGuesses(share, null, true_shares)


def project_shares(
    raw: Float64[np.ndarray, " classes"], null: Bool[np.ndarray, " classes"]
) -> Float64[np.ndarray, " classes"]:
    """Project a guess to the nearest shares that are 0 for null classes."""
    shares = np.zeros(len(raw))
    shares[~null] = solve_on_simplex(np.eye(int((~null).sum())), raw[~null])
    return shares


def project_all(raw: ClientShares) -> ClientShares:
    """Project guesses to the nearest shares, none of which has to be 0."""
    none = np.zeros(raw.shape[1], np.bool_)
    return np.array([project_shares(row, none) for row in raw])
