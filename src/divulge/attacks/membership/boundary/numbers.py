"""HopSkipJump: the nearest point of another label, by Euclidean distance."""

import numpy as np
from jaxtyping import Float64

from divulge.attacks.membership.boundary.search import Search, share_out
from divulge.attacks.shared.perturbation import Flat

_BISECTION, _TRIES = 7, 3
_NEIGHBOURS_AT = 0.1  # of the distance


def find(search: Search, start: Flat) -> Float64[np.ndarray, " records"]:
    """The distance of each record to the nearest point found, in standard deviations.

    Args:
        search: the records.
        start: a point of another label for each.
    """
    allowed = share_out(search.questions, _BISECTION, _TRIES)
    scale = np.where(search.space.spread > 0, search.space.spread, 0.0)
    away = (start - search.x) * (scale > 0)
    away = _bisect(search, away, allowed.start)
    for step in range(allowed.rounds):
        normal = _normal(search, away, scale, allowed.neighbours)
        # algorithm 2: the distance over the root of the iteration, halved until it crosses
        length = _norm(away, scale) / np.sqrt(step + 1)
        stepped = _step(search, away, normal * scale, length, allowed.tries)
        nearer = _bisect(search, stepped, allowed.bisection)
        # a step that leads away is dropped: queries are too few for the search to recover
        better = _norm(nearer, scale) < _norm(away, scale)
        away = np.where(better[:, None], nearer, away)
    return _norm(away, scale)


def _bisect(search: Search, away: Flat, questions: int) -> Flat:
    """The last points known to have another label on the way to the records."""
    low, high = np.zeros(len(away)), np.ones(len(away))
    for _ in range(questions):
        middle = (low + high) / 2
        crossed = search.crossed(search.x + middle[:, None] * away)
        low, high = np.where(crossed, low, middle), np.where(crossed, middle, high)
    return np.asarray(high[:, None] * away)


def _normal(
    search: Search, away: Flat, scale: Float64[np.ndarray, " features"], neighbours: int
) -> Flat:
    """Directions of length one in which the label changes, in standard deviations (eq. 12, 16)."""
    size = _NEIGHBOURS_AT * _norm(away, scale)[:, None]
    directions = search.rng.normal(size=(neighbours, len(scale))) * (scale > 0)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    signs = np.stack(
        [
            np.where(search.crossed(search.x + away + size * direction * scale), 1.0, -1.0)
            for direction in directions
        ],
        axis=1,
    )
    mean = signs.mean(axis=1, keepdims=True)
    # eq. 16's baseline takes off the mean sign; where all signs agree nothing would be left
    weighted = np.where(np.abs(mean) < 1, signs - mean, signs) @ directions
    return np.asarray(weighted / np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-12))


def _step(
    search: Search, away: Flat, direction: Flat, length: Float64[np.ndarray, " records"], tries: int
) -> Flat:
    """Points further along the direction that still have another label; else where they were."""
    reached, rows = away.copy(), np.arange(len(away))
    for _ in range(tries):
        points = away[rows] + length[rows, None] * direction[rows]
        crossed = search.crossed(search.x[rows] + points, rows)
        reached[rows[crossed]] = points[crossed]
        length, rows = length / 2, rows[~crossed]
        if not len(rows):
            break
    return reached


def _norm(away: Flat, scale: Float64[np.ndarray, " features"]) -> Float64[np.ndarray, " records"]:
    scaled = np.divide(away, scale, out=np.zeros_like(away), where=scale > 0)
    return np.asarray(np.linalg.norm(scaled, axis=1))
