"""Regress hidden features on known ones, under a covariance that all records share."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float64

KnownMask = Bool[np.ndarray, "records features"]
Covariance = Float64[np.ndarray, "features features"]


def shrunk_covariance(residuals: Float64[np.ndarray, "records features"]) -> Covariance:
    """The covariance of residuals by Ledoit and Wolf (2004), always positive definite."""
    from sklearn.covariance import ledoit_wolf

    covariance: Covariance = ledoit_wolf(residuals, assume_centered=True)[0]
    # features that never vary would make the system singular
    covariance += (1e-6 * np.trace(covariance) / len(covariance) + 1e-12) * np.eye(len(covariance))
    return covariance


def complete_hidden(
    residuals: Float64[np.ndarray, "ways records features"],
    known: KnownMask,
    covariance: Covariance,
    rng: np.random.Generator | None,
) -> Float64[np.ndarray, "ways records features"]:
    """Residuals with expected values where they are not known, or with draws, given a generator."""
    if rng is None:
        return regress_hidden(np.where(known, residuals, 0.0), known, covariance)
    # A draw given the known features is one without them, moved by the regression of the hidden
    # features on what it got wrong of the known ones.
    drawn = rng.normal(size=residuals.shape) @ np.linalg.cholesky(covariance).T
    moved = regress_hidden(np.where(known, residuals - drawn, 0.0), known, covariance)
    complete: np.ndarray = drawn + moved
    return complete


def regress_hidden(
    wrong: Float64[np.ndarray, "ways records features"], known: KnownMask, covariance: Covariance
) -> Float64[np.ndarray, "ways records features"]:
    """What errors of known features, zero elsewhere, let expect of hidden ones.

    That is Σ_hk Σ_kk⁻¹ e, which with P = Σ⁻¹ is -P_hh⁻¹ P_hk e: the smaller system is solved.
    """
    from scipy.linalg import cho_factor, cho_solve

    regressed = np.zeros_like(wrong)
    few = 2 * known.sum(axis=1) <= known.shape[1]
    if few.any():
        regressed[:, few] = _solve_parts(covariance, wrong[:, few], known[few]) @ covariance
    if not few.all():
        precision = cho_solve(cho_factor(covariance), np.eye(len(covariance)))
        from_hidden = -wrong[:, ~few] @ precision
        regressed[:, ~few] = _solve_parts(precision, from_hidden, ~known[~few])
    return regressed


def _solve_parts(
    matrix: Covariance, right: Float64[np.ndarray, "ways records features"], part: KnownMask
) -> Float64[np.ndarray, "ways records features"]:
    """Solutions of each record's part of a positive definite system, zero in the other part."""
    from scipy.linalg.lapack import dposv

    solution = np.zeros_like(right)
    for mask, rows in _group_by_mask(part):
        at = np.flatnonzero(mask)
        if len(at):
            system = matrix.take(at, axis=0).take(at, axis=1)
            wanted = right[:, rows][:, :, at]
            # as SciPy's cho_solve does it, whose checks take longer than so small a system
            _, solved, failed = dposv(system.T, wanted.reshape(-1, len(at)).T, overwrite_a=True)
            if failed:
                raise np.linalg.LinAlgError("expected a positive definite covariance, got another")
            solution[:, rows[:, None], at] = solved.T.reshape(wanted.shape)
    return solution


def _group_by_mask(known: KnownMask) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each mask, and the records that have it."""
    # bits, packed: rows of bytes are sorted in an eighth of the time
    masks, which = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True)
    order, ends = np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))
    unpacked = np.unpackbits(masks, axis=1, count=known.shape[1]).astype(np.bool_)
    return zip(unpacked, np.split(order, ends[:-1]), strict=True)
