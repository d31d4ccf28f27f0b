"""Power analysis: how small a leak an audit of a given size finds with 80 % power.

Two kinds of leak stand for all. In a *shift* every member's score is a little higher, normally
distributed, and the AUC says how much. In an *exposure* a few members score higher than all others,
and the share of members that do says how much. Each must lift one statistic of one attack above the
critical deviation of the test of all attacks (`divulge.metrics.max_test`). That other attacks and
statistics may see it too is not counted, so the power is at least what is said here.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.errors import SpecError
from divulge.metrics.max_test import SHARES, max_test

POWER = 0.8
"""Probability with which a leak is found, unless the user asks for another power."""

ATTACKS = 12
"""Number of attacks of a planned audit: about as many as divulge runs without shadow models."""

CORRELATION = 0.8
"""Correlation between the scores of any two attacks of a planned audit."""

MOST = 100_000
"""Largest number of members, with as many non-members, that a plan considers."""


class VisibleLeaks(NamedTuple):
    """The smallest leaks that an audit sees with a certain power."""

    auc: float | None
    """AUC of the smallest shift; None if the audit may miss even perfect scores."""
    exposed: float | None
    """Share of members that score higher than all others; None if not even all of them suffice."""


def visible_leaks(
    members: int, nonmembers: int, critical: float, power: float = POWER
) -> VisibleLeaks:
    """The smallest leaks that exceed the critical deviation with this power.

    Args:
        members: the number of members.
        nonmembers: the number of non-members.
        critical: the critical deviation from chance, in standard deviations.
        power: the chance of finding the leak, above 0 and below 1.

    Examples:
        >>> seen = visible_leaks(200, 200, critical=2.8)
        >>> round(seen.auc, 2), round(seen.exposed, 3)
        (0.6, 0.04)
    """
    return VisibleLeaks(
        _visible_auc(members, nonmembers, critical, power),
        _visible_share(members, nonmembers, critical, power),
    )


def design_effect(records_each: float, alike: float) -> float:
    """How many records of people count as one record of somebody else.

    Args:
        records_each: the number of records of a person.
        alike: the correlation of the scores of two records of one person, from 0 to 1.

    References:
        Kish (1965), Survey sampling, equation 8.2.3.

    Examples:
        >>> design_effect(10.0, 0.5)
        5.5
    """
    return 1 + (records_each - 1) * alike


def auc_by_record(by_person: float, records_each: float, alike: float) -> float:
    """The AUC of the records where that of people's mean scores is known, and scores are normal.

    A mean varies less than a record, so the same shift shows as a smaller AUC by record.

    Args:
        by_person: the AUC of people's mean scores.
        records_each: as of `design_effect`, and so is ``alike``.
        alike: see there.

    Examples:
        >>> round(auc_by_record(0.75, 10.0, 0.5), 2)
        0.69
    """
    spread = math.sqrt(design_effect(records_each, alike) / records_each)
    return float(special.ndtr(spread * special.ndtri(by_person)))


def critical_deviation(
    members: int, nonmembers: int, attacks: int = ATTACKS, correlation: float = CORRELATION
) -> float:
    """The critical deviation of an audit that is planned, from scores drawn at random.

    Args:
        members: the number of members.
        nonmembers: the number of non-members.
        attacks: the number of attacks.
        correlation: the correlation of the normal scores of any two attacks, from 0 to 1.
    """
    rng = stream(0, "metrics", "power")
    records = members + nonmembers
    common = rng.standard_normal(records)
    own = rng.standard_normal((attacks, records))
    scores = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    return max_test(scores, np.arange(records) < members).critical


def members_needed(
    *,
    auc: float | None = None,
    exposed: float | None = None,
    power: float = POWER,
    attacks: int = ATTACKS,
) -> int | None:
    """How many members, and as many non-members, it takes to see a leak with this power.

    Args:
        auc: the AUC of the leak, if it is a shift.
        exposed: the share of exposed members, if it is an exposure; give one of the two.
        power: the probability of finding the leak.
        attacks: the number of attacks.

    Returns:
        The number, to about 5 %; None if it is above `MOST`.

    Raises:
        SpecError: both leaks are given, or none, or one out of its range.
    """
    check_leak(auc, exposed)
    size = 100
    for _ in range(5):  # the critical deviation hardly depends on the size
        critical = critical_deviation(size, size, attacks)
        needed = _smallest_size(critical, power, auc, exposed)
        if needed is None or abs(needed - size) <= 0.05 * size:
            return needed
        size = needed
    return size


def check_leak(auc: float | None, exposed: float | None) -> None:
    """Refuse what is no leak.

    Raises:
        SpecError: both are given, or none, or one out of its range.
    """
    leak, least = (auc, 0.5) if auc is not None else (exposed, 0.0)
    if leak is None or (auc is not None and exposed is not None) or not least < leak <= 1:
        raise SpecError(
            "expected an AUC above 0.5 and up to 1, or a share of exposed members above 0 and up "
            f"to 1, got auc={auc} and exposed={exposed}: give one of the two"
        )


def _smallest_size(
    critical: float, power: float, auc: float | None, exposed: float | None
) -> int | None:
    def enough(size: int) -> bool:
        if auc is not None:
            visible = _visible_auc(size, size, critical, power)
            return visible is not None and visible <= auc
        assert exposed is not None
        return _power_of_tops(math.floor(exposed * size), size, size, critical) >= power

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if low >= MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= MOST else None


def _visible_auc(members: int, nonmembers: int, critical: float, power: float) -> float | None:
    """By the normal limit of the AUC, with Hanley and McNeil's variance where there is a leak.

    References:
        Hanley and McNeil (1982), The meaning and use of the area under a ROC curve, equation 1.
    """
    # Mann and Whitney's variance without a leak: (m + n + 1) / 12 m n
    edge = 0.5 + critical * math.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))

    def margin(auc: float) -> float:
        # Hanley and McNeil, eq. 1: two members above one non-member, and one above two
        pair_of_members = auc / (2 - auc)
        pair_of_nonmembers = 2 * auc**2 / (1 + auc)
        variance = auc * (1 - auc)
        variance += (members - 1) * (pair_of_members - auc**2)
        variance += (nonmembers - 1) * (pair_of_nonmembers - auc**2)
        spread = math.sqrt(max(variance, 0.0) / (members * nonmembers))
        return auc - edge - float(special.ndtri(power)) * spread

    if margin(1.0) < 0:
        return None
    return float(optimize.brentq(margin, 0.5, 1.0)) if margin(0.5) < 0 else 0.5


def _visible_share(members: int, nonmembers: int, critical: float, power: float) -> float | None:
    """Exactly: above the exposed members, the others fill the top at random."""
    low, high = 0, members
    if _power_of_tops(high, members, nonmembers, critical) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _power_of_tops(middle, members, nonmembers, critical) < power:
            low = middle
        else:
            high = middle
    return high / members


def _power_of_tops(exposed: int, members: int, nonmembers: int, critical: float) -> float:
    """The chance that the best single top holds more members than the critical deviation allows."""
    records = members + nonmembers
    best = 0.0
    for share in SHARES:
        places = max(1, round(share * records))
        # in closed form: SciPy computes a kurtosis beside, which two records do not have
        mean = places * (members / records)
        ways = members * nonmembers * places * (records - places)
        variance = ways / (records * records * (records - 1))
        enough = mean + critical * math.sqrt(variance)
        filled = min(exposed, places)
        others = stats.hypergeom(records - exposed, members - exposed, places - filled)
        # more than `enough`: a deviation that equals the critical one is no leak (`max_test`)
        best = max(best, float(others.sf(math.floor(enough - filled + 1e-9))))
    return best
