"""Where the records that a model was trained on gather among its answers, found without labels.

A network that fits its training records exactly answers all members of a class nearly alike:
they collapse to one point, with non-members on every side of it. A loss or a confidence is one
number, high or low, and cannot say "close to that point"; a density around it can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import gammaln

Points = Float64[np.ndarray, "records dimensions"]
Ratios = Float64[np.ndarray, " records"]
Labels = Int[np.ndarray, " records"]
Matrices = Float64[np.ndarray, "clusters dimensions dimensions"]

FREEDOM = 6.0
"""Degrees of freedom of the non-members' Student t: outliers among them are common."""

SHRINKAGE = 3.0
"""Records' worth of belief that non-members of a class lie where those of all classes do."""

PSEUDO_COUNT = 6.0
"""Suspects' worth of belief in the share of members that was expected."""

SCATTER_COUNT = 10.0
"""Members' worth of belief in the width of the cluster that was expected."""

FEWEST = 3
"""Suspects of a class below which no cluster is looked for among them."""

MOST = 300
"""Suspects of a class that a cluster is fitted to."""

STARTS = 12
"""Suspects at which a cluster is looked for; more find the same ones again."""

SCOUTING, SETTLING = 5, 10
"""Steps of expectation and maximisation: from all starts, and then with the best of them alone."""

SMALLEST_VARIANCE = 1e-4
"""In squared nats: below it, clusters are as narrow as rounding."""


STEEPEST = 4.0
"""Nats of evidence for every standard deviation of confidence, at most."""


class Population(NamedTuple):
    """What a model says of some records, as points, and their classes."""

    z: Points
    y: Labels

    def take(self, chosen: np.ndarray) -> "Population":
        """Some of them."""
        return Population(self.z[chosen], self.y[chosen])


class Shape(NamedTuple):
    """Centre and covariance of the records of one class; of several clusters, stacked."""

    mean: Float64[np.ndarray, "*clusters dimensions"]
    scatter: Float64[np.ndarray, "*clusters dimensions dimensions"]

    def distances(self, z: Points) -> tuple[np.ndarray, np.ndarray]:
        """Squared Mahalanobis distances (*clusters records), and log determinants (*clusters 1)."""
        factor = np.linalg.cholesky(self.scatter)
        offset = np.swapaxes(z - self.mean[..., None, :], -1, -2)
        white = np.linalg.inv(factor) @ offset  # small matrices, many points: faster than to solve
        squared = np.einsum("...dn,...dn->...n", white, white)
        log_det = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1, keepdims=True)
        return squared, log_det

    def gaussian(self, z: Points) -> np.ndarray:
        """Log density without the factor (2π)^(-d/2), which `student` leaves out too."""
        squared, log_det = self.distances(z)
        density: np.ndarray = -0.5 * (log_det + squared)
        return density

    def student(self, z: Points) -> np.ndarray:
        """Log density of a multivariate t with this centre and scale matrix."""
        d, nu = self.mean.shape[-1], FREEDOM
        squared, log_det = self.distances(z)
        constant = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu / 2)
        density: np.ndarray = constant - 0.5 * log_det - (nu + d) / 2 * np.log1p(squared / nu)
        return density


@dataclass(frozen=True, slots=True)
class Clusters:
    """Members and non-members of each class, as fitted."""

    inside: dict[int, Shape]
    """Classes with too few suspects are missing."""
    outside: dict[int, Shape]

    def log_ratio(self, asked: Population) -> Ratios:
        """How much likelier each record's answer is for a member; 0 where nothing is known."""
        ratio = np.zeros(len(asked.y))
        for label, inside in self.inside.items():
            rows = asked.y == label
            z = asked.z[rows]
            ratio[rows] = inside.gaussian(z) - self.outside[label].student(z)
        return ratio


def fit(
    suspects: Population, outsiders: Population, share: float, widths: Sequence[float]
) -> list[Clusters]:
    """Fit non-members by their records, and members by what is left of the suspects.

    Args:
        suspects: some are members; which, nobody says.
        outsiders: none is.
        share: of members among the suspects, as far as is believed beforehand.
        widths: believed variances of the members of a class, as multiples of that of its
            non-members; a fit for each.
    """
    outside = _outside_by_class(suspects.y, outsiders)
    inside: list[dict[int, Shape]] = [{} for _ in widths]
    for label, shape in outside.items():
        among = suspects.z[suspects.y == label]
        if len(among) >= FEWEST:
            found = _inside(among, shape, share, widths)
            for known, cluster in zip(inside, found, strict=True):
                known[label] = cluster
    return [Clusters(known, outside) for known in inside]


@dataclass(frozen=True, slots=True)
class Tilt:
    """Members that do not gather anywhere, but get answers of more confidence than non-members.

    Their density is that of non-members of the class times the exponential of the own log
    probability in standard deviations; how steep, a power of the ratio says.
    """

    outside: dict[int, Shape]

    def log_ratio(self, asked: Population) -> Ratios:
        """`STEEPEST` times the standardised own log probability, before it is normalised."""
        ratio = np.zeros(len(asked.y))
        for label, shape in self.outside.items():
            rows = asked.y == label
            ratio[rows] = (asked.z[rows, 0] - shape.mean[0]) / np.sqrt(shape.scatter[0, 0])
        return STEEPEST * ratio


def tilt(suspects: Population, outsiders: Population) -> Tilt:
    """Describe the non-members of each class of suspects."""
    return Tilt(_outside_by_class(suspects.y, outsiders))


def _outside_by_class(labels: Labels, outsiders: Population) -> dict[int, Shape]:
    everybody = _spread(outsiders)
    return {
        int(label): _outside(outsiders.z[outsiders.y == label], everybody)
        for label in np.unique(labels)
    }


def _spread(outsiders: Population) -> Shape:
    """The centre of all, and their covariance within classes."""
    residual = outsiders.z.copy()
    for label in np.unique(outsiders.y):
        rows = outsiders.y == label
        residual[rows] -= residual[rows].mean(axis=0)
    freedom = max(1, len(residual) - len(np.unique(outsiders.y)))
    ridge = SMALLEST_VARIANCE * np.eye(residual.shape[1])
    return Shape(outsiders.z.mean(axis=0), residual.T @ residual / freedom + ridge)


def _outside(z: Points, everybody: Shape) -> Shape:
    mean = (z.sum(axis=0) + SHRINKAGE * everybody.mean) / (len(z) + SHRINKAGE)
    return Shape(mean, everybody.scatter)


def _inside(z: Points, outside: Shape, share: float, widths: Sequence[float]) -> list[Shape]:
    """For each width the cluster that explains best, with the non-members, where suspects lie.

    Of many suspects, a sample that is even along their own log probability shows it as well.
    Expectation and maximisation for all widths from several suspects at once; each goes towards
    the cluster nearest to it, and the likeliest of a width goes on.
    """
    z = z[np.lexsort(z.T[::-1])][:: -(-len(z) // MOST)]
    starts = _starts(z, outside)
    ridge = SMALLEST_VARIANCE * np.eye(z.shape[1])
    wide = np.asarray(widths)[:, None, None] * outside.scatter + ridge
    among = _Among(z, outside.student(z), share)
    begun = np.full((len(widths) * len(starts), 1), share)
    each = np.repeat(wide, len(starts), axis=0)
    mixed = among.settled(Shape(np.tile(starts, (len(widths), 1)), each), begun, each, SCOUTING)
    best = mixed.fitness.reshape(len(widths), -1).argmax(axis=1)
    best += len(starts) * np.arange(len(widths))
    ahead = Shape(mixed.cluster.mean[best], mixed.cluster.scatter[best])
    found = among.settled(ahead, mixed.share[best], wide, SETTLING).cluster
    return [Shape(mean, scatter) for mean, scatter in zip(found.mean, found.scatter, strict=True)]


class _Mixed(NamedTuple):
    """Several clusters, each mixed with the non-members."""

    cluster: Shape
    share: Float64[np.ndarray, "clusters 1"]
    """Of suspects in the cluster."""
    fitness: Float64[np.ndarray, " clusters"]
    """Log likelihood of the suspects, with the belief in the covariance."""


class _Among(NamedTuple):
    """Suspects of one class, among whom members are to be found."""

    z: Points
    other: Ratios
    """Log densities, were they non-members."""
    share: float
    """Of members, as expected."""

    def settled(
        self,
        cluster: Shape,
        share: Float64[np.ndarray, "clusters 1"],
        expected: Matrices,
        steps: int,
    ) -> _Mixed:
        """Expectation and maximisation of several clusters at once, each on its own."""
        z = self.z
        for _ in range(steps):
            ours = np.log(share) + cluster.gaussian(z)
            both = np.logaddexp(ours, np.log1p(-share) + self.other)
            weight = np.exp(ours - both)
            count = weight.sum(axis=1, keepdims=True)
            share = (count + PSEUDO_COUNT * self.share) / (len(z) + PSEUDO_COUNT)
            mean = weight @ z / np.maximum(count, SMALLEST_VARIANCE)
            offset = z - mean[:, None, :]
            square = np.swapaxes(weight[..., None] * offset, 1, 2) @ offset
            scatter = (square + SCATTER_COUNT * expected) / (count[..., None] + SCATTER_COUNT)
            cluster = Shape(mean, scatter)
        return _Mixed(cluster, share, both.sum(axis=1) + _prior(cluster, expected))


def _prior(cluster: Shape, expected: Matrices) -> np.ndarray:
    """Log density of each covariance under the inverse Wishart that `SCATTER_COUNT` stands for."""
    inverse = np.linalg.inv(cluster.scatter)
    log_det = np.linalg.slogdet(cluster.scatter)[1]
    belief: np.ndarray = (
        -0.5 * SCATTER_COUNT * (log_det + np.trace(inverse @ expected, axis1=-2, axis2=-1))
    )
    return belief


def _starts(z: Points, outside: Shape) -> Float64[np.ndarray, "starts dimensions"]:
    """Of suspects in order, those as trusted as the mean non-member or more, evenly."""
    trusted = z[z[:, 0] >= outside.mean[0]]
    trusted = trusted if len(trusted) else z
    chosen = np.linspace(0, len(trusted) - 1, min(STARTS, len(trusted)))
    starts: Float64[np.ndarray, "starts dimensions"] = trusted[chosen.round().astype(int)]
    return starts
