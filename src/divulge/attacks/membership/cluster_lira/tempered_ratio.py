"""Fit a likelihood ratio of members to non-members; held-out suspects say how far to trust it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

from divulge.attacks.membership.cluster_lira.clusters import (
    Clusters,
    ExponentialTilt,
    Population,
    Ratios,
    fit_clusters_of_each,
    fit_tilt,
    log_ratios,
)

WIDTHS = (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256)
"""Variances of a cluster that are tried, as multiples of the non-members' variance."""

STRENGTHS = np.linspace(0.1, 1.0, 10)
"""Powers of the likelihood ratio that are tried."""

PERMUTATIONS = 19
"""Number of permutations of suspects and non-members, to see what is found if nothing leaks."""

LEAST = math.log(1 + PERMUTATIONS)
"""Smallest gain in the log likelihood of held-out suspects that is tested by permutations.

A smaller gain is rarely the highest of so many, and would be no more evidence if it were.
"""

ROUNDING = 1e-6
"""Differences of gains below this, in log likelihood, come from the order of records alone."""

LIMIT = 8.0
"""Largest size of a log likelihood ratio, after a soft clip."""

FOLDS = 4

FEWEST = 2 * FOLDS
"""Reference records below which non-members cannot be described."""

SHRINKAGE = 3.0
"""Weight of all classes' mean ratio of non-members against a class's own, in records."""


class TemperedRatio(NamedTuple):
    """A fitted likelihood ratio of members to others, and how far it is trusted."""

    members: Clusters | ExponentialTilt
    strength: float
    log_norm: Float64[np.ndarray, " classes"]
    """Constant subtracted in each class, so that non-members' ratios have mean 1 at most."""

    def log_ratio(self, population: Population) -> Ratios:
        """The tempered log likelihood ratio of each record."""
        ratio: Ratios = self.strength * _soft_clip(self.members.log_ratio(population)[None])[0]
        # an e-value: the mean ratio of non-members is 1 at most, so a claim costs what it says
        ratio -= self.log_norm[population.y]
        return ratio


class _BestModel(NamedTuple):
    """The model that explains held-out suspects best, and by how much: 0 if none does."""

    gain: float
    """Log likelihood of held-out suspects, less that of the hypothesis that none is a member."""
    way: int
    """Index of the model in the list that `_candidate_models` returns."""
    strength: float
    log_norm: Float64[np.ndarray, " classes"]


class _Models(NamedTuple):
    """All models that are tried."""

    tilt: ExponentialTilt
    clusters: list[Clusters]
    """One for each of the widths."""


def fit_ratio(
    suspects: Population, nonmembers: Population, share: float, rng: np.random.Generator
) -> TemperedRatio:
    """Fit the model that explains held-out suspects best, if it does so better than chance.

    Where a model leaks nothing, suspects and non-members of a class are exchangeable. So its gain
    is the highest of itself and those after n exchanges with a chance of 1 / (n + 1) at most,
    whatever the distributions are and however many ways were tried.
    """
    best = _best_model(suspects, nonmembers, share)
    members = _candidate_models(suspects, nonmembers, share)[best.way]
    # Phipson and Smyth (2010): the true assignment counts as one of the n + 1 permutations
    stands_out = best.gain > LEAST and all(
        _best_model(*_permute_within_classes(suspects, nonmembers, rng), share).gain
        < best.gain - ROUNDING
        for _ in range(PERMUTATIONS)
    )
    if stands_out:
        return TemperedRatio(members, best.strength, best.log_norm)
    return TemperedRatio(members, 0.0, np.zeros_like(best.log_norm))


def _candidate_models(
    suspects: Population, nonmembers: Population, share: float
) -> list[Clusters | ExponentialTilt]:
    """Fit all models that are tried: a tilt, and clusters of several widths."""
    ((tilt, clusters),) = _candidate_models_of_each([(suspects, nonmembers)], share)
    return [tilt, *clusters]


def _candidate_models_of_each(
    pairs: Sequence[tuple[Population, Population]], share: float
) -> list[_Models]:
    """All models that are tried, of each pair of suspects and non-members."""
    clusters = fit_clusters_of_each(pairs, share, WIDTHS)
    return [_Models(fit_tilt(*pair), fits) for pair, fits in zip(pairs, clusters, strict=True)]


def _log_ratios(models: _Models, population: Population) -> Float64[np.ndarray, "models records"]:
    """Soft-clipped log ratios by each model."""
    tilted = models.tilt.log_ratio(population)
    return _soft_clip(np.vstack([tilted, log_ratios(models.clusters, population)]))


def _permute_within_classes(
    suspects: Population, nonmembers: Population, rng: np.random.Generator
) -> tuple[Population, Population]:
    """Permute suspects and non-members within each class, whatever order the records are in."""
    z, y = np.concatenate([suspects.z, nonmembers.z]), np.concatenate([suspects.y, nonmembers.y])
    # an order of the values' own: the draw must not depend on that of the records
    order = np.lexsort((*z.T[::-1], y))
    suspected = np.zeros(len(y), bool)
    for label, count in zip(*np.unique(suspects.y, return_counts=True), strict=True):
        suspected[rng.choice(order[y[order] == label], count, replace=False)] = True
    both = Population(z, y)
    return both.take(suspected), both.take(~suspected)


def _best_model(suspects: Population, nonmembers: Population, share: float) -> _BestModel:
    """Compare all models, at all strengths."""
    classes = int(max(suspects.y.max(initial=0), nonmembers.y.max())) + 1
    best = _BestModel(0.0, 0, 0.0, np.zeros(classes))
    held_out = _held_out_ratios(suspects, nonmembers, share)
    for way, (theirs, others) in enumerate(zip(*held_out, strict=True)):
        log_norm = _log_norm(STRENGTHS[:, None] * others, nonmembers.y, classes)
        tempered = STRENGTHS[:, None] * theirs - log_norm[:, suspects.y]
        # mixture of members and non-members over non-members alone, for held-out suspects
        gains = np.logaddexp(np.log(share) + tempered, np.log1p(-share)).sum(axis=1)
        k = int(gains.argmax())
        if gains[k] > best.gain:
            best = _BestModel(float(gains[k]), way, float(STRENGTHS[k]), log_norm[k])
    return best


def _held_out_ratios(
    suspects: Population, nonmembers: Population, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Soft-clipped log ratios (models, records) of both, each by a model fitted without it."""
    count = 1 + len(WIDTHS)
    theirs, others = np.zeros((count, len(suspects.y))), np.zeros((count, len(nonmembers.y)))
    fold, other_fold = _assign_folds(suspects), _assign_folds(nonmembers)
    pairs = [(suspects.take(fold != k), nonmembers.take(other_fold != k)) for k in range(FOLDS)]
    for k, ways in enumerate(_candidate_models_of_each(pairs, share)):
        here, there = fold == k, other_fold == k
        theirs[:, here] = _log_ratios(ways, suspects.take(here))
        others[:, there] = _log_ratios(ways, nonmembers.take(there))
    return theirs, others


def _assign_folds(population: Population) -> Int[np.ndarray, " records"]:
    """One of the folds for each record, whatever order they are in."""
    fold = np.empty(len(population.y), np.int64)
    fold[np.lexsort(population.z.T[::-1])] = np.arange(len(fold)) % FOLDS
    return fold


def _log_norm(
    ratio: Float64[np.ndarray, "strengths records"], y: np.ndarray, classes: int
) -> Float64[np.ndarray, "strengths classes"]:
    """The log of the mean ratio of non-members of each class, where it exceeds 1."""
    likelihood = np.exp(ratio)
    of_class = np.eye(classes)[y]
    total = likelihood @ of_class + SHRINKAGE * likelihood.mean(axis=1, keepdims=True)
    # shrunk to all classes: a class with few non-members shows no tail
    mean = total / (of_class.sum(axis=0) + SHRINKAGE)
    log_norm: Float64[np.ndarray, "strengths classes"] = np.log(np.maximum(1.0, mean))
    return log_norm


def _soft_clip(
    ratio: Float64[np.ndarray, "*models records"],
) -> Float64[np.ndarray, "*models records"]:
    """Clip ratios softly, in the same order: densities far out are not to be trusted."""
    return np.asarray(LIMIT * np.tanh(ratio / LIMIT))
