"""Thresholds that shadow models choose for a false-positive rate, without a look at the target.

An attacker does not know who among the candidates is a member, so it cannot take the threshold at
which the false-positive rate is 1 %. It knows the members of its shadow models. Each of them takes
the target's place and is attacked with the others, and its own non-members give its threshold;
the median over shadow models is applied to the target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from divulge._util.random import stream
from divulge.audits import attempt
from divulge.core import (
    Estimate,
    Measurements,
    Membership,
    MembershipAttack,
    ModelView,
    Need,
    Records,
    Scores,
    ShadowThreshold,
)
from divulge.metrics.intervals import clopper_pearson
from divulge.metrics.membership import Member, Score

INTENDED = (0.01, 0.001)
"""The false-positive rates that thresholds are chosen for."""

TURNS = 8
"""How many shadow models take the target's place."""

CHOSEN_ON = 10_000
"""On so many candidates thresholds are chosen: more would only take time."""

ON_TRUE_CLASS = ("shadow", "calibrated", "lira", "rmia", "base", "pmia", "shadow-stack")
"""Attacks on classifiers that read nothing of an answer but the probability of the true class,
which is what is kept of shadow models."""

ON_RESIDUALS = ("residual-lira", "residual-rmia")
"""Attacks on regression models that read the residual, likewise."""


class Turn(NamedTuple):
    """A shadow model in the target's place."""

    score: Score
    """What the attack gives each record."""
    member: Member
    """Who is a member of the shadow model."""


def thresholds_from_shadows(
    view: ModelView, attack: MembershipAttack, guess: Scores, truth: Membership, seed: int
) -> tuple[ShadowThreshold, ...]:
    """The thresholds of one attack, and what they achieve on the target.

    There are none where the attack reads more of an answer than is kept of shadow models, where no
    shadow model was trained on candidates, where fewer shadow models than the attack needs are left
    to attack one of them, and for a rate at which not one non-member may be accused.

    Args:
        view: of the attacker, with shadow models.
        attack: an attack that has guessed.
        guess: its scores of the candidates.
        truth: who is a member of the target.
        seed: of the audit.
    """
    shadows = view.shadows
    if attack.name not in (*ON_TRUE_CLASS, *ON_RESIDUALS) or shadows is None or not shadows.online:
        return ()
    rows = np.sort(stream(seed, "shadow thresholds").permutation(len(view.records))[:CHOSEN_ON])
    turns = list(_attack_each(view, attack, rows, seed))
    chosen = ((intended, _choose(turns, intended)) for intended in INTENDED)
    return tuple(
        _hold_against_target(intended, found, guess, truth) for intended, found in chosen if found
    )


def _choose(turns: Sequence[Turn], intended: float) -> list[float]:
    """The threshold of each shadow model that can say one."""
    found = [
        threshold_at(*turn, intended) for turn in turns if (~turn.member).sum() * intended >= 1
    ]
    return [threshold for threshold in found if np.isfinite(threshold)]


def threshold_at(score: Score, member: Member, fpr: float) -> float:
    """The lowest score at which no more than this share of the non-members are accused.

    Records with that score or more are accused. Infinite where that is nobody.

    Examples:
        >>> score, member = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, False])
        >>> threshold_at(score, member, 0.5), threshold_at(score, member, 0.4)
        (0.7, 0.9)
    """
    outside = np.sort(score[~member])
    accused = len(outside) - np.searchsorted(outside, score, side="left")
    enough = score[accused <= fpr * len(outside) * (1 + 1e-12)]
    return float(enough.min(initial=np.inf))


@dataclass(frozen=True, slots=True)
class _ReplayedTarget:
    """A model whose answer to a record, which is its own number, stands in a table."""

    answers: Float[np.ndarray, "records columns"]
    offers: Need

    def predict(self, x: Float[np.ndarray, "asked one"]) -> Float[np.ndarray, "asked columns"]:
        """The rows of these numbers."""
        found: np.ndarray = self.answers[x[:, 0].astype(np.int64)]
        return found


def _attack_each(
    view: ModelView, attack: MembershipAttack, rows: Int[np.ndarray, " chosen"], seed: int
) -> Iterator[Turn]:
    """Each shadow model in turn; one that the attack cannot be tried on is left out."""
    assert view.shadows is not None
    for k in range(min(TURNS, view.shadows.phi.shape[1])):
        stand_in, member = _in_place_of_target(view, rows, k)
        found = attempt.attempt(attack, seed, partial(attack, stand_in), _measure_nothing)
        if found.guess is not None and member.any() and not member.all():
            yield Turn(found.guess.score, member)


def _measure_nothing(guess: Scores) -> Measurements:
    del guess
    return Measurements({}, {})


def _in_place_of_target(
    view: ModelView, rows: Int[np.ndarray, " chosen"], k: int
) -> tuple[ModelView, Bool[np.ndarray, " chosen"]]:
    """The view of an attacker on shadow model k, by means of the others; and k's members."""
    shadows = view.shadows
    assert shadows is not None
    others = np.flatnonzero(np.arange(shadows.phi.shape[1]) != k)
    y, owned = view.records.y[rows], view.reference
    labels = [y] * (1 + len(shadows.augmented_phi)) + ([] if owned is None else [owned.y])
    ways = [phi[rows] for phi in (shadows.phi, *shadows.augmented_phi)]
    said = [way[:, k] for way in ways] + [shadows.reference_phi[:, k]] * (owned is not None)
    starts = np.cumsum([0, *map(len, labels)])
    numbered = [
        Records(np.arange(start, start + len(one), dtype=np.float64)[:, None], one)
        for start, one in zip(starts, labels, strict=False)
    ]
    candidates, *further = numbered
    reference = further.pop() if owned is not None else None
    left = replace(
        shadows,
        phi=ways[0][:, others],
        member=shadows.member[rows][:, others],
        reference_phi=shadows.reference_phi[:, others],
        augmented_phi=tuple(way[:, others] for way in ways[1:]),
    )
    target = _replay(np.concatenate(said).astype(np.float64), np.concatenate(labels))
    stand_in = ModelView(target, candidates, reference, left, tuple(further))
    return stand_in, shadows.member[rows, k]


def _replay(phi: Float[np.ndarray, " records"], y: np.ndarray) -> _ReplayedTarget:
    """Answers of which φ is this: the rest of a probability goes to one other class."""
    if y.dtype.kind == "f":
        return _ReplayedTarget((y - phi)[:, None], Need.VALUES)
    classes, rows = max(2, int(y.max()) + 1), np.arange(len(y))
    answers = np.zeros((len(y), classes))
    answers[rows, y], answers[rows, (y + 1) % classes] = expit(phi), expit(-phi)
    return _ReplayedTarget(answers, Need.PROBABILITIES | Need.HARD_LABELS)


def _hold_against_target(
    intended: float, chosen: list[float], guess: Scores, truth: Membership
) -> ShadowThreshold:
    threshold = float(np.median(chosen))
    accused = guess.score >= threshold
    fpr, tpr = (_rate(accused[group]) for group in (~truth.member, truth.member))
    return ShadowThreshold(intended, threshold, len(chosen), fpr, tpr)


def _rate(accused: Bool[np.ndarray, " records"]) -> Estimate:
    """The share of the accused; the threshold does not depend on them, so they are binomial."""
    hits = int(accused.sum())
    return Estimate(hits / len(accused), *clopper_pearson(hits, len(accused)))
