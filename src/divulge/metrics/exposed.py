"""Exposed members: a list with a stated share of errors, and how many a top holds at least.

Listed members have low p-values, at a given false-discovery rate.

**Null hypothesis of a member:** its score would have been the same had the model not been trained
on it. A member for which that holds is not exposed, and to list it is a false discovery.

**Null distribution: the scores of this audit's own non-members.** The p-value of a member is the
rank of its score among them, counting itself (a conformal p-value). It holds for scores of any
distribution and for records of any hardness, because it supposes one thing only: that chance, and
nothing else, decided which of the candidates became members. Two other null distributions were
considered:

* Reference records are no valid one. Attacks calibrate on them, and candidates then score unlike
  the records that an attack was fitted to.
* A Gaussian per record, fitted to the shadows that were not trained on it, needs the far tail of
  that Gaussian: among 1,000 members p-values near one in ten thousand decide, and 16 shadows show
  nothing of that tail. Where logits have heavier tails than a Gaussian, most of the list is false
  (`tests/metrics/test_exposed.py` shows it). LiRA's score compares each record with its own shadows
  anyway, so that record-specific hardness is in the score, and the non-members calibrate it.

**Why the rate holds.** Exchange one member that is not exposed for a non-member: no score changes,
so its place among itself and the n non-members is uniform, whatever the other scores are. Fix these
n + 1 scores as a set. The p-values of other members that exceed its own depend on the set alone,
and so does the number R of records that Benjamini and Hochberg's rule lists, given that it lists
this one. It lists it with a probability of q R / m at most, and contributes at most q / m to the
rate; m members contribute q at most. With ties a p-value counts all non-members of the tie, which
only raises it. Exposure may depend on hardness in any way: unexposed members are then not typical
of non-members, but all members together would have been, and the bound counts all m.

**How many at least.** Without training no record is exposed, and who is a member says nothing about
the order of scores. So walk down the scores that all records would have as non-members: members and
non-members come in random order. Where y non-members stand in a top, more than U members can only
be exposed, if such a walk meets more than U members before its next non-member with a probability
below the error. The walk is tested at all its places at once: the likelihood ratio of "members come
first, with a fixed chance" to random order is a martingale, which exceeds 1 / error with the
probability ``error`` at most (Ville 1939). So the limit holds for all tops together, whichever is
looked at.

**What the rate is not.** It is a mean over the whole list and over audits. It promises nothing
about one class, or one record, of the list. It holds for an attack that was chosen before its
scores were held against the truth.

References:
    Bates, Candès, Lei, Romano and Sesia (2023), Testing for outliers with conformal p-values,
    equation 2 and theorem 2; Benjamini and Hochberg (1995), Controlling the false discovery rate;
    Rosenbaum (2001), Effects attributable to treatment, section 3; Ville (1939), Étude critique de
    la notion de collectif, chapter 5; Waudby-Smith and Ramdas (2020), Confidence sequences for
    sampling without replacement, section 2.
"""

import math

import numpy as np
from jaxtyping import Float, Float64, Int
from scipy import special

from divulge.metrics.membership import Member, Score, rank, split_by_membership

AccusedCounts = Int[np.ndarray, " members"]
PValues = Float[np.ndarray, " members"]


def count_accused(score: Score, member: Member) -> AccusedCounts:
    """For each member, count the non-members with a score at least as high.

    Args:
        score: score of every candidate; higher means more likely a member.
        member: true for the candidates that are members.

    Returns:
        One count a member, in the order of the candidates.

    Raises:
        DataError: a score is not finite, or a group is empty.

    Examples:
        >>> member = np.array([True, True, False, False])
        >>> count_accused(np.array([3.0, 2.0, 2.0, 1.0]), member).tolist()
        [0, 1]
    """
    inside, outside = split_by_membership(score, member)
    return len(outside) - np.searchsorted(np.sort(outside), inside, side="left")


def p_values(accused: AccusedCounts, nonmembers: int) -> Float64[np.ndarray, " members"]:
    """The conformal p-value of each member: (1 + non-members at least as high) / (1 + non-members).

    Examples:
        >>> p_values(np.array([0, 9]), nonmembers=99).tolist()
        [0.01, 0.1]
    """
    return (1 + accused) / (1 + nonmembers)


def q_values(accused: AccusedCounts, nonmembers: int) -> Float64[np.ndarray, " members"]:
    """The lowest false-discovery rate at which each member is listed (Benjamini and Hochberg).

    The list at rate q holds the members whose q-value is at most q.

    Examples:
        >>> q_values(np.array([0, 0, 4]), nonmembers=9).tolist()
        [0.15, 0.15, 0.5]
    """
    members = len(accused)
    order = np.argsort(accused, kind="stable")
    # whole numbers are divided once, so that a rate such as 0.05 is met exactly or not at all
    rates = members * (1 + accused[order]) / ((1 + nonmembers) * np.arange(1, members + 1))
    # Benjamini and Hochberg's step-up: the smallest rate of all longer lists
    lowest = np.minimum.accumulate(rates[::-1])[::-1]
    values = np.empty(members)
    values[order] = np.minimum(lowest, 1.0)
    return values


def fewest_listed(members: int, nonmembers: int, q: float) -> int | None:
    """The fewest members that a list at this rate can hold; None if it must be empty.

    The lowest p-value is 1 / (1 + non-members), so k members that all score higher than
    every non-member are listed if members / (1 + non-members) is at most k q.

    Examples:
        >>> fewest_listed(200, 200, 0.05), fewest_listed(200, 18, 0.05)
        (20, None)
    """
    fewest = max(1, math.floor(members / (q * (1 + nonmembers))))
    if members / ((1 + nonmembers) * fewest) > q:
        fewest += 1
    return fewest if fewest <= members else None


def nonmembers_needed(members: int, listed: int, q: float) -> int:
    """The non-members with which a list at this rate can hold so few members.

    Examples:
        >>> nonmembers_needed(200, 1, 0.05), fewest_listed(200, 3999, 0.05)
        (3999, 1)
    """
    enough = max(1, math.ceil(members / (q * listed)) - 1)
    return enough if members / ((1 + enough) * listed) <= q else enough + 1


def fewest_exposed_on_top(score: Score, member: Member, places: int, error: float) -> int:
    """How many of the members with the highest scores are exposed, at least.

    An exposed member here is one that would have scored lower had the model not been trained on it.
    The limit supposes that chance alone decided who became a member, and that the score of a record
    does not depend on who else did. It then holds for all numbers of places at once.

    Args:
        score: score of every candidate; higher means more likely a member.
        member: true for the candidates that are members.
        places: the number of highest scores. Those that tie beyond it are left out.
        error: the probability that the limit is too high for some number of places, at most.

    Raises:
        DataError: a score is not finite, or a group is empty.

    Examples:
        >>> member = np.arange(400) < 200
        >>> fewest_exposed_on_top(np.where(np.arange(400) < 20, 2.0, 1.0), member, 20, 0.05)
        14
    """
    corners = rank(score, member).corners
    whole = corners.alarms + corners.hits <= places
    alarms, hits = corners.alarms[whole], corners.hits[whole]
    most = _most_unexposed(alarms, hits, int(member.sum()), int((~member).sum()), error)
    return int((hits - most).max())


_Counts = Int[np.ndarray, " tops"]


def _most_unexposed(
    alarms: _Counts, hits: _Counts, members: int, nonmembers: int, error: float
) -> _Counts:
    """The most members, up to those counted, that random order puts beside so many non-members.

    From the share of all members on, each further one raises the likelihood ratio.
    """
    low: _Counts = np.minimum(-(-alarms * members // nonmembers), hits)
    # bisection: the likelihood ratio rises with each further member
    high = hits + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        fits = _log_ratio(middle, alarms, members, nonmembers) < -math.log(error)
        low[fits], high[~fits] = middle[fits], middle[~fits]
    return low


def _log_ratio(
    hits: _Counts, alarms: _Counts, members: int, nonmembers: int
) -> Float64[np.ndarray, " tops"]:
    """Log likelihood of so many members and non-members in a given order, over random order's.

    The chance of a member is uniform between the share of members and one. In random order, a given
    order is as likely as the rest can be filled in ways, over all ways.
    """
    records, placed = members + nonmembers, hits + alarms
    others = nonmembers / records
    mixed = special.betaln(hits + 1, alarms + 1) - math.log(others)
    # the uniform prior reaches from the share of members to one: the beta integral's upper part
    mixed += np.log(special.betainc(alarms + 1, hits + 1, others))
    ratio: Float64[np.ndarray, " tops"] = (
        mixed
        - _log_choose(records - placed, members - hits)
        + _log_choose(np.array([records]), np.array([members]))
    )
    return ratio


def _log_choose(of: _Counts, some: _Counts) -> Float64[np.ndarray, " tops"]:
    ways: Float64[np.ndarray, " tops"] = (
        special.gammaln(of + 1) - special.gammaln(some + 1) - special.gammaln(of - some + 1)
    )
    return ways
