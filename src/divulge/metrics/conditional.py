"""Whether scores fit labels beyond what both owe to covariates that are no secret."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.extras import stats

# units differ in how many records they have, so that axis has no name
Scores = Float[np.ndarray, "_"]
Labels = Bool[np.ndarray, "_"]
Covariates = Float[np.ndarray, "_ covariates"]

RIDGE = 10.0
"""Added to each sum of squares of a covariate: as much as 10 records that show no slope."""


def partial_correlations(
    score: Sequence[Scores], label: Sequence[Labels], covariates: Sequence[Covariates]
) -> Float[np.ndarray, " units"]:
    """By unit, the correlation of scores and labels that covariates leave, times √(records - 1).

    Scores and labels are regressed on the covariates, with the slopes that all other units have;
    what is correlated is the residuals. Where labels are independent of the scores given the
    covariates, the expectation of each is 0 as far as one of the two regressions is right. Ranks
    within the unit, and their squares, stand for scores and covariates. A unit whose scores or
    labels are all alike has 0.

    Args:
        score: by unit, of its records.
        label: likewise.
        covariates: likewise, of known meaning across units.

    References:
        Shah and Peters (2020), The hardness of conditional independence testing and the generalised
        covariance measure, section 3.
    """
    width = 2 * covariates[0].shape[1]
    squares, products = RIDGE * np.eye(width), np.zeros((width, 2))
    for unit in range(len(score)):  # columns are made twice: those of all units need much memory
        x, y = _columns(covariates[unit]), _pair(score[unit], label[unit])
        squares, products = squares + x.T @ x, products + x.T @ y
    correlations = np.zeros(len(score))
    for unit in range(len(score)):
        x, y = _columns(covariates[unit]), _pair(score[unit], label[unit])
        if y.any(axis=0).all():
            # slopes of all other units: those of its own would fit its noise
            left = y - x @ np.linalg.solve(squares - x.T @ x, products - x.T @ y)
            score_rest, label_rest = _standardise(left).T
            # section 3: the normalised covariance of both residuals, of standard deviation about 1
            correlations[unit] = score_rest @ label_rest / len(y) * np.sqrt(len(y) - 1)
    return correlations


def _pair(score: Scores, label: Labels) -> Float[np.ndarray, "records 2"]:
    """What is regressed: ranks of scores, and labels."""
    ranks = stats.rankdata(score)
    return _standardise(np.column_stack([ranks, label.astype(np.float64)]))


def _columns(unit: Covariates) -> Float[np.ndarray, "records columns"]:
    """Ranks and their squares: clicks may rise with a covariate, or peak in its middle."""
    ranks = _standardise(stats.rankdata(unit, axis=0))
    return np.column_stack([ranks, _standardise(ranks**2)])


def _standardise(columns: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """With mean 0 and deviation 1 in each column; constant ones become 0."""
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    standardised: Float[np.ndarray, "*shape"] = centred / np.where(spread > 1e-9, spread, np.inf)
    return standardised
