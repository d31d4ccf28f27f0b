"""A model's predictions on its members cluster; the clusters are found without membership labels.

A network that fits its training records exactly answers all members of a class nearly alike:
they collapse to one point, with non-members on every side of it. A loss or a confidence is one
number, high or low, and cannot say "close to that point"; a density around it can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from divulge.attacks.membership.cluster_lira import mixtures
from divulge.attacks.membership.cluster_lira.mixtures import SMALLEST_VARIANCE
from divulge.attacks.membership.cluster_lira.shape import Shape

Points = Float64[np.ndarray, "records dimensions"]
Ratios = Float64[np.ndarray, " records"]
Labels = Int[np.ndarray, " records"]
Classes = Int[np.ndarray, " classes"]

SHRINKAGE = 3.0
"""Weight of all non-members' mean against that of a class's own, as a number of records."""

FEWEST = 3
"""Fewest suspects of a class among which a cluster is looked for."""

STEEPEST = 4.0
"""Nats of evidence for every standard deviation of confidence, at most."""


class Population(NamedTuple):
    """Predictions on some records as points, with their classes."""

    z: Points
    """Coordinates of each record: some of its centred log probabilities."""
    y: Labels
    """Class of each record."""

    def take(self, chosen: np.ndarray) -> "Population":
        """The chosen records."""
        return Population(self.z[chosen], self.y[chosen])


class _ClassRows(NamedTuple):
    """Records of known classes, each beside the place of its class among them."""

    rows: Int[np.ndarray, " known"]
    place: Int[np.ndarray, " known"]


def _rows_of_classes(labels: Labels, known: Classes) -> _ClassRows:
    rows = np.flatnonzero(np.isin(labels, known))
    return _ClassRows(rows, np.searchsorted(known, labels[rows]))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Members and non-members of each class, as fitted."""

    known: Classes
    """The fitted classes, in ascending order; other classes have too few suspects."""
    inside: Shape
    """Cluster of the members of each known class."""
    outside: Shape
    """Distribution of the non-members of each known class."""

    def log_ratio(self, population: Population) -> Ratios:
        """How much likelier each record's answer is for a member; 0 where nothing is known."""
        ratio: Ratios = log_ratios([self], population)[0]
        return ratio


def log_ratios(
    fits: Sequence[Clusters], population: Population
) -> Float64[np.ndarray, "fits records"]:
    """The log ratios of several fits to the same suspects and non-members, as `fit_clusters` has.

    Args:
        fits: one for each width.
        population: records of any class.
    """
    known, outside = fits[0].known, fits[0].outside
    ratios = np.zeros((len(fits), len(population.y)))
    rows, place = _rows_of_classes(population.y, known)
    z = population.z[rows][:, None]
    inside = Shape(*(np.concatenate(part) for part in zip(*(f.inside for f in fits), strict=True)))
    own = inside.gaussian(z, place + len(known) * np.arange(len(fits))[:, None])
    # Student's tails for non-members: a far outlier is no member for lying far out
    ratios[:, rows] = (own - outside.student(z, place))[..., 0]
    return ratios


def fit_clusters(
    suspects: Population, nonmembers: Population, share: float, widths: Sequence[float]
) -> list[Clusters]:
    """Fit non-members by their records, and members by what is left of the suspects.

    Args:
        suspects: records of which some are members; nobody says which.
        nonmembers: records that are known to be non-members.
        share: expected share of members among the suspects.
        widths: expected variances of the members of a class, as multiples of that of its
            non-members.

    Returns:
        One fit for each width.
    """
    (fitted,) = fit_clusters_of_each([(suspects, nonmembers)], share, widths)
    return fitted


def fit_clusters_of_each(
    pairs: Sequence[tuple[Population, Population]], share: float, widths: Sequence[float]
) -> list[list[Clusters]]:
    """`fit_clusters` of several pairs of suspects and non-members, which costs less at once."""
    known: list[Classes] = []
    outside: list[Shape] = []
    groups: list[Points] = []
    for suspects, nonmembers in pairs:
        labels, counts = np.unique(suspects.y, return_counts=True)
        known.append(labels[counts >= FEWEST])
        outside.append(_nonmember_shapes(known[-1], nonmembers))
        groups += [suspects.z[suspects.y == label] for label in known[-1]]
    everywhere = Shape(*map(np.concatenate, zip(*outside, strict=True)))
    inside = mixtures.find_clusters(groups, everywhere, share, widths)
    edges = np.cumsum([0, *map(len, known)])
    return [
        [
            Clusters(classes, Shape(mean[start:end], scatter[start:end]), others)
            for mean, scatter in zip(inside.mean, inside.scatter, strict=True)
        ]
        for classes, others, (start, end) in zip(known, outside, pairwise(edges), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ExponentialTilt:
    """Members that do not gather anywhere, but get answers of more confidence than non-members.

    Their density is that of non-members of the class times the exponential of the own log
    probability in standard deviations; how steep, a power of the ratio says.
    """

    known: Classes
    """The classes of the suspects, in ascending order."""
    outside: Shape
    """Distribution of the non-members of each known class."""

    def log_ratio(self, population: Population) -> Ratios:
        """`STEEPEST` times the standardised own log probability, before it is normalised."""
        ratio = np.zeros(len(population.y))
        rows, place = _rows_of_classes(population.y, self.known)
        deviation = np.sqrt(self.outside.scatter[place, 0, 0])
        ratio[rows] = (population.z[rows, 0] - self.outside.mean[place, 0]) / deviation
        return STEEPEST * ratio


def fit_tilt(suspects: Population, nonmembers: Population) -> ExponentialTilt:
    """Describe the non-members of each class of suspects."""
    known = np.unique(suspects.y)
    return ExponentialTilt(known, _nonmember_shapes(known, nonmembers))


def _nonmember_shapes(known: Classes, nonmembers: Population) -> Shape:
    """The non-members of each class, with the covariance of all."""
    everybody = _pooled_shape(nonmembers)
    rows, place = _rows_of_classes(nonmembers.y, known)
    total, count = _class_sums(nonmembers.z[rows], place, len(known))
    # shrunk towards all: few non-members of a class do not fix its centre
    mean = (total + SHRINKAGE * everybody.mean) / (count + SHRINKAGE)
    return Shape(mean, np.broadcast_to(everybody.scatter, (len(known), *everybody.scatter.shape)))


def _pooled_shape(nonmembers: Population) -> Shape:
    """The centre of all, and their covariance within classes."""
    labels, place = np.unique(nonmembers.y, return_inverse=True)
    total, count = _class_sums(nonmembers.z, place, len(labels))
    residual = nonmembers.z - (total / count)[place]
    freedom = max(1, len(residual) - len(labels))
    # points that do not vary in one direction would leave no Cholesky factor
    ridge = SMALLEST_VARIANCE * np.eye(residual.shape[1])
    return Shape(nonmembers.z.mean(axis=0), residual.T @ residual / freedom + ridge)


def _class_sums(
    z: Points, place: Labels, classes: int
) -> tuple[Float64[np.ndarray, "classes dimensions"], Int[np.ndarray, "classes 1"]]:
    """The sum of the points of each class, and their number."""
    total = np.stack([np.bincount(place, column, classes) for column in z.T], axis=1)
    # without any points NumPy's sums are whole numbers
    return total.astype(np.float64), np.bincount(place, minlength=classes)[:, None]
