"""ClusterLiRA: members of a class cluster around one prediction; the score is a ratio of it."""

import itertools
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, overload

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.arguments import check_arguments
from divulge.attacks.membership.cluster_lira.clusters import (
    Population,
)
from divulge.attacks.membership.cluster_lira.tempered_ratio import FEWEST, fit_ratio
from divulge.attacks.shared import decision
from divulge.core import Assignment, FederationView, ModelView, Need, Records, Scores, Target
from divulge.errors import NotApplicable, SpecError

HINT = 0.5
"""Nats for every standard deviation of confidence in the order of a silent client's candidates.

They weigh it against how many candidates each client is expected to have trained on.
"""


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
        return Scores(fit_ratio(suspects, nonmembers, self.share, rng).log_ratio(suspects))

    def _assign(self, view: FederationView, rng: np.random.Generator) -> Assignment:
        ratio = np.zeros((len(view.records), len(view.targets)))
        order = np.zeros_like(ratio)
        for k in decision.clients_under_attack(view):
            suspects, candidates, nonmembers = self._points(
                view.targets[k], view.relevant[k], view.records, view.external[k]
            )
            fitted = fit_ratio(suspects, nonmembers, _expect_share(view, int(k)), rng)
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
        queries = reduce(Records.joined, sets)
        # axes by all alike: were they by the last, it could not change places with the first
        answers = _centre_log_probabilities(target.predict(queries.x))
        axes = _choose_axes(answers, queries.y, self.dimensions)
        points = Population(np.take_along_axis(answers, axes[queries.y], axis=1), queries.y)
        edges = np.cumsum([0, *map(len, sets)])
        return [points.take(np.arange(*edge)) for edge in itertools.pairwise(edges)]


def _expect_share(view: FederationView, k: int) -> float:
    """The share of members that is expected among the suspects of a client."""
    known = view.collusion
    if known.client is not None:
        # Laplace's rule: a colluder with no member at all does not make shares zero
        return float((known.relevant.sum() + 1) / (len(known.relevant) + 2))
    members = decision.expected_shares(view)[k] * len(view.records)
    return float(members / max(1, len(view.relevant[k])))


def _excess_confidence(
    suspects: Population, candidates: Population, nonmembers: Population
) -> Float64[np.ndarray, " records"]:
    """Candidates' own log probability less the mean of their class, in standard deviations."""
    z = np.concatenate([part.z[:, 0] for part in (candidates, suspects, nonmembers)])
    y = np.concatenate([part.y for part in (candidates, suspects, nonmembers)])
    mean = np.bincount(y, z) / np.maximum(np.bincount(y), 1)
    # less the mean of the class: easy classes are confident whoever trained on them
    residual: Float64[np.ndarray, " records"] = z - mean[y]
    residual /= float(residual.std()) or 1.0
    return residual[: len(candidates.y)]


def _centre_log_probabilities(
    probabilities: Float64[np.ndarray, "records classes"],
) -> Float64[np.ndarray, "records classes"]:
    """Log probabilities less their mean: logits, but for the constant that softmax loses."""
    positive = probabilities[probabilities > 0]
    # a zero is just beyond the smallest; half of the least number that there is would be zero
    least = max(positive.min() / 2, np.finfo(np.float64).tiny)
    log = np.log(np.maximum(probabilities, least))
    # softmax forgets a constant: centring gives the logits back but for it
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
    count = min(dimensions, classes - 1)
    return np.array([
        [label, *liveliest[liveliest != label][: count - 1]] for label in range(classes)
    ])  # fmt: skip
