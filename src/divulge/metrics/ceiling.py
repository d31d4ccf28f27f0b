"""Whether a figure is shown to be under a ceiling, shown to be over it, or neither.

Fewer records widen an interval, so they make it no easier to be shown under a ceiling.
"""

import math
from typing import Literal

from scipy import special

from divulge.metrics.intervals import CONFIDENCE, normal_quantile
from divulge.metrics.power import POWER

Side = Literal["under", "over", "undecided"]

MOST = 10_000_000
"""The largest number of records that is worth naming."""


def find_side(low: float, high: float | None, ceiling: float) -> Side:
    """On which side of a ceiling a figure is shown to be.

    Args:
        low: the lower limit of its interval.
        high: the upper limit; None where the figure is a lower bound.
        ceiling: the highest agreed value.

    Returns:
        ``under`` where the upper limit is at or below the ceiling, ``over`` where the lower limit
        is above it, else ``undecided``.

    Examples:
        >>> [find_side(0.52, 0.58, ceiling) for ceiling in (0.5, 0.55, 0.6)]
        ['over', 'undecided', 'under']
    """
    if low > ceiling:
        return "over"
    return "under" if high is not None and high <= ceiling else "undecided"


def records_to_decide(
    value: float, low: float, high: float, ceiling: float, records: int
) -> int | None:
    """With how many records four of five audits would decide, if the value is the true one.

    An interval is as wide as the inverse square root of the number of records. Its limit has to lie
    between the value and the ceiling, with room for values that vary: 0.84 standard errors for
    `POWER`.

    Args:
        value: as measured.
        low: the lower limit of its interval.
        high: the upper limit.
        ceiling: the highest agreed value.
        records: the number of records that the interval comes from.

    Returns:
        The number, with two digits; None where it is above `MOST`, as at the ceiling itself.

    Examples:
        >>> records_to_decide(0.55, 0.5, 0.6, ceiling=0.57, records=1000)
        13000
    """
    gap = abs(ceiling - value)
    half = high - value if value <= ceiling else value - low
    more = 1 + float(special.ndtri(POWER)) / normal_quantile(CONFIDENCE)
    if gap * math.sqrt(MOST / records) <= half * more:
        return None
    needed = records * (half * more / gap) ** 2
    digit = int(10 ** max(0, math.floor(math.log10(max(needed, 1))) - 1))
    return math.ceil(needed / digit) * digit
