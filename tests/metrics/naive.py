"""Slow twins: the definitions, written down without a thought for speed."""

import numpy as np


def auc(score: np.ndarray, member: np.ndarray) -> float:
    wins = 0.0
    for inside in score[member]:
        for outside in score[~member]:
            wins += 1.0 if inside > outside else 0.5 if inside == outside else 0.0
    return float(wins / (member.sum() * (~member).sum()))


def delong_variance(score: np.ndarray, member: np.ndarray) -> float:
    def psi(a: float, b: float) -> float:
        return 1.0 if a > b else 0.5 if a == b else 0.0

    inside, outside = score[member], score[~member]
    rows = [np.mean([psi(a, b) for b in outside]) for a in inside]
    columns = [np.mean([psi(a, b) for a in inside]) for b in outside]
    return float(np.var(rows, ddof=1) / len(rows) + np.var(columns, ddof=1) / len(columns))


def tpr_at_fpr(score: np.ndarray, member: np.ndarray, fpr: float) -> float:
    """Level by level from the top, and coins in the level that would accuse too many."""
    budget = fpr * (~member).sum()
    found = 0.0
    for level in np.unique(score)[::-1]:
        tied = score == level
        alarms = (tied & ~member).sum()
        share = 1.0 if alarms <= budget + 1e-9 else budget / alarms
        found += share * (tied & member).sum()
        budget -= share * alarms
        if share < 1:
            break
    return float(found / member.sum())
