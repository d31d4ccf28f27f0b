"""Expectation and maximisation finds one cluster among other points, in many groups at once."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge.attacks.membership.cluster_lira.shape import Shape
from divulge.attacks.membership.cluster_lira.symmetric_matrices import (
    Entries,
    Matrices,
    as_entries,
    as_matrices,
    coordinate_pairs,
    inverse_factor,
    log_det,
    precision,
)

Points = Float64[np.ndarray, "_ dimensions"]
Grid = Float64[np.ndarray, "groups longest dimensions"]

PSEUDO_COUNT = 6.0
"""Weight of the expected share of members, as a number of suspects."""

SCATTER_COUNT = 10.0
"""Weight of the expected width of the cluster, as a number of members."""

MOST = 300
"""Most points of a group that a cluster is fitted to."""

STARTS = 12
"""Number of points at which a search for a cluster starts; more find the same ones again."""

SCOUTING, SETTLING = 5, 10
"""Numbers of steps of expectation and maximisation: from all starts, and then from the best."""

SMALLEST_VARIANCE = 1e-4
"""Smallest variance of a cluster, in squared nats: narrower ones are as narrow as rounding."""

_AT_ONCE = 4000
"""Number of points fitted at once, so that their densities stay in a processor's cache."""

_MOST_ODDS = 80.0
"""Minus log odds from which on a point is in no cluster: exponentials of 89 overflow in float32."""

_NEVER = 1e6
"""Log density outside of what groups are filled up with."""


def find_clusters(
    groups: Sequence[Points], others: Shape, share: float, widths: Sequence[float]
) -> Shape:
    """For each width and group the cluster that explains best, with the others, where points lie.

    Args:
        groups: points of each group; some are in the group's cluster, and nobody says which.
        others: distribution of the other points, one Student t a group.
        share: expected share of points in the cluster.
        widths: expected variances of the cluster, as multiples of that of the others.

    Returns:
        Clusters by width and group.
    """
    dimensions = others.mean.shape[-1]
    mean = np.empty((len(widths), len(groups), dimensions))
    scatter = np.empty((*mean.shape, dimensions))
    thinned = [_thin_points(points) for points in groups]
    for block in _group_blocks(thinned):
        clusters = _best_clusters([thinned[k] for k in block], others.take(block), share, widths)
        mean[:, block] = clusters.mean.swapaxes(0, 1)
        scatter[:, block] = clusters.scatter.swapaxes(0, 1)
    return Shape(mean, scatter)


def _thin_points(z: Points) -> Points:
    """Sort points and, of many, keep `MOST` at most, evenly along the first dimension."""
    return z[np.lexsort(z.T[::-1])][:: -(-len(z) // MOST)]


def _group_blocks(groups: Sequence[Points]) -> Iterator[Int[np.ndarray, " block"]]:
    """Yield groups of about one size, whose points are few enough to be fitted at once."""
    block: list[int] = []
    for k in np.argsort([len(points) for points in groups], kind="stable"):
        if block and (len(block) + 1) * len(groups[k]) > _AT_ONCE:
            yield np.array(block)
            block = []
        block.append(int(k))
    if block:
        yield np.array(block)


def _best_clusters(
    groups: list[Points], others: Shape, share: float, widths: Sequence[float]
) -> Shape:
    """Expectation and maximisation for all widths from several points of each group at once.

    Each goes towards the cluster nearest to it, and the likeliest of a width goes on.
    """
    longest = max(map(len, groups))
    here = np.arange(longest) < np.array([len(points) for points in groups])[:, None]
    z = np.zeros((*here.shape, others.mean.shape[-1]))
    z[here] = np.concatenate(groups)
    starts = _starts(groups, others)
    ridge = SMALLEST_VARIANCE * np.eye(z.shape[-1])
    wide = np.asarray(widths)[:, None, None] * others.scatter[:, None] + ridge
    among = _GroupPoints(z, here[:, None], others.student(z)[:, None], share)
    # what only chooses a start needs no more than half of the digits
    scouts = among._replace(dtype=np.dtype(np.float32))
    shares = np.full((len(z), len(widths) * starts.shape[1], 1), share)
    each = np.repeat(wide, starts.shape[1], axis=1)
    mixed = scouts.run_em(Shape(np.tile(starts, (len(widths), 1)), each), shares, each, SCOUTING)
    best = mixed.fitness.reshape(len(z), len(widths), -1).argmax(axis=2)
    best += starts.shape[1] * np.arange(len(widths))
    group = np.arange(len(z))[:, None]
    ahead = Shape(mixed.cluster.mean[group, best], mixed.cluster.scatter[group, best])
    return among.run_em(ahead, mixed.share[group, best], wide, SETTLING).cluster


class _FittedMixture(NamedTuple):
    """Fits of several clusters to each group: each is mixed with the other points of its group."""

    cluster: Shape
    """Centre and covariance of each cluster."""
    share: Float64[np.ndarray, "groups clusters 1"]
    """Share of the group's points in each cluster."""
    fitness: Float64[np.ndarray, "groups clusters"]
    """Log likelihood of the points, plus the log prior of the covariance."""


class _GroupPoints(NamedTuple):
    """Points of each group, among which a cluster is to be found."""

    z: Grid
    """Coordinates of the points; groups are filled up to the size of the largest."""
    here: Bool[np.ndarray, "groups 1 longest"]
    """True for points, false for what groups are filled up with."""
    other: Float64[np.ndarray, "groups 1 longest"]
    """Log density of each point, if it is outside of the cluster."""
    share: float
    """Expected share of points in the cluster."""
    dtype: np.dtype[np.floating] = np.dtype(np.float64)
    """In which densities of points are computed."""

    def run_em(
        self,
        cluster: Shape,
        share: Float64[np.ndarray, "groups clusters 1"],
        expected: Matrices,
        steps: int,
    ) -> _FittedMixture:
        """Expectation and maximisation of several clusters at once, each on its own.

        The log odds of a point are a sum of its coordinates, their products and its density
        outside, with weights that depend on the cluster: so they are a matrix product, as are the
        moments of a cluster.
        """
        size = self.here.sum(axis=-1)
        # around their centre, products of coordinates lose least
        centre = (self.z.sum(axis=1) / size)[:, None]
        terms = _terms(np.where(self.here.swapaxes(1, 2), self.z - centre, 0.0))
        basis = np.concatenate([terms, np.where(self.here, self.other, _NEVER)], axis=1)
        terms, basis = terms.astype(self.dtype), basis.astype(self.dtype)
        mean = [*np.moveaxis(cluster.mean - centre, -1, 0)]
        scatter, wide = as_entries(cluster.scatter), as_entries(expected)
        inside, odds = share[..., 0], np.empty((*share.shape[:2], self.z.shape[1]), self.dtype)
        for step in range(steps):
            # E-step: log odds of all points by one matrix product
            rest = np.log1p(-inside)
            weights = _minus_log_odds(mean, scatter, rest - np.log(inside)).astype(self.dtype)
            np.matmul(weights, basis, out=odds)
            np.minimum(odds, _MOST_ODDS, out=odds)
            last = -odds.sum(axis=-1) if step + 1 == steps else 0.0
            np.exp(odds, out=odds)
            odds += 1.0
            if step + 1 == steps:
                last += np.log(odds).sum(axis=-1)  # of 1 + exp(log odds)
            # 1 / (1 + e^-log odds), in place: the largest array of the fit
            weight = np.reciprocal(odds, out=odds)
            # M-step: zeroth, first and second moments of the weighted points at once
            count, *moments = np.ascontiguousarray(
                np.moveaxis(weight @ terms.swapaxes(1, 2), -1, 0), np.float64
            )
            total, squares = moments[: len(mean)], moments[len(mean) :]
            # posterior mode under a Beta prior: a cluster can neither vanish nor take all
            inside = (count + PSEUDO_COUNT * self.share) / (size + PSEUDO_COUNT)
            some = np.maximum(count, SMALLEST_VARIANCE)
            mean = [of / some for of in total]
            scatter = _posterior_scatter(count, total, squares, mean, wide)
        fitted = Shape(np.stack(mean, axis=-1) + centre, as_matrices(scatter))
        fitness = last + size * rest + (self.other * self.here).sum(axis=-1)
        return _FittedMixture(fitted, inside[..., None], fitness + _log_prior(fitted, expected))


def _posterior_scatter(
    count: np.ndarray, total: Entries, squares: Entries, mean: Entries, expected: Entries
) -> Entries:
    """The covariances about new means, drawn towards the expected ones.

    Args:
        count: number of points in each cluster.
        total: sum of their coordinates.
        squares: sum of the products of their coordinates.
        mean: of their coordinates.
        expected: covariances that are expected.
    """
    points = count + SCATTER_COUNT
    # second moments about the mean without a second pass over the points
    return [
        (
            square
            - total[i] * mean[j]
            - mean[i] * total[j]
            + count * mean[i] * mean[j]
            + SCATTER_COUNT * belief
        )
        / points
        for (i, j), square, belief in zip(
            coordinate_pairs(len(mean)), squares, expected, strict=True
        )
    ]


def _terms(z: Grid) -> Float64[np.ndarray, "groups terms longest"]:
    """One, the coordinates, and their products."""
    columns = np.moveaxis(z, -1, 0)
    products = [columns[i] * columns[j] for i, j in coordinate_pairs(len(columns))]
    return np.stack([np.ones_like(columns[0]), *columns, *products], axis=1)


def _minus_log_odds(
    mean: Entries, scatter: Entries, prior: Float64[np.ndarray, "groups clusters"]
) -> Float64[np.ndarray, "groups clusters weights"]:
    """Weights of the terms of a point, and of its log density outside, in minus its log odds.

    Args:
        mean: of each cluster.
        scatter: its covariance.
        prior: log odds that a point is in none.
    """
    d, pairs = len(mean), coordinate_pairs(len(mean))
    inverse = inverse_factor(scatter)
    white = [sum(inverse[i][j] * mean[j] for j in range(i + 1)) for i in range(d)]
    weights = [prior + 0.5 * (log_det(inverse) + sum(row * row for row in white))]
    weights += [-sum(inverse[i][j] * white[i] for i in range(j, d)) for j in range(d)]
    for (i, j), entry in zip(pairs, precision(inverse), strict=True):
        weights.append(entry if i != j else 0.5 * entry)
    return np.stack([*weights, np.ones_like(prior)], axis=-1)


def _log_prior(cluster: Shape, expected: Matrices) -> Float64[np.ndarray, "groups clusters"]:
    """Log density of each covariance under the inverse Wishart that `SCATTER_COUNT` stands for."""
    inverse = inverse_factor(as_entries(cluster.scatter))
    trace = sum(
        entry * belief * (1 if i == j else 2)
        for (i, j), entry, belief in zip(
            coordinate_pairs(len(inverse)), precision(inverse), as_entries(expected), strict=True
        )
    )
    # inverse Wishart: it keeps the width near the expected one where points are few
    belief: np.ndarray = -0.5 * SCATTER_COUNT * (log_det(inverse) + trace)
    return belief


def _starts(groups: list[Points], others: Shape) -> Float64[np.ndarray, "groups starts dimensions"]:
    """Choose starts evenly among the points that lie beyond the mean other in the first dimension.

    A group with fewer starts than another one repeats its last start, which changes nothing.
    """
    trusted = [
        (points if (points[:, 0] < mean[0]).all() else points[points[:, 0] >= mean[0]])
        for points, mean in zip(groups, others.mean, strict=True)
    ]
    most = min(STARTS, max(map(len, trusted)))
    return np.stack([points[_spread(len(points), most)] for points in trusted])


@lru_cache(maxsize=4096)
def _spread(points: int, starts: int) -> Int[np.ndarray, " starts"]:
    """Positions of starts, evenly among the points of a group; the last one again and again."""
    chosen = np.linspace(0, points - 1, min(starts, points)).round().astype(int)
    spread = np.pad(chosen, (0, starts - len(chosen)), mode="edge")
    spread.flags.writeable = False
    return spread
