"""Members that are exposed beyond doubt have low p-values, at a given false-discovery rate.

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

**What the rate is not.** It is a mean over the whole list and over audits. It promises nothing
about one class, or one record, of the list. It holds for an attack that was chosen before its
scores were held against the truth.

References:
    Bates, Candès, Lei, Romano and Sesia (2023), Testing for outliers with conformal p-values,
    equation 2 and theorem 2; Benjamini and Hochberg (1995), Controlling the false discovery rate.
"""

import math

import numpy as np
from jaxtyping import Float, Float64, Int

from divulge.metrics.membership import Member, Score, split_by_membership

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
    lowest = np.minimum.accumulate(rates[::-1])[::-1]
    found = np.empty(members)
    found[order] = np.minimum(lowest, 1.0)
    return found


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
