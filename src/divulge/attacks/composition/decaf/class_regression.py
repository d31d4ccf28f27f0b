"""One regression for all classes: from what an update shows of a class to its share."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import cdist

from divulge.attacks.composition.decaf.regression import ClientShares, RegressionFit

ClassNumbers = Float64[np.ndarray, "_ classes numbers"]
"""What clients' updates show of each class: the same numbers of every class, by the same rules."""

_WIDTHS = (1.0, 2.0, 4.0)
"""Widths of the kernel that are tried, in root mean squared distances."""

_RIDGES = tuple(10.0**k for k in range(-5, 4))
"""Ridges that are tried."""

_LANDMARKS = 600
"""Classes of virtual clients that span the regression: with 400, the mean L1 was larger by .003 to
.011 in four trials."""


def fit_classes(
    shown: ClassNumbers, holds: Sequence[ClientShares], victims: ClassNumbers
) -> tuple[RegressionFit, ...]:
    """Fit what clients hold of a class to what their updates show of it, alike for all classes.

    A class is a row: its own numbers, and these less their mean over the client's classes. One
    function of such rows for all classes learns from as many rows as there are clients times
    classes, where a function a class would have one a client. Gaussian kernels between rows and
    `_LANDMARKS` of them span it; width and ridge are those that err least on clients left out, with
    all their classes, in closed form.

    Args:
        shown: what updates of virtual clients show.
        holds: what these clients hold; one fit for each.
        victims: what updates of the victims show.

    References:
        Rasmussen and Williams (2006), Gaussian processes for machine learning, equations 5.10 to
        5.12 (leaving out) and 8.11 (landmarks: the subset of regressors).
    """
    content = np.stack(holds, axis=-1)
    means = content.mean(axis=(0, 1))
    clients, classes, many = content.shape
    targets = (content - means).reshape(-1, many)
    best: list[RegressionFit | None] = [None] * many
    rows, own = _standardise(_beside_means(shown), _beside_means(victims))
    for spanned, victim in _kernels(rows, own):
        values, vectors = np.linalg.eigh(spanned.T @ spanned)
        turned, across = spanned @ vectors, victim @ vectors
        moments = turned.T @ targets
        each = turned.reshape(clients, classes, -1)
        for ridge in _RIDGES:
            # rounding makes the smallest eigenvalues negative
            inverse = 1 / (np.maximum(values, 0) + ridge)
            dual = inverse[:, None] * moments
            leverage = (each * inverse) @ each.transpose(0, 2, 1)
            # eqs. 5.10 to 5.12 for blocks: residuals of a left-out client, without refitting
            residuals = (targets - turned @ dual).reshape(content.shape)
            off = np.linalg.solve(np.eye(classes) - leverage, residuals)
            guesses = (means + across @ dual).reshape(-1, classes, many)
            for k, fit in enumerate(best):
                error = float((off[..., k] ** 2).mean())
                if fit is None or error < fit.error:
                    best[k] = RegressionFit((content - off)[..., k], guesses[..., k], error)
    return tuple(fit for fit in best if fit is not None)


def _beside_means(shown: ClassNumbers) -> Float64[np.ndarray, "_ classes twice"]:
    """Numbers of each class, and how far they are from the mean over the client's classes."""
    return np.concatenate([shown, shown - shown.mean(axis=1, keepdims=True)], axis=2)


def _standardise(
    shown: Float64[np.ndarray, "_ classes numbers"], victims: Float64[np.ndarray, "_ _ numbers"]
) -> tuple[Float64[np.ndarray, "rows kept"], Float64[np.ndarray, "others kept"]]:
    """One row a class of a client; every number counts alike, what never changes not at all."""
    rows, own = (numbers.reshape(-1, numbers.shape[2]) for numbers in (shown, victims))
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    # 1e-9 of its size: the spread of what is constant but for rounding
    changes = spread > 1e-9 * np.abs(mean)
    scale = spread[changes]
    return (rows - mean)[:, changes] / scale, (own - mean)[:, changes] / scale


def _kernels(
    rows: Float64[np.ndarray, "rows numbers"], own: Float64[np.ndarray, "others numbers"]
) -> Iterator[
    tuple[Float64[np.ndarray, "rows landmarks"], Float64[np.ndarray, "others landmarks"]]
]:
    """For each width, rows as vectors whose inner products are kernels, as far as landmarks go."""
    chosen = np.random.default_rng(len(rows)).permutation(len(rows))[:_LANDMARKS]
    landmarks = rows[chosen]
    inner, across = (cdist(those, landmarks, "sqeuclidean") for those in (rows, own))
    middle = float(inner.mean()) or 1.0
    for width in _WIDTHS:
        rate = 0.5 / (width**2 * middle)
        values, vectors = np.linalg.eigh(np.exp(-rate * inner[chosen]))
        # smaller ones are rounding, which their roots would enlarge
        sound = values > 1e-10 * values[-1]
        root = vectors[:, sound] / np.sqrt(values[sound])
        yield np.exp(-rate * inner) @ root, np.exp(-rate * across) @ root
