"""Thresholds that shadow models choose for a false-positive rate, without a look at the target.

An attacker does not know who among the candidates is a member, so it cannot take the threshold at
which the false-positive rate is 1 %. It knows the members of its shadow models. Each of them takes
the target's place and is attacked with the others, and its own non-members give its threshold;
the median over shadow models is applied to the target.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge._util.random import stream
from divulge.attacks.shared.turns import put_in_place_of_target
from divulge.core import (
    Estimate,
    Measurements,
    Membership,
    MembershipAttack,
    ModelView,
    Scores,
    ShadowThreshold,
)
from divulge.metrics import people
from divulge.metrics.intervals import clopper_pearson
from divulge.metrics.membership import Member, Score
from divulge.secrets import attempt

INTENDED = (0.01, 0.001)
"""The false-positive rates that thresholds are chosen for."""

TURNS = 8
"""How many shadow models take the target's place."""

CHOSEN_ON = 10_000
"""On so many candidates thresholds are chosen: more would only take time."""

ON_TRUE_CLASS = ("shadow", "calibrated", "lira", "rmia", "pmia", "shadow-stack")
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
    view: ModelView,
    attack: MembershipAttack,
    guess: Scores,
    truth: Membership,
    seed: int,
    shared: attempt.SharedScores | None = None,
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
        shared: what attacks on people gave records already.
    """
    shadows = view.shadows
    if attack.name not in (*ON_TRUE_CLASS, *ON_RESIDUALS) or shadows is None or not shadows.online:
        return ()
    rows = np.sort(stream(seed, "shadow thresholds").permutation(len(view.records))[:CHOSEN_ON])
    turns = list(_attack_each(view, attack, rows, seed, shared or attempt.SharedScores()))
    chosen = ((intended, _choose(turns, intended)) for intended in INTENDED)
    return tuple(
        _hold_against_target(intended, threshold, guess, truth)
        for intended, threshold in chosen
        if threshold
    )


def _choose(turns: Sequence[Turn], intended: float) -> list[float]:
    """The threshold of each shadow model that can say one."""
    thresholds = [
        threshold_at(*turn, intended) for turn in turns if (~turn.member).sum() * intended >= 1
    ]
    return [threshold for threshold in thresholds if np.isfinite(threshold)]


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


def _attack_each(
    view: ModelView,
    attack: MembershipAttack,
    rows: Int[np.ndarray, " chosen"],
    seed: int,
    shared: attempt.SharedScores,
) -> Iterator[Turn]:
    """Each shadow model in turn; one that the attack cannot be tried on is left out."""
    assert view.shadows is not None
    for k in range(min(TURNS, view.shadows.phi.shape[1])):
        stand_in, member = put_in_place_of_target(view, rows, k)
        score = partial(_score, stand_in, attack, shared, (view, k))
        result = attempt.attempt(attack, seed, score, _measure_nothing)
        if (person := stand_in.records.people) is not None:
            member = people.first_of_each(member, person)
        if result.guess is not None and member.any() and not member.all():
            yield Turn(result.guess.score, member)


def _score(
    stand_in: ModelView,
    attack: MembershipAttack,
    shared: attempt.SharedScores,
    place: tuple[ModelView, int],
    rng: np.random.Generator,
) -> Scores:
    return shared.score(
        attack, stand_in, place, lambda inner: attempt.AttackScores(inner(stand_in, rng))
    ).scores


def _measure_nothing(guess: Scores) -> Measurements:
    del guess
    return Measurements({}, {})


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
