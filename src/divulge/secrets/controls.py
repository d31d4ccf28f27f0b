"""Three controls in every audit: of what an attack finds, of its inputs, and of the intervals.

An instrument that cannot see a leak prints low figures for every model. So each attack runs once
more, by the same code, on the same candidates, with membership drawn at random and a model whose
answers leak it on purpose: its AUC must clearly beat one half.

An attack that was told who is a member, by a bug or on purpose, finds a leak in every model. So
each attack runs a third time, on a model whose answers are shuffled among the candidates, and its
scores are held against the real membership: they must be independent of it.

And each guess is measured again with membership shuffled. That tests the interval of the AUC on
these scores, and not the attack: the intervals must cover chance.
"""

import math

import numpy as np
from jaxtyping import Bool, Int, Shaped

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.core import (
    BlindRun,
    Control,
    ControlOutcome,
    Estimate,
    Measurements,
    Membership,
    MembershipAttack,
    Scores,
    Status,
)
from divulge.errors import BudgetSpent
from divulge.metrics import people
from divulge.metrics.auc_intervals import areas
from divulge.metrics.membership import auc
from divulge.metrics.permutation import count_log_arrangements, membership_p
from divulge.secrets import attempt
from divulge.secrets.control_games import ControlGames, ModelGame

SHUFFLES = 200
SHUFFLED_RECORDS = 4000
"""Candidates that take part in shuffles and permutations, whatever the size of the audit."""

_MOST = 100_000
"""Places of members in shuffles that are measured at once: a few MB, which caches hold."""

FALSE_ALARM = 1e-4
"""How often a sound attack may fail its null control, or its control on a federation, by chance."""

BLIND_FALSE_ALARM = 0.005
"""How often a sound attack on membership may fail its blind control by chance alone.

The truth about 15 members is no rarer than 2⁻¹⁵ among all guesses, and in the verdict's statistics
about 0.002: a test at a much lower level cannot tell it from luck.
"""


def fewest_covered(shuffles: int) -> int:
    """The count below which 95 % intervals would fall with probability `FALSE_ALARM`.

    Examples:
        >>> fewest_covered(200)
        177
    """
    return int(stats.binom.ppf(FALSE_ALARM, shuffles, 0.95))


def run_controls(
    challenge: ModelGame,
    attack: MembershipAttack,
    guess: Scores,
    seed: int = 0,
    games: ControlGames | None = None,
) -> Control:
    """All controls of one attack that has guessed.

    Args:
        challenge: the game that the attack was put to.
        attack: the attack.
        guess: what it guessed there.
        seed: of the audit.
        games: keeps the games of the controls for further attacks on the same challenge.
    """
    games = games or ControlGames()
    result = _attempt(games.planted(challenge, seed), attack, seed, games.scores)
    done = result.finding.status is Status.DONE
    covered = _count_covered(guess, challenge.truth, seed)
    return Control(
        planted=result.finding.metrics["auc"] if done else None,
        covered=covered,
        shuffles=SHUFFLES,
        calm=covered >= fewest_covered(SHUFFLES),
        reason=result.finding.reason,
        blind=control_on_shuffled(challenge, attack, seed, games),
    )


def _attempt(
    challenge: ModelGame,
    attack: MembershipAttack,
    seed: int,
    shared: attempt.SharedScores,
) -> attempt.AttackResult:
    """One attack on a control, of which only the AUC counts."""
    return attempt.run_on_model(challenge, attack, seed, measure_guess=_measure_auc, shared=shared)


def _measure_auc(guess: Scores, truth: Membership, delta: float) -> Measurements:
    del delta
    return Measurements({"auc": auc(guess.score, truth.member)}, {})


def control_on_shuffled(
    challenge: ModelGame,
    attack: MembershipAttack,
    seed: int = 0,
    games: ControlGames | None = None,
) -> BlindRun:
    """The attack on shuffled answers, held against the real membership.

    What counts is what the verdict counts: the AUC, and the members among the highest scores. So
    the truth about a few members shows as well.

    Members and non-members may differ in their mix of classes, and scores may depend on the
    class; so membership is permuted within classes. That is exact for an attack that reads the
    answers and classes of the candidates. For a model that answers values, fifths of the true
    values stand for classes. One that also reads their features, or what shadows say
    of them, passes as often where members and non-members are drawn from one population; where
    the two sets differ in themselves, it may rightly fail: it does not measure the model alone.
    """
    games = games or ControlGames()
    result = _attempt(games.shuffled(challenge, seed), attack, seed, games.scores)
    if isinstance(result.error, BudgetSpent):  # says nothing about the attack
        return not_tested(result.finding.reason)
    if result.guess is None:
        return BlindRun(None, None, ControlOutcome.FAILED, result.finding.reason)
    rng = stream(seed, "blind control")
    member, label = challenge.truth.member, challenge.view.records.stratum
    if (person := challenge.view.records.people) is not None:
        label = people.most_frequent(label, person)
    chosen = _sample(member, rng)
    p_value = membership_p(result.guess.score[chosen], member[chosen], label[chosen], rng)
    few = too_few(member, label, "candidates", BLIND_FALSE_ALARM)
    return judge_p(result.finding.metrics["auc"], p_value, few, BLIND_FALSE_ALARM)


def judge_p(
    measured: Estimate | None, p_value: float, few: str, level: float = FALSE_ALARM
) -> BlindRun:
    """How an attack did on shuffled data.

    Args:
        measured: what it reached there.
        p_value: the chance of a result as extreme if the guess is independent of the truth.
        few: why no guess could have failed; empty if one could.
        level: how often a sound attack may fail.
    """
    if p_value <= level:
        return BlindRun(measured, p_value, ControlOutcome.FAILED)
    return BlindRun(
        measured, p_value, ControlOutcome.NOT_TESTED if few else ControlOutcome.PASSED, few
    )


def too_few(
    truth: Shaped[np.ndarray, " records"],
    group: Int[np.ndarray, " records"],
    what: str,
    level: float = FALSE_ALARM,
) -> str:
    """Why no guess of the truth can be as rare as `level`; empty if one can be.

    Args:
        truth: what is permuted within groups.
        group: the group of each record.
        what: the noun of the records.
        level: how often a sound attack may fail.
    """
    if count_log_arrangements(truth, group) > -math.log(level):
        return ""
    return f"{len(truth)} {what} are too few for this control"


def _count_covered(guess: Scores, truth: Membership, seed: int) -> int:
    """In how many shuffles of membership the interval of the AUC holds one half."""
    rng = stream(seed, "shuffled membership")
    chosen = _sample(truth.member, rng)
    score, member = guess.score[chosen], truth.member[chosen]
    covered, at_once = 0, max(1, _MOST // len(member))
    for begun in range(0, SHUFFLES, at_once):
        shuffles = range(begun, min(SHUFFLES, begun + at_once))
        _, low, high = areas(score, np.array([rng.permutation(member) for _ in shuffles]))
        covered += int(np.sum((low <= 0.5) & (high >= 0.5)))
    return covered


def _sample(
    member: Bool[np.ndarray, " records"], rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """Positions of `SHUFFLED_RECORDS` candidates, or of all where these lack a group."""
    order = rng.permutation(len(member))
    chosen = order[:SHUFFLED_RECORDS]
    few = member[chosen].all() or not member[chosen].any()
    return order if few else chosen


def too_few_clients(clients: int) -> BlindRun:
    """Of so few clients, no control."""
    return not_tested(f"{clients} clients are too few for this control")


def not_tested(why: str) -> BlindRun:
    """No control, and why."""
    return BlindRun(None, None, ControlOutcome.NOT_TESTED, why)
