"""ClusterLiRA: members of a class cluster around one prediction; the score is a ratio of it."""

import itertools
import math
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, NamedTuple, overload

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.arguments import check_arguments
from divulge.attacks.membership.cluster_lira.clusters import (
    Clusters,
    ExponentialTilt,
    Population,
    Ratios,
    fit_clusters,
    fit_tilt,
)
from divulge.attacks.shared import decision
from divulge.core import Assignment, FederationView, ModelView, Need, Records, Scores, Target
from divulge.errors import NotApplicable, SpecError

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

HINT = 0.5
"""Nats for every standard deviation of confidence in the order of a silent client's candidates.

They weigh it against how many candidates each client is expected to have trained on.
"""

LIMIT = 8.0
"""Largest size of a log likelihood ratio, after a soft clip."""

FOLDS = 4

FEWEST = 2 * FOLDS
"""Reference records below which non-members cannot be described."""

SHRINKAGE = 3.0
"""Weight of all classes' mean ratio of non-members against a class's own, in records."""


@check_arguments
@dataclass(frozen=True, slots=True)
class ClusterLiRA:
    """Likelihood ratio between the cluster of a class's members and its known non-members.

    A network that fits its records answers nearly alike about all members of a class. Answers are
    points of centred log probabilities. Known non-members of a class follow a Student t, its
    members a Gaussian that expectation-maximisation finds among the suspects. Held-out suspects
    choose the width of the Gaussian and how far to trust the ratio. Unless they are explained
    better than after each of 19 exchanges of suspects and non-members, all ratios are 1, which is
    no claim. So a model that does not leak gets a claim in at most one case of 20.

    On one model, suspects are the candidates and known non-members the reference records. In a
    federation they are a client's relevant and external records, and each candidate gets a
    posterior over all clients and nobody. Candidates of a client without a claim are ordered by
    confidence less what is usual for the class; that decides nothing.

    Args:
        share: share of members among the suspects of one model. In a federation it is the colluding
            client's share, or without one such a share that half of all are members.
        dimensions: coordinates of a point: the own class, and the classes that vary most.

    References:
        divulge's own, after the likelihood ratio of Carlini et al. (2022) and neural collapse
        (Papyan, Han and Donoho 2020).
    """

    share: float = 0.5
    dimensions: int = 3

    name: ClassVar[str] = "cluster-lira"
    paper: ClassVar[str] = "divulge 2026"

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SpecError(f"expected share above 0 and below 1, got {self.share}")
        if self.dimensions < 1:
            raise SpecError(f"expected dimensions of 1 or more, got {self.dimensions}")

    @property
    def needs(self) -> Need:
        """Probabilities, and records that are known not to be members."""
        return Need.PROBABILITIES | Need.LABELS | Need.REFERENCE

    @overload
    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores: ...

    @overload
    def __call__(self, view: FederationView, rng: np.random.Generator) -> Assignment: ...

    def __call__(
        self, view: ModelView | FederationView, rng: np.random.Generator
    ) -> Scores | Assignment:
        """The log likelihood ratio of each candidate, or the posterior over clients and nobody."""
        if isinstance(view, FederationView):
            return self._assign(view, rng)
        assert view.reference is not None
        suspects, nonmembers = self._points(view.target, view.records, view.reference)
        return Scores(_fit_ratio(suspects, nonmembers, self.share, rng).log_ratio(suspects))

    def _assign(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        ratio = np.zeros((len(view.records), len(view.targets)))
        order = np.zeros_like(ratio)
        for k in decision.clients_under_attack(view):
            suspects, candidates, nonmembers = self._points(
                view.targets[k], view.relevant[k], view.records, view.external[k]
            )
            fitted = _fit_ratio(suspects, nonmembers, _expect_share(view, int(k)), rng)
            ratio[:, k] = fitted.log_ratio(candidates)
            if not fitted.strength:
                order[:, k] = HINT * _excess_confidence(suspects, candidates, nonmembers)
        return decision.decide_by_posterior(view, ratio, order)

    def _points(self, target: Target, *sets: Records) -> list[Population]:
        """Predictions on several sets of records as points; the last set is known non-members."""
        if len(sets[-1]) < FEWEST:
            raise NotApplicable(
                f"expected {FEWEST} or more records that are not members, got {len(sets[-1])}"
            )
        asked = reduce(Records.joined, sets)
        # axes by all alike: were they by the last, it could not change places with the first
        answers = _centre_log_probabilities(target.predict(asked.x))
        axes = _choose_axes(answers, asked.y, self.dimensions)
        points = Population(np.take_along_axis(answers, axes[asked.y], axis=1), asked.y)
        edges = np.cumsum([0, *map(len, sets)])
        return [points.take(np.arange(*edge)) for edge in itertools.pairwise(edges)]


def _expect_share(view: FederationView, k: int) -> float:
    """The share of members that is expected among the suspects of a client."""
    known = view.collusion
    if known.client is not None:
        return float((known.relevant.sum() + 1) / (len(known.relevant) + 2))
    members = decision.expected_shares(view)[k] * len(view.records)
    return float(members / max(1, len(view.relevant[k])))


class _TemperedRatio(NamedTuple):
    """A fitted likelihood ratio of members to others, and how far it is trusted."""

    members: Clusters | ExponentialTilt
    strength: float
    log_norm: Float64[np.ndarray, " classes"]
    """Constant subtracted in each class, so that non-members' ratios have mean 1 at most."""

    def log_ratio(self, asked: Population) -> Ratios:
        """The tempered log likelihood ratio of each record."""
        ratio: Ratios = self.strength * _soft_clip(self.members.log_ratio(asked))
        ratio -= self.log_norm[asked.y]
        return ratio


class _BestModel(NamedTuple):
    """The model that explains held-out suspects best, and by how much: 0 if none does."""

    gain: float
    """Log likelihood of held-out suspects, less that of the hypothesis that none is a member."""
    way: int
    """Index of the model in the list that `_candidate_models` returns."""
    strength: float
    log_norm: Float64[np.ndarray, " classes"]


def _fit_ratio(
    suspects: Population, nonmembers: Population, share: float, rng: np.random.Generator
) -> _TemperedRatio:
    """Fit the model that explains held-out suspects best, if it does so better than chance.

    Where a model leaks nothing, suspects and non-members of a class are exchangeable. So its gain
    is the highest of itself and those after n exchanges with a chance of 1 / (n + 1) at most,
    whatever the distributions are and however many ways were tried.
    """
    best = _best_model(suspects, nonmembers, share)
    members = _candidate_models(suspects, nonmembers, share)[best.way]
    stands_out = best.gain > LEAST and all(
        _best_model(*_permute_within_classes(suspects, nonmembers, rng), share).gain
        < best.gain - ROUNDING
        for _ in range(PERMUTATIONS)
    )
    if stands_out:
        return _TemperedRatio(members, best.strength, best.log_norm)
    return _TemperedRatio(members, 0.0, np.zeros_like(best.log_norm))


def _excess_confidence(
    suspects: Population, candidates: Population, nonmembers: Population
) -> Float64[np.ndarray, " records"]:
    """Candidates' own log probability less the mean of their class, in standard deviations."""
    z = np.concatenate([part.z[:, 0] for part in (candidates, suspects, nonmembers)])
    y = np.concatenate([part.y for part in (candidates, suspects, nonmembers)])
    mean = np.bincount(y, z) / np.maximum(np.bincount(y), 1)
    residual: Float64[np.ndarray, " records"] = z - mean[y]
    residual /= float(residual.std()) or 1.0
    return residual[: len(candidates.y)]


def _candidate_models(
    suspects: Population, nonmembers: Population, share: float
) -> list[Clusters | ExponentialTilt]:
    """Fit all models that are tried: a tilt, and clusters of several widths."""
    return [fit_tilt(suspects, nonmembers), *fit_clusters(suspects, nonmembers, share, WIDTHS)]


def _permute_within_classes(
    suspects: Population, nonmembers: Population, rng: np.random.Generator
) -> tuple[Population, Population]:
    """Permute suspects and non-members within each class, whatever order the records are in."""
    z, y = np.concatenate([suspects.z, nonmembers.z]), np.concatenate([suspects.y, nonmembers.y])
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
    for k in range(FOLDS):
        here, there = fold == k, other_fold == k
        ways = _candidate_models(suspects.take(~here), nonmembers.take(~there), share)
        theirs[:, here] = [_soft_clip(way.log_ratio(suspects.take(here))) for way in ways]
        others[:, there] = [_soft_clip(way.log_ratio(nonmembers.take(there))) for way in ways]
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
    mean = total / (of_class.sum(axis=0) + SHRINKAGE)
    log_norm: Float64[np.ndarray, "strengths classes"] = np.log(np.maximum(1.0, mean))
    return log_norm


def _soft_clip(ratio: Ratios) -> Ratios:
    """Clip ratios softly, in the same order: densities far out are not to be trusted."""
    bent: Ratios = LIMIT * np.tanh(ratio / LIMIT)
    return bent


def _centre_log_probabilities(
    probabilities: Float64[np.ndarray, "records classes"],
) -> Float64[np.ndarray, "records classes"]:
    """Log probabilities less their mean: logits, but for the constant that softmax loses."""
    seen = probabilities[probabilities > 0]
    # a zero is just beyond the smallest; half of the least number that there is would be zero
    least = max(seen.min() / 2, np.finfo(np.float64).tiny)
    log = np.log(np.maximum(probabilities, least))
    centred: Float64[np.ndarray, "records classes"] = log - log.mean(axis=1, keepdims=True)
    return centred


def _choose_axes(
    answers: Float64[np.ndarray, "records classes"], y: np.ndarray, dimensions: int
) -> Int[np.ndarray, "classes axes"]:
    """For each class the classes whose log probabilities describe its records.

    They are the class itself, and the others that vary most. One class less than there are says
    all, since centred log probabilities add up to zero.
    """
    classes = answers.shape[1]
    within = answers.copy()
    for label in np.unique(y):
        within[y == label] -= within[y == label].mean(axis=0)
    liveliest = np.argsort(-within.var(axis=0), kind="stable")
    kept = min(dimensions, classes - 1)
    return np.array([
        [label, *liveliest[liveliest != label][: kept - 1]] for label in range(classes)
    ])  # fmt: skip
