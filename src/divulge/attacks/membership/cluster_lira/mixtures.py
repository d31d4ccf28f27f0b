"""Expectation and maximisation finds one cluster among other points, in many groups at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import special

Points = Float64[np.ndarray, "_ dimensions"]
Grid = Float64[np.ndarray, "groups longest dimensions"]
Matrices = Float64[np.ndarray, "groups clusters dimensions dimensions"]

FREEDOM = 6.0
"""Degrees of freedom of the non-members' Student t: outliers among them are common."""

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

_AT_ONCE = 500
"""Number of points fitted at once, so that their densities stay in a processor's cache."""


class Shape(NamedTuple):
    """Centre and covariance of one cluster; of several, stacked."""

    mean: Float64[np.ndarray, "*clusters dimensions"]
    scatter: Float64[np.ndarray, "*clusters dimensions dimensions"]

    def take(self, chosen: Int[np.ndarray, " chosen"]) -> "Shape":
        """The chosen clusters."""
        return Shape(self.mean[chosen], self.scatter[chosen])

    def gaussian(
        self, z: Float64[np.ndarray, "*some points dimensions"]
    ) -> Float64[np.ndarray, "*other points"]:
        """Log density without the factor (2π)^(-d/2), which `student` leaves out too.

        Clusters and points are broadcast: of all points for each cluster.
        """
        squared, log_det = self._distances(z)
        density: np.ndarray = -0.5 * (log_det + squared)
        return density

    def student(
        self, z: Float64[np.ndarray, "*some points dimensions"]
    ) -> Float64[np.ndarray, "*other points"]:
        """Log density of a multivariate t with this centre and scale matrix, as `gaussian`."""
        d, nu = self.mean.shape[-1], FREEDOM
        squared, log_det = self._distances(z)
        constant = special.gammaln((nu + d) / 2) - special.gammaln(nu / 2) - d / 2 * np.log(nu / 2)
        density: np.ndarray = constant - 0.5 * log_det - (nu + d) / 2 * np.log1p(squared / nu)
        return density

    def _distances(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared Mahalanobis distances (*clusters points), and log determinants (*clusters 1)."""
        factor = np.linalg.cholesky(self.scatter)
        squared: np.ndarray = np.zeros(())
        white: list[np.ndarray] = []
        for i in range(self.mean.shape[-1]):  # few dimensions, many points: solved a row at a time
            row = z[..., i] - self.mean[..., i, None]
            for j, known in enumerate(white):
                row -= factor[..., i, j, None] * known
            row /= factor[..., i, i, None]
            white.append(row)
            squared = squared + row**2
        log_det = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1, keepdims=True)
        return squared, log_det


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
        found = _best_clusters([thinned[k] for k in block], others.take(block), share, widths)
        mean[:, block] = found.mean.swapaxes(0, 1)
        scatter[:, block] = found.scatter.swapaxes(0, 1)
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
    begun = np.full((len(z), len(widths) * starts.shape[1], 1), share)
    each = np.repeat(wide, starts.shape[1], axis=1)
    mixed = among.run_em(Shape(np.tile(starts, (len(widths), 1)), each), begun, each, SCOUTING)
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

    def run_em(
        self,
        cluster: Shape,
        share: Float64[np.ndarray, "groups clusters 1"],
        expected: Matrices,
        steps: int,
    ) -> _FittedMixture:
        """Expectation and maximisation of several clusters at once, each on its own."""
        z, size = self.z, self.here.sum(axis=-1, keepdims=True)
        squares = (z[..., :, None] * z[..., None, :]).reshape(*z.shape[:2], -1)
        for _ in range(steps):
            ours = np.log(share) + cluster.gaussian(z[:, None])
            rest = np.log1p(-share) + self.other
            weight = special.expit(ours - rest) * self.here
            count = weight.sum(axis=-1, keepdims=True)
            share = (count + PSEUDO_COUNT * self.share) / (size + PSEUDO_COUNT)
            total = weight @ z
            mean = total / np.maximum(count, SMALLEST_VARIANCE)
            crossed = total[..., :, None] * mean[..., None, :]
            square = (weight @ squares).reshape(crossed.shape) - crossed - crossed.swapaxes(-1, -2)
            square += count[..., None] * mean[..., :, None] * mean[..., None, :]
            scatter = (square + SCATTER_COUNT * expected) / (count[..., None] + SCATTER_COUNT)
            cluster = Shape(mean, scatter)
        fitness = (np.logaddexp(ours, rest) * self.here).sum(axis=-1) + _log_prior(
            cluster, expected
        )
        return _FittedMixture(cluster, share, fitness)


def _log_prior(cluster: Shape, expected: Matrices) -> Float64[np.ndarray, "groups clusters"]:
    """Log density of each covariance under the inverse Wishart that `SCATTER_COUNT` stands for."""
    inverse = np.linalg.inv(cluster.scatter)
    log_det = np.linalg.slogdet(cluster.scatter)[1]
    belief: np.ndarray = (
        -0.5 * SCATTER_COUNT * (log_det + np.trace(inverse @ expected, axis1=-2, axis2=-1))
    )
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
    chosen = [np.linspace(0, len(points) - 1, min(most, len(points))).round() for points in trusted]
    return np.stack([
        points[np.pad(each.astype(int), (0, most - len(each)), mode="edge")]
        for points, each in zip(trusted, chosen, strict=True)
    ])  # fmt: skip
