"""Slow twins: the definitions, written down without a thought for speed."""

import math

import numpy as np
from scipy import stats


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


def epsilon(score: np.ndarray, member: np.ndarray, delta: float = 0.0) -> float:
    """Every group size, every side; the smallest log odds that the data do not refute."""
    sizes = [len(score) // 8 // 4**j for j in range(20) if len(score) // 8 // 4**j >= 32]
    error = 0.05 / (2 * len(sizes)) * (0.9 if delta else 1.0)
    best = 0.0
    for size in sizes:
        for sign in (1, -1):
            turned = sign * score
            edge = sorted(turned, reverse=True)[size - 1]
            group = [
                bool(m) == (sign == 1) for s, m in zip(turned, member, strict=True) if s >= edge
            ]
            right, wrong_prior = (member, ~member) if sign == 1 else (~member, member)
            hits = sum(group)
            if delta:
                excused = 0
                # Markov: P(count > excused); a tenth of 5 %, half of it for each kind of record
                while right.sum() * delta / (excused + 1) > 0.05 / 20:
                    excused += 1
                hits -= excused
            if hits <= 0:
                continue
            share = stats.beta.ppf(error, hits, len(group) - hits + 1)
            odds = share / (1 - share) * wrong_prior.sum() / right.sum()
            best = max(best, math.log(odds))
    return best
