"""One training run gives a lower bound on the ε of differential privacy.

The attack guesses: the highest scores are members, the lowest are not. If training is private,
few guesses can be right, because each record became a member at random. Too many right guesses
refute ε.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge._util.random import stream
from divulge.core import Estimate, MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon.testing import (
    Guessing,
    largest_refuted,
    prepare_epsilon_audit,
    refutes_more,
)
from divulge.metrics.intervals import CONFIDENCE
from divulge.metrics.membership import Member, RankedScores, Score, rank

_LEFT_OUT = -1

_UNFAIR = 5.0
"""Fair coins are ruled out if the number of members is more standard deviations from one half."""


def epsilon_lower_bound(
    score: Score,
    member: Member,
    delta: float = 0.0,
    *,
    drawn: MembershipDraw = "fixed",
    noise: NoiseAssumption = "any",
    confidence: float = CONFIDENCE,
    tries: int = 1,
    ranked: RankedScores | None = None,
) -> Estimate:
    """The largest ε for adding or removing one record that the scores refute, zero if none.

    **Coins.** All bounds suppose that a fair coin of its own made each record a member.

    **Fixed numbers** are coins of which we know how many fell on one side: a smaller error is
    permitted then, see `fixed`, and ε need not be halved. Of unequal groups, as many of the larger
    as the smaller has are drawn; they are a draw of fixed numbers again. This holds for coins
    that are not fair, too.

    **Ties** are ordered at random, by a stream that does not depend on membership.

    Args:
        score: one score a record; higher means more likely a member.
        member: true for members, who were drawn at random among the records.
        delta: the δ of the guarantee to be refuted; 0 bounds pure ε.
        drawn: whether a fair coin of its own decided about each record, or numbers were fixed.
        noise: what is known about the training. ``"any"`` supposes nothing. ``"gaussian"`` supposes
            that its trade-off curve is that of Gaussian noise, as with full batches. With
            ``"independent-gaussian"`` records are besides independent of each other, as canaries
            are that do not interact: else the bound can exceed ε by far.
        confidence: the bound exceeds the true ε with probability ``1 - confidence`` at most.
        tries: the number of attacks whose highest bound is to keep that promise.
        ranked: the same scores, sorted by `divulge.metrics.membership.rank`; None sorts them.

    Returns:
        An estimate whose value is the bound itself and which has no upper end.

    References:
        Those of `one_run` and `independent`.

    Raises:
        SpecError: Gaussian noise and δ = 0: it has no ε there.

    Examples:
        >>> member = np.arange(1000) % 2 == 0
        >>> epsilon_lower_bound(member + 0.0, member, drawn="coins").value > 4
        True
        >>> epsilon_lower_bound(np.zeros(1000), member).value
        0.0
    """
    ranked = ranked or rank(score, member)  # refuses broken scores and empty groups
    records, drawn = count_usable(member, drawn)
    # Bonferroni over attacks, as the highest of their bounds is looked at
    audit = prepare_epsilon_audit(delta, drawn, noise, records, (1 - confidence) / tries)
    bound = largest_refuted(audit, _hit_counter(ranked, member, drawn))
    return Estimate(bound, bound, None)


def refutes_epsilon(
    epsilon: float, score: Score, member: Member, delta: float, *, noise: NoiseAssumption
) -> bool:
    """Whether `epsilon_lower_bound` exceeds an ε where coins drew; a fraction of its work.

    Args:
        epsilon: the ε in question.
        score: see `epsilon_lower_bound`, as for the others.
        member: who is a member.
        delta: the δ of the guarantee.
        noise: what is known about the training.

    Raises:
        SpecError: Gaussian noise and δ = 0: it has no ε there.
    """
    ranked = rank(score, member)
    records, drawn = count_usable(member, "coins")
    audit = prepare_epsilon_audit(delta, drawn, noise, records, 1 - CONFIDENCE)
    return refutes_more(audit, _hit_counter(ranked, member, drawn), epsilon)


def _hit_counter(
    ranked: RankedScores, member: Member, drawn: MembershipDraw
) -> Callable[[Guessing], int]:
    """Counts the right ones of the guesses about usable records."""
    rng = stream(0, "order of ties")
    members = np.concatenate(
        [[0], np.cumsum(_rank_members(ranked, _draw_lots(member, drawn, rng)))]
    )

    def count(guessing: Guessing) -> int:
        top, bottom, _ = guessing
        among_last = members[-1] - members[len(members) - 1 - bottom]
        return int(members[top] + bottom - among_last)

    return count


class UsableRecords(NamedTuple):
    """The records that a bound uses, and how their membership was drawn."""

    records: int
    drawn: MembershipDraw


def count_usable(member: Member, drawn: MembershipDraw) -> UsableRecords:
    """How many records a bound uses, and how their membership came about.

    All of them, if fair coins decided. Fixed numbers, and coins that cannot have been fair: as many
    of each group as the smaller one has, which is a draw of fixed numbers whatever the coins were.

    Examples:
        >>> count_usable(np.arange(1000) < 480, "coins")
        UsableRecords(records=1000, drawn='coins')
        >>> count_usable(np.arange(1000) < 100, "coins")
        UsableRecords(records=200, drawn='fixed')
    """
    members, records = int(np.sum(member)), len(member)
    if drawn == "coins" and abs(2 * members - records) <= _UNFAIR * math.sqrt(records):
        return UsableRecords(records, "coins")
    return UsableRecords(2 * min(members, records - members), "fixed")


def _balance_groups(member: Member, rng: np.random.Generator) -> Int[np.ndarray, " usable"]:
    """As many of each group, those of the larger one drawn at random; in their order."""
    groups = np.flatnonzero(member), np.flatnonzero(~member)
    fewest = min(map(len, groups))
    return np.sort(np.concatenate([rng.permutation(group)[:fewest] for group in groups]))


def _draw_lots(
    member: Member, drawn: MembershipDraw, rng: np.random.Generator
) -> Int[np.ndarray, " records"]:
    """The place of each usable record among those that tie; `_LEFT_OUT` of the others."""
    usable = np.arange(len(member)) if drawn == "coins" else _balance_groups(member, rng)
    lot = np.full(len(member), _LEFT_OUT, np.int32 if len(member) < 2**31 else np.int64)
    lot[usable] = rng.permutation(len(usable))
    return lot


def _rank_members(
    ranked: RankedScores, lot: Int[np.ndarray, " records"]
) -> Bool[np.ndarray, " usable"]:
    """Who of those kept is a member, by falling score; ties by their lots."""
    ranked = ranked.part(lot != _LEFT_OUT)
    size = ranked.last_of_tie.copy()
    size[0] += 1
    size[1:] -= ranked.last_of_tie[:-1]
    several = np.flatnonzero(size > 1)
    tied, level = np.repeat(size > 1, size), np.repeat(several, size[several])
    members, lots = ranked.member.copy(), lot[ranked.order[tied]]
    members[tied] = ranked.member[tied][np.lexsort((lots, level))]
    return members
