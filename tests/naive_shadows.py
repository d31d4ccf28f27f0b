"""Slow twins of the shadow attacks: one record at a time, as the papers write them."""

import math
from typing import Any

import numpy as np
from scipy import stats

from divulge.core import ModelView, PoolPredictions, Records, Shadows


def _phi(view: ModelView, records: Records) -> list[float]:
    p = view.target.predict(records.x)
    return [
        math.log(row[y]) - math.log(sum(row[j] for j in range(len(row)) if j != y))
        for row, y in zip(p, records.y, strict=True)
    ]


def _ways(view: ModelView) -> list[tuple[Records, np.ndarray]]:
    """Each way of asking: the records, and φ under each shadow."""
    assert view.shadows is not None
    return [
        (view.records, view.shadows.phi),
        *zip(view.augmented, view.shadows.augmented_phi, strict=True),
    ]


def lira(view: ModelView, variance: str) -> list[float]:
    """The sum over the ways of asking."""
    scores = [_lira(view, variance, records, phi) for records, phi in _ways(view)]
    return [sum(of_one) for of_one in zip(*scores, strict=True)]


def _lira(view: ModelView, variance: str, records: Records, phi: np.ndarray) -> list[float]:
    assert view.shadows is not None
    member = view.shadows.member
    sides = {side: [row[mask == side] for row, mask in zip(phi, member, strict=True)]
             for side in (True, False)}  # fmt: skip
    pooled = {}
    for side, rows in sides.items():
        squares = sum(float(((row - row.mean()) ** 2).sum()) for row in rows if len(row))
        freedom = sum(len(row) - 1 for row in rows if len(row))
        pooled[side] = squares / freedom if freedom else math.nan
    scores = []
    for i, observed in enumerate(_phi(view, records)):
        density: dict[bool, Any] = {}
        for side in (True, False):
            row = sides[side][i]
            if len(row) == 0:
                continue
            if variance.startswith("shrunk"):
                freedom = len(row) - 1 + 4
                shrunk = (float(((row - row.mean()) ** 2).sum()) + 4 * pooled[side]) / freedom
                student = variance == "shrunk"
                density[side] = (
                    _Student(freedom, row.mean(), math.sqrt(shrunk), len(row))
                    if student
                    else stats.norm(row.mean(), math.sqrt(shrunk))
                )
                continue
            own = max(float(row.var(ddof=1)), 1e-4 * pooled[side])
            spread = math.sqrt(pooled[side] if variance == "global" else own)
            density[side] = stats.norm(row.mean(), spread)
        if True in density:
            scores.append(density[True].logpdf(observed) - density[False].logpdf(observed))
        else:
            scores.append((observed - density[False].mean()) / density[False].std())
    return scores


class _Student:
    """Student's density, but a factor that hangs on the degrees of freedom alone."""

    def __init__(self, freedom: float, mean: float, deviation: float, models: int) -> None:
        wide = deviation * math.sqrt(1 + 1 / models)
        self._deviation = deviation
        self._all = stats.t(freedom, mean, wide)
        self._at_zero = stats.t(freedom).logpdf(0.0)

    def logpdf(self, x: float) -> float:
        return float(self._all.logpdf(x) - self._at_zero)

    def mean(self) -> float:
        return float(self._all.mean())

    def std(self) -> float:
        return self._deviation


def pmia(
    view: ModelView, proxies: PoolPredictions | Shadows, y: np.ndarray, proxy: str
) -> list[float]:
    """The mean over the ways of asking; each record must vary over the shadows without it."""
    assert view.shadows is not None
    scores = []
    proxy_ways = (proxies.phi, *proxies.augmented_phi)
    for (records, phi), pool in zip(_ways(view), proxy_ways, strict=True):
        told = _phi(view, records)
        ratios = []
        for i, mask in enumerate(view.shadows.member):
            like = [j for j in range(len(y)) if proxy == "global" or y[j] == records.y[i]]
            inside = np.concatenate([pool[j][proxies.member[j]] for j in like])
            outside = phi[i][~mask]
            ratios.append(
                stats.norm(np.median(inside), inside.std()).logpdf(told[i])
                - stats.norm(np.median(outside), outside.std()).logpdf(told[i])
            )
        scores.append(ratios)
    return [sum(of_one) / len(of_one) for of_one in zip(*scores, strict=True)]


def calibrated(view: ModelView) -> list[float]:
    """Records in all shadows or in none are left out: NaN."""
    assert view.shadows is not None
    targets = [_phi(view, records) for records, _ in _ways(view)]
    scores = []
    for i, mask in enumerate(view.shadows.member):
        if mask.all() or not mask.any():
            scores.append(math.nan)
            continue
        surplus = []
        for (_, phi), target in zip(_ways(view), targets, strict=True):
            surplus.append(target[i] - (phi[i][mask].mean() + phi[i][~mask].mean()) / 2)
        scores.append(sum(surplus) / len(surplus))
    return scores


def sigmoid(phi: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-phi)))


def rmia(view: ModelView, temperature: float, weight: float, a: float) -> list[float]:
    """Each likelihood is the geometric mean over the ways of asking; population: one way."""
    assert view.shadows is not None
    assert view.reference is not None
    online = view.shadows.member.any()
    others = []
    shadows_said = zip(_phi(view, view.reference), view.shadows.reference_phi, strict=True)
    for target, phi in shadows_said:
        outside = sigmoid(phi / temperature).mean()
        expected = weight * (a * outside + 1 - a) + (1 - weight) * outside
        others.append(sigmoid(np.array(target / temperature)) / expected)
    ways = _ways(view)
    answers = [_phi(view, records) for records, _ in ways]
    scores = []
    for i, mask in enumerate(view.shadows.member):
        q = stats.gmean([sigmoid(phi[i] / temperature) for _, phi in ways], axis=0)
        outside = q[~mask].mean()
        inside = q[mask].mean() if online else a * outside + 1 - a
        own = stats.gmean([sigmoid(np.array(told[i] / temperature)) for told in answers])
        ratio = own / (weight * inside + (1 - weight) * outside)
        scores.append(float(np.mean([ratio > z for z in others])))
    return scores


def rmia_log_rank(
    phi: np.ndarray, member: np.ndarray, temperature: float, weight: float, *, online: bool
) -> float:
    """How well RMIA tells each shadow's members by the others: the sum over shadows."""
    q = sigmoid(phi / temperature)
    a, total = factor(phi / temperature, member), 0.0
    for k in range(min(8, phi.shape[1])):
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for row, mask in zip(q, member, strict=True):
            rest, trained = np.delete(row, k), np.delete(mask, k)
            if trained.all() and not online:
                continue
            if trained.all():
                inside = rest.mean()
                outside = max(inside - 1 + a, 0) / a
            else:
                outside = rest[~trained].mean()
                seen = online and trained.any()
                inside = rest[trained].mean() if seen else a * outside + 1 - a
            ratios[bool(mask[k])].append(row[k] / (weight * inside + (1 - weight) * outside))
        ranks = [
            (1 + sum(other >= ratio for other in ratios[False])) / (1 + len(ratios[False]))
            for ratio in ratios[True]
        ]
        total -= float(np.mean(np.log(ranks)))
    return total


def base(view: ModelView, scale: float) -> list[float]:
    """Each likelihood is the geometric mean over the ways of asking."""
    assert view.shadows is not None
    own = []
    for records, _ in _ways(view):
        p = view.target.predict(records.x)
        own.append([
            math.sqrt(row[y]) / sum(math.sqrt(share) for share in row)
            for row, y in zip(p, records.y, strict=True)
        ])  # fmt: skip
    scores = []
    for i in range(len(view.records)):
        q = stats.gmean([np.exp(way[i]) for way in view.shadows.softened], axis=0)
        part = 1 if view.shadows.member.any() else scale
        scores.append(math.log(stats.gmean([way[i] for way in own])) - part * math.log(q.mean()))
    return scores


def factor(phi: np.ndarray, member: np.ndarray) -> float:
    """RMIA's a, by a fit of a line through (1, 1)."""
    x, y = [], []
    for row, mask in zip(phi, member, strict=True):
        if mask.any() and not mask.all():
            x.append(1 - sigmoid(row[~mask]).mean())
            y.append(1 - sigmoid(row[mask]).mean())
    slope, *_ = np.linalg.lstsq(np.array(x)[:, None], np.array(y), rcond=None)
    return float(slope[0])


def others(phi: np.ndarray, member: np.ndarray, k: int, i: int) -> dict[str, float]:
    """What the shadows other than k say of record i; it must be in some of them and not in all."""
    row, mask = np.delete(phi[i], k), np.delete(member[i], k)
    inside, outside = row[mask], row[~mask]
    return {
        "mean_in": inside.mean(),
        "mean_out": outside.mean(),
        "scatter_in": ((inside - inside.mean()) ** 2).sum(),
        "scatter_out": ((outside - outside.mean()) ** 2).sum(),
        "p_in": sigmoid(inside).mean(),
        "p_out": sigmoid(outside).mean(),
    }
