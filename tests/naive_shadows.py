"""Slow twins of the shadow attacks: one record at a time, as the papers write them."""

import math

import numpy as np
from scipy import stats

from leakscope.core import ModelView


def _phi(view: ModelView) -> list[float]:
    p = view.target.predict(view.records.x)
    return [
        math.log(row[y]) - math.log(sum(row[j] for j in range(len(row)) if j != y))
        for row, y in zip(p, view.records.y, strict=True)
    ]


def lira(view: ModelView, variance: str) -> list[float]:
    assert view.shadows is not None
    phi, member = view.shadows.phi, view.shadows.member
    sides = {side: [row[mask == side] for row, mask in zip(phi, member, strict=True)]
             for side in (True, False)}  # fmt: skip
    pooled = {}
    for side, rows in sides.items():
        squares = sum(float(((row - row.mean()) ** 2).sum()) for row in rows if len(row))
        freedom = sum(len(row) - 1 for row in rows if len(row))
        pooled[side] = squares / freedom if freedom else math.nan
    scores = []
    for i, observed in enumerate(_phi(view)):
        density = {}
        for side in (True, False):
            row = sides[side][i]
            if len(row) == 0:
                continue
            own = max(float(row.var(ddof=1)), 1e-4 * pooled[side])
            spread = math.sqrt(pooled[side] if variance == "global" else own)
            density[side] = stats.norm(row.mean(), spread)
        if True in density:
            scores.append(density[True].logpdf(observed) - density[False].logpdf(observed))
        else:
            scores.append((observed - density[False].mean()) / density[False].std())
    return scores


def sigmoid(phi: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-phi)))


def rmia(view: ModelView, gamma: float, a: float) -> list[float]:
    assert view.shadows is not None
    assert view.reference is not None
    online = view.shadows.member.any()
    others = []
    p = view.target.predict(view.reference.x)
    for row, y, phi in zip(p, view.reference.y, view.shadows.reference_phi, strict=True):
        others.append(row[y] / (((1 + a) * sigmoid(phi).mean() + 1 - a) / 2))
    scores = []
    p = view.target.predict(view.records.x)
    for i, (row, y) in enumerate(zip(p, view.records.y, strict=True)):
        q, mask = sigmoid(view.shadows.phi[i]), view.shadows.member[i]
        if online:
            expected = (q[mask].mean() + q[~mask].mean()) / 2
        else:
            expected = ((1 + a) * q.mean() + 1 - a) / 2
        ratio = row[y] / expected
        scores.append(float(np.mean([ratio / z > gamma for z in others])))
    return scores
