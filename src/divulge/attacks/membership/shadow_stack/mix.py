"""Bring the networks' log odds and RMIA's ratio to one scale, and choose how much each counts."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import expit

from divulge.attacks.membership.shadow_stack.rows import LeaveOneOutRows
from divulge.attacks.shared.shadow_statistics import mean_log_rank

Column = Float64[np.ndarray, " rows"]

CHOOSING = 8
"""Number of shadows that choose RMIA's temperature and weight."""

TAIL = 0.01
"""Share of the rows that tell how surprise rises beyond the highest of them."""

STEPS = 25
"""Most steps of the fit of two weights: it ends when they no longer move."""


def choose_ratio(lessons: LeaveOneOutRows) -> int:
    """The column of RMIA's ratios that tells the members of shadows best, as RMIA chooses it."""
    gains = np.zeros(lessons.ratios.shape[1])
    for k in range(CHOOSING):
        own = lessons.shadow == k
        ratios, member = lessons.ratios[own], lessons.member[own]
        gains += [mean_log_rank(column[member], column[~member]) for column in ratios.T]
    return int(np.argmax(gains))


def networks_share(odds: Column, ratio: Column, member: Bool[np.ndarray, " rows"]) -> float:
    """How much networks count beside RMIA: by their weights in a logistic regression, from 0 to 1.

    A weight below 0 counts as 0; where both do, RMIA's ratio counts alone.

    Args:
        odds: of the rows, by networks that other records' rows taught, on the scale of surprise.
        ratio: of the rows, on the same scale.
        member: whether the shadow was trained on the record.
    """
    both = np.column_stack([odds, ratio, np.ones_like(odds)])
    weights = np.zeros(3)
    for _ in range(STEPS):
        p = expit(both @ weights)
        # Newton's step of the penalised log likelihood
        slope = both.T @ (member - p) - weights
        # a penalty of 1 keeps weights finite where members can be told without an error
        step = np.linalg.solve((both * (p * (1 - p))[:, None]).T @ both + np.eye(3), slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    by_networks, by_ratio = np.maximum(weights[:2], 0.0)
    return float(by_networks / (by_networks + by_ratio)) if by_networks else 0.0


class Surprise(NamedTuple):
    """A scale: minus the log of the share of the shadows' rows that stand higher than a score."""

    scores: Column
    """Scores of rows, from low to high, none twice."""
    surprise: Column
    """Of each; of rows that tie, half count as higher."""
    slope: float
    """Rise of the surprise for each unit beyond the last score, as over the last hundredth."""

    @classmethod
    def of(cls, rows: Column) -> "Surprise":
        """The scale of these rows."""
        scores, counts = np.unique(rows, return_counts=True)
        # mid-ranks: half of a tie counts as higher
        share = (np.cumsum(counts) - counts / 2) / len(rows)
        surprise = -np.log1p(-share)
        start = int(np.searchsorted(share, 1 - TAIL))
        width = float(scores[-1] - scores[min(start, len(scores) - 1)])
        rise = float(surprise[-1] - surprise[min(start, len(scores) - 1)])
        return cls(scores, surprise, rise / width if width else 0.0)

    def __call__(self, score: Column) -> Column:
        """The surprise of each score."""
        beyond = np.maximum(score - self.scores[-1], 0.0)
        value: Column = np.interp(score, self.scores, self.surprise) + self.slope * beyond
        return value
