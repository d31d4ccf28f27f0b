"""Two controls in every audit: each attack must find a planted leak, and nothing where none is.

An instrument that cannot see a leak prints low figures for every model. So each attack runs once
more, by the same code, on the same candidates, with membership drawn at random and a model whose
answers betray it on purpose: its AUC must clearly beat one half. And each guess is measured again
with membership shuffled: the intervals must cover chance.
"""

import dataclasses

import numpy as np
from scipy import stats

from divulge import auditing
from divulge.core import (
    Challenge,
    Control,
    Membership,
    MembershipAttack,
    ModelView,
    Scores,
    Status,
)
from divulge.metrics.delong import areas
from divulge.randomness import stream
from divulge.targets.planted import Planted

SHUFFLES = 200
SHUFFLED_RECORDS = 4000
"""Candidates that take part in the shuffles: enough to test an interval, whatever the audit."""

_MOST = 1_000_000
"""Places of members in shuffles that are measured at once: some tens of MB."""

FALSE_ALARM = 1e-4
"""How often a sound instrument may fail its null control, by chance alone."""


def fewest_covered(shuffles: int) -> int:
    """The count below which 95 % intervals would fall with probability `FALSE_ALARM`.

    Examples:
        >>> fewest_covered(200)
        177
    """
    return int(stats.binom.ppf(FALSE_ALARM, shuffles, 0.95))


def check(
    challenge: Challenge[ModelView, Membership],
    attack: MembershipAttack,
    guess: Scores,
    seed: int = 0,
) -> Control:
    """Both controls of one attack that has guessed."""
    result = auditing.run(planted(challenge, seed), attack, seed)
    done = result.finding.status is Status.DONE
    covered = _covered(guess, challenge.truth, seed)
    return Control(
        planted=result.finding.metrics["auc"] if done else None,
        covered=covered,
        shuffles=SHUFFLES,
        calm=covered >= fewest_covered(SHUFFLES),
        reason=result.finding.reason,
    )


def planted(
    challenge: Challenge[ModelView, Membership], seed: int = 0
) -> Challenge[ModelView, Membership]:
    """The same candidates before a model that betrays a random half of them on purpose."""
    records = challenge.view.records
    memorised = stream(seed, "planted leak").random(len(records)) < 0.5
    memorised[:2] = True, False  # both groups exist, however few the candidates
    ways = (records, *challenge.view.augmented)
    target = Planted(
        challenge.view.target,
        np.concatenate([way.x for way in ways]),
        np.concatenate([way.y for way in ways]),
        np.tile(memorised, len(ways)),
        seed,
    )
    return Challenge(dataclasses.replace(challenge.view, target=target), Membership(memorised))


def _covered(guess: Scores, truth: Membership, seed: int) -> int:
    """In how many shuffles of membership the interval of the AUC holds one half."""
    rng = stream(seed, "shuffled membership")
    chosen = rng.permutation(len(truth.member))[:SHUFFLED_RECORDS]
    score, member = guess.score[chosen], truth.member[chosen]
    if member.all() or not member.any():  # a group too small for the sample: take everybody
        score, member = guess.score, truth.member
    covered, at_once = 0, max(1, _MOST // len(member))
    for begun in range(0, SHUFFLES, at_once):
        shuffles = range(begun, min(SHUFFLES, begun + at_once))
        _, low, high = areas(score, np.array([rng.permutation(member) for _ in shuffles]))
        covered += int(np.sum((low <= 0.5) & (high >= 0.5)))
    return covered
