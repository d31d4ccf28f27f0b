"""What a model would yield that gives away every record: no audit of this size can show more."""

from divulge.core import Drawn, Noise
from divulge.metrics.epsilon.testing import Guessing, audit, largest
from divulge.metrics.intervals import CONFIDENCE

_MOST = 10**7
"""Records: nobody audits more."""


def largest_bound(
    records: int,
    delta: float = 0.0,
    *,
    drawn: Drawn = "fixed",
    noise: Noise = "any",
    confidence: float = CONFIDENCE,
    tries: int = 1,
) -> float:
    """The bound that a model would yield that gives away who is a member, every record.

    Args:
        records: half of them members.
        delta: see `epsilon_lower_bound`, as for the others.
        drawn: how membership came about.
        noise: what is known about the training.
        confidence: of the bound.
        tries: of how many attacks it is one.

    Examples:
        >>> [round(largest_bound(n, 1e-5), 1) for n in (60, 200, 1000)]
        [2.1, 3.2, 4.7]
    """
    asked = audit(delta, drawn, noise, records, (1 - confidence) / tries)
    return largest(asked, lambda guessing: _all_right(guessing, records))


def records_needed(
    epsilon: float,
    delta: float = 0.0,
    *,
    drawn: Drawn = "fixed",
    noise: Noise = "any",
    tries: int = 1,
) -> int | None:
    """With how many records `largest_bound` exceeds this ε; None if ten million do not.

    Args:
        epsilon: that is to be refuted.
        delta: see `epsilon_lower_bound`, as for the others.
        drawn: how membership came about.
        noise: what is known about the training.
        tries: of how many attacks it is one.

    Returns:
        At least as many as needed, and up to a twentieth more: a number of two digits and zeros.

    Examples:
        >>> records_needed(8.0, 1e-5)
        33000
    """

    def enough(records: int) -> bool:
        return largest_bound(records, delta, drawn=drawn, noise=noise, tries=tries) > epsilon

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


def _all_right(guessing: Guessing, records: int) -> int:
    half = records // 2
    return min(guessing.top, half) + min(guessing.bottom, half)
