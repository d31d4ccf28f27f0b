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

_WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Widths of the kernel that are tried, in root mean squared distances."""

_RIDGES = tuple(10.0**k for k in range(-6, 4))
"""Ridges that are tried; the largest leave the first estimate as it is."""


class RegressionInput(NamedTuple):
    """What updates show, one row a client."""

    kinds: FeatureKinds
    first: Float64[np.ndarray, "_ classes"]
    """First estimate of the class shares; of a virtual client, by a fit without it."""


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """A kernel ridge regression in one round."""

    left_out: ClientShares
    """Guess about each virtual client, by a fit without it."""
    guess: Float64[np.ndarray, "victims classes"]
    """Guess about each victim, or whoever is guessed beside them."""
    error: float
    """Mean squared error of ``left_out``."""


def fit_shares(
    shown: RegressionInput, shares: ClientShares, victims: RegressionInput
) -> RegressionFit:
    """Fit shares to features with Gaussian kernels; width and ridge are chosen by leaving one out.

    Each kind of features counts alike: squared distances are sums over kinds, each divided by its
    mean between virtual clients. Regressed is what is left of the shares less a part of a first
    estimate of them; that part, from 0 to 1, is the one that errs least on clients left out, in
    closed form for each width and ridge. Leaving one client out of kernel ridge regression moves
    its residual in closed form, too.

    Args:
        shown: update features and first estimates of virtual clients.
        shares: what these clients hold.
        victims: update features and first estimates of the victims.

    References:
        Rasmussen and Williams (2006), Gaussian processes for machine learning, equations 5.10
        to 5.12.
    """
    squares, across = _distances(shown.kinds, victims.kinds)
    middle = float(squares.mean()) or 1.0
    targets = np.hstack([shares, shown.first])
    mean, classes = targets.mean(axis=0), shares.shape[1]
    best, least = None, np.inf
    for width in _WIDTHS:
        rate = 0.5 / (width**2 * middle)
        values, vectors = np.linalg.eigh(np.exp(-rate * squares))
        turned = vectors.T @ (targets - mean)
        for ridge in _RIDGES:
            # rounding makes the smallest eigenvalues of a kernel matrix negative
            inverse = 1 / (np.maximum(values, 0) + ridge)
            dual = vectors @ (inverse[:, None] * turned)
            # eqs. 5.10 to 5.12: residuals of left-out clients, without refitting
            both = dual / ((vectors**2) @ inverse)[:, None]
            off, first_off = both[:, :classes], both[:, classes:]
            part = _best_part(off, first_off)
            off = off - part * first_off
            error = float((off**2).mean())
            if error < least:
                least = error
                predicted = mean + np.exp(-rate * across) @ dual
                guess = predicted[:, :classes] + part * (victims.first - predicted[:, classes:])
                best = RegressionFit(shares - off, guess, error)
    assert best is not None
    return best


def _best_part(off: ClientShares, first_off: ClientShares) -> float:
    """Part of the first estimates' residuals that, taken off, leaves the least squares."""
    size = float((first_off**2).sum())
    return float(np.clip((off * first_off).sum() / size, 0.0, 1.0)) if size else 0.0


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
