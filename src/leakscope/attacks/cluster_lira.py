"""ClusterLiRA: members of a class gather around one answer; how near is this record to it?"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, overload

import numpy as np
from jaxtyping import Float64, Int

from leakscope.attacks import assignment
from leakscope.attacks.in_cluster import Clusters, Expected, Population, Ratios, Tilt, fit, tilt
from leakscope.core import Assignment, FederationView, ModelView, Need, Records, Scores, Target
from leakscope.errors import NotApplicable, SpecError

WIDTHS = (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256)
"""Variances of a cluster that are tried, as multiples of that of non-members."""

STRENGTHS = np.linspace(0.1, 1.0, 10)
"""Powers of the likelihood ratio that are tried."""

PRICE = math.log((len(WIDTHS) + 1) * len(STRENGTHS) / 0.05)
"""Log likelihood by which held-out suspects must be explained better before anything is said.

Where there is nothing to find, a likelihood ratio of n or more has probability 1 / n at most
(Markov's inequality): one in twenty, shared among all that is tried.
"""

LIMIT = 8.0
"""Log likelihood ratios are bent so that none exceeds this size."""

FOLDS = 4

FEWEST = 2 * FOLDS
"""Reference records below which non-members cannot be described."""

SHRINKAGE = 3.0
"""Records' worth of belief that a class's ratios are as high for non-members as all classes'."""


_Fit = Callable[[Population, Population], Clusters | Tilt]


@dataclass(frozen=True, slots=True)
class ClusterLiRA:
    """A likelihood ratio between the cluster of a class's members and its known non-members.

    Answers are points: log probabilities, centred. Known non-members of a class are a Student t,
    its members a Gaussian that expectation and maximisation find among the suspects, without one
    label of membership. How narrow the cluster is, and how far the ratio is trusted, is what
    explains held-out suspects best; where no cluster does, as under differential privacy, the
    ratio is 1 for everybody and the attack is silent.

    On one model, suspects are the candidates themselves and known non-members the reference
    records; the score is the log ratio. In a federation, suspects are each client's relevant
    records and non-members its external ones, and the candidates are given to the likeliest of
    all clients and nobody.

    Args:
        share: of members among the suspects of one model; in a federation it is that of the
            colluding client.
        dimensions: coordinates of a point: the own class, and those others that vary most.

    References:
        leakscope's own, after the likelihood ratio of Carlini et al. (2022); that members of a
        class collapse to a point is neural collapse (Papyan, Han and Donoho 2020).
    """

    share: float = 0.5
    dimensions: int = 3

    name: ClassVar[str] = "cluster-lira"
    paper: ClassVar[str] = "leakscope 2026"

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
        del rng
        if isinstance(view, FederationView):
            return self._assign(view)
        assert view.reference is not None
        suspects, outsiders = self._points(view.target, view.records, view.reference)
        return Scores(_found(suspects, outsiders, self.share).log_ratio(suspects))

    def _assign(self, view: FederationView) -> Assignment:
        known = view.collusion.relevant
        share = (known.sum() + 1) / (len(known) + 2)
        ratio = np.zeros((len(view.records), len(view.targets)))
        for k in assignment.others(view):
            suspects, candidates, outsiders = self._points(
                view.targets[k], view.relevant[k], view.records, view.external[k]
            )
            ratio[:, k] = _found(suspects, outsiders, share).log_ratio(candidates)
        return assignment.by_posterior(view, ratio)

    def _points(self, target: Target, *sets: Records) -> list[Population]:
        """What a model says of several sets of records, the last being known non-members."""
        if len(sets[-1]) < FEWEST:
            raise NotApplicable(
                f"expected {FEWEST} or more records that are not members, got {len(sets[-1])}"
            )
        answers = [_centred(target.predict(records.x)) for records in sets]
        axes = _axes(answers[-1], sets[-1].y, self.dimensions)
        return [
            Population(np.take_along_axis(said, axes[records.y], axis=1), records.y)
            for said, records in zip(answers, sets, strict=True)
        ]


class _Found(NamedTuple):
    """How members are told from others, and how far that is trusted."""

    members: Clusters | Tilt
    strength: float
    log_norm: Float64[np.ndarray, " classes"]
    """Subtracted, by class, so that non-members' ratios have mean 1 at most."""

    def log_ratio(self, asked: Population) -> Ratios:
        """The tempered log likelihood ratio of each record."""
        ratio: Ratios = self.strength * _bent(self.members.log_ratio(asked))
        ratio -= self.log_norm[asked.y]
        return ratio


def _found(suspects: Population, outsiders: Population, share: float) -> _Found:
    """What explains held-out suspects best: clusters of some width, or a tilt; and how far."""
    classes = int(max(suspects.y.max(initial=0), outsiders.y.max())) + 1
    clusters = [partial(fit, expected=Expected(share, width)) for width in WIDTHS]
    ways: list[_Fit] = [tilt, *clusters]
    best, chosen, strength, norm = 0.0, ways[0], 0.0, np.zeros(classes)
    for way in ways:
        theirs, others = _held_out(suspects, outsiders, way)
        for power in STRENGTHS:
            log_norm = _log_norm(power * others, outsiders.y, classes)
            tempered = power * theirs - log_norm[suspects.y]
            gain = np.logaddexp(np.log(share) + tempered, np.log1p(-share)).sum() - PRICE
            if gain > best:
                best, chosen, strength, norm = float(gain), way, float(power), log_norm
    return _Found(chosen(suspects, outsiders), strength, norm)


def _held_out(
    suspects: Population, outsiders: Population, way: _Fit
) -> tuple[np.ndarray, np.ndarray]:
    """The bent log ratios of both, each by what was fitted without it."""
    theirs, others = np.zeros(len(suspects.y)), np.zeros(len(outsiders.y))
    fold, other_fold = _folds(suspects), _folds(outsiders)
    for k in range(FOLDS):
        here, there = fold == k, other_fold == k
        members = way(suspects.take(~here), outsiders.take(~there))
        theirs[here] = _bent(members.log_ratio(suspects.take(here)))
        others[there] = _bent(members.log_ratio(outsiders.take(there)))
    return theirs, others


def _folds(population: Population) -> Int[np.ndarray, " records"]:
    """One of the folds for each record, whatever order they are in."""
    fold = np.empty(len(population.y), np.int64)
    fold[np.lexsort(population.z.T[::-1])] = np.arange(len(fold)) % FOLDS
    return fold


def _log_norm(ratio: Ratios, y: np.ndarray, classes: int) -> Float64[np.ndarray, " classes"]:
    """The log of the mean ratio of non-members of each class, where it exceeds 1."""
    likelihood = np.exp(ratio)
    total = np.bincount(y, likelihood, minlength=classes) + SHRINKAGE * likelihood.mean()
    mean = total / (np.bincount(y, minlength=classes) + SHRINKAGE)
    log_norm: Float64[np.ndarray, " classes"] = np.log(np.maximum(1.0, mean))
    return log_norm


def _bent(ratio: Ratios) -> Ratios:
    """The same order, but no size beyond the limit: densities far out are not to be trusted."""
    bent: Ratios = LIMIT * np.tanh(ratio / LIMIT)
    return bent


def _centred(
    probabilities: Float64[np.ndarray, "records classes"],
) -> Float64[np.ndarray, "records classes"]:
    """Log probabilities less their mean: logits, but for the constant that softmax loses."""
    seen = probabilities[probabilities > 0]
    log = np.log(np.maximum(probabilities, seen.min() / 2))  # a zero is just beyond the smallest
    centred: Float64[np.ndarray, "records classes"] = log - log.mean(axis=1, keepdims=True)
    return centred


def _axes(
    answers: Float64[np.ndarray, "records classes"], y: np.ndarray, dimensions: int
) -> Int[np.ndarray, "classes axes"]:
    """Whose log probabilities describe a record of each class: its own, and the liveliest others.

    One class less than there are says all, since centred log probabilities add up to zero.
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
