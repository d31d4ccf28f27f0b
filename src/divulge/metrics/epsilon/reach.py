"""The bound of a model that leaks every record is the most that an audit of a size can show."""

from divulge.core import MembershipDraw, NoiseAssumption
from divulge.metrics.epsilon.testing import (
    Guessing,
    largest_refuted,
    prepare_epsilon_audit,
    refutes_more,
)
from divulge.metrics.intervals import CONFIDENCE

_MOST = 10**7
"""Largest number of records considered: nobody audits more."""


def largest_bound(
    records: int,
    delta: float = 0.0,
    *,
    drawn: MembershipDraw = "fixed",
    noise: NoiseAssumption = "any",
    confidence: float = CONFIDENCE,
    tries: int = 1,
) -> float:
    """The bound of a model that leaks the membership of every record.

    Args:
        records: the number of records, half of them members.
        delta: the δ of the guarantee; see `epsilon_lower_bound`, as for the others.
        drawn: how membership was drawn.
        noise: what is known about the training.
        confidence: the probability that the bound does not exceed the true ε.
        tries: the number of attacks that the bound is the highest of.

    Examples:
        >>> [round(largest_bound(n, 1e-5), 1) for n in (60, 200, 1000)]
        [2.1, 3.2, 4.7]
    """
    audit = prepare_epsilon_audit(delta, drawn, noise, records, (1 - confidence) / tries)
    return largest_refuted(audit, lambda guessing: _most_hits(guessing, records))


def can_refute(
    epsilon: float,
    records: int,
    delta: float = 0.0,
    *,
    drawn: MembershipDraw = "fixed",
    noise: NoiseAssumption = "any",
    tries: int = 1,
) -> bool:
    """Whether `largest_bound` exceeds an ε; a fraction of its work.

    Args:
        epsilon: the ε in question.
        records: see `largest_bound`, as for the others.
        delta: the δ of the guarantee.
        drawn: how membership was drawn.
        noise: what is known about the training.
        tries: the number of attacks.

    Examples:
        >>> [can_refute(3.0, records, 1e-5) for records in (100, 200)]
        [False, True]
    """
    audit = prepare_epsilon_audit(delta, drawn, noise, records, (1 - CONFIDENCE) / tries)
    return refutes_more(audit, lambda guessing: _most_hits(guessing, records), epsilon)


def records_needed(
    epsilon: float,
    delta: float = 0.0,
    *,
    drawn: MembershipDraw = "fixed",
    noise: NoiseAssumption = "any",
    tries: int = 1,
) -> int | None:
    """The number of records with which `largest_bound` exceeds this ε; None above ten million.

    Args:
        epsilon: the ε to be refuted.
        delta: the δ of the guarantee; see `epsilon_lower_bound`, as for the others.
        drawn: how membership was drawn.
        noise: what is known about the training.
        tries: the number of attacks that the bound is the highest of.

    Returns:
        At least as many as needed, and up to a twentieth more: a number of two digits and zeros.

    Examples:
        >>> records_needed(8.0, 1e-5)
        33000
    """

    def enough(records: int) -> bool:
        return can_refute(epsilon, records, delta, drawn=drawn, noise=noise, tries=tries)

    high = 16
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, low // 40):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit: int = 10 ** max(0, len(str(high)) - 2)
    return -(-high // unit) * unit


def _most_hits(guessing: Guessing, records: int) -> int:
    half = records // 2
    return min(guessing.top, half) + min(guessing.bottom, half)
