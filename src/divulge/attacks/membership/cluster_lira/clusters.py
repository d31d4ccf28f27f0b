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

from divulge.attacks.membership.cluster_lira import mixtures
from divulge.attacks.membership.cluster_lira.mixtures import SMALLEST_VARIANCE, Shape

Points = Float64[np.ndarray, "records dimensions"]
Ratios = Float64[np.ndarray, " records"]
Labels = Int[np.ndarray, " records"]
Classes = Int[np.ndarray, " classes"]

SHRINKAGE = 3.0
"""Records' worth of belief that non-members of a class lie where those of all classes do."""

FEWEST = 3
"""Suspects of a class below which no cluster is looked for among them."""

STEEPEST = 4.0
"""Nats of evidence for every standard deviation of confidence, at most."""


class Population(NamedTuple):
    """What a model says of some records, as points, and their classes."""

    z: Points
    y: Labels

    def take(self, chosen: np.ndarray) -> "Population":
        """Some of them."""
        return Population(self.z[chosen], self.y[chosen])


class _Own(NamedTuple):
    """Records of known classes, each beside the place of its class among them."""

    rows: Int[np.ndarray, " known"]
    place: Int[np.ndarray, " known"]


def _own(labels: Labels, known: Classes) -> _Own:
    rows = np.flatnonzero(np.isin(labels, known))
    return _Own(rows, np.searchsorted(known, labels[rows]))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Members and non-members of each class, as fitted."""

    known: Classes
    """In ascending order; others have too few suspects."""
    inside: Shape
    """Of each known class."""
    outside: Shape

    def log_ratio(self, asked: Population) -> Ratios:
        """How much likelier each record's answer is for a member; 0 where nothing is known."""
        ratio = np.zeros(len(asked.y))
        rows, place = _own(asked.y, self.known)
        z = asked.z[rows][:, None]
        inside, outside = self.inside.take(place), self.outside.take(place)
        ratio[rows] = (inside.gaussian(z) - outside.student(z))[:, 0]
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
    labels, counts = np.unique(suspects.y, return_counts=True)
    known = labels[counts >= FEWEST]
    outside = _outside(known, outsiders)
    groups = [suspects.z[suspects.y == label] for label in known]
    inside = mixtures.find(groups, outside, share, widths)
    each = zip(inside.mean, inside.scatter, strict=True)
    return [Clusters(known, Shape(mean, scatter), outside) for mean, scatter in each]


@dataclass(frozen=True, slots=True)
class Tilt:
    """Members that do not gather anywhere, but get answers of more confidence than non-members.

    Their density is that of non-members of the class times the exponential of the own log
    probability in standard deviations; how steep, a power of the ratio says.
    """

    known: Classes
    outside: Shape
    """Of each known class."""

    def log_ratio(self, asked: Population) -> Ratios:
        """`STEEPEST` times the standardised own log probability, before it is normalised."""
        ratio = np.zeros(len(asked.y))
        rows, place = _own(asked.y, self.known)
        deviation = np.sqrt(self.outside.scatter[place, 0, 0])
        ratio[rows] = (asked.z[rows, 0] - self.outside.mean[place, 0]) / deviation
        return STEEPEST * ratio


def tilt(suspects: Population, outsiders: Population) -> Tilt:
    """Describe the non-members of each class of suspects."""
    known = np.unique(suspects.y)
    return Tilt(known, _outside(known, outsiders))


def _outside(known: Classes, outsiders: Population) -> Shape:
    """The non-members of each class, with the covariance of all."""
    everybody = _spread(outsiders)
    rows, place = _own(outsiders.y, known)
    total, count = _sums(outsiders.z[rows], place, len(known))
    mean = (total + SHRINKAGE * everybody.mean) / (count + SHRINKAGE)
    return Shape(mean, np.broadcast_to(everybody.scatter, (len(known), *everybody.scatter.shape)))


def _spread(outsiders: Population) -> Shape:
    """The centre of all, and their covariance within classes."""
    labels, place = np.unique(outsiders.y, return_inverse=True)
    total, count = _sums(outsiders.z, place, len(labels))
    residual = outsiders.z - (total / count)[place]
    freedom = max(1, len(residual) - len(labels))
    ridge = SMALLEST_VARIANCE * np.eye(residual.shape[1])
    return Shape(outsiders.z.mean(axis=0), residual.T @ residual / freedom + ridge)


def _sums(
    z: Points, place: Labels, classes: int
) -> tuple[Float64[np.ndarray, "classes dimensions"], Int[np.ndarray, "classes 1"]]:
    """Of the points of each class, and how many there are."""
    total = np.stack([np.bincount(place, column, classes) for column in z.T], axis=1)
    # without any points NumPy's sums are whole numbers
    return total.astype(np.float64), np.bincount(place, minlength=classes)[:, None]
