"""Rows that stand several times within a set: a join or a concatenation gone wrong.

Intervals and p-values take every row for a record of its own. Where row i stands c_i times, the
variance of a mean over rows is larger by the design effect Σ c² / Σ c (Kish 1965, Survey sampling),
and so, of both sets together, is that of an AUC.

Features that repeat are the same record. Answers that repeat need not be: a tree, a few neighbours
or rounding answer alike about many records. Such coarse answers are common to members and
non-members, lie on a grid, or are few; only what is none of these is taken for a record again.
Where every one of `DISTINCT` different rows or more stands m times, or a multiple of it, the
answers may be as coarse as they like: see `find_common_factor`; and where rows stand as often in
the other set as in their own: see `count_balanced`.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int, Real

from divulge._util.extras import stats
from divulge.checks.duplicates import Repeats, count_repeats
from divulge.checks.question import SeenAnswers
from divulge.checks.row_numbers import hash_rows
from divulge.core import Check, Verdict

NAME = "repeated rows"

TWICE = "records in two sets"
"""Name of the check that warns of copies, or near copies, in another set."""

BY_CHANCE = 2.0**-20
"""How improbable it is that so many rows stand as often in one set as in the other."""

LARGEST_EFFECT = 1.42
"""The design effect above which a 95 % interval covers less than 90 %: (1.960 / 1.645)²."""

DISTINCT = 20
"""The fewest different rows that show repeats, where all that is known of rows is answers."""

SHARED = 0.01
"""The share of rows whose answers stand in the other set too from which answers are coarse."""

FINEST_GRID = 2000
"""The largest number of trees or neighbours whose votes are recognised."""

CERTAIN = 0.9999
"""A highest probability from which answers are alike in many records, whatever the model."""

_LOOKED_AT = (200, 10)
"""Rows, and the highest probabilities of each, that are tried on grids."""

_COARSE = 0.9
"""The share of rows on a grid from which answers are coarse."""

Codes = Int[np.ndarray, " rows"]


def check_repeats(
    known: Repeats | None,
    answers: SeenAnswers,
    label: Real[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
) -> Check | None:
    """A warning where so many rows repeat that intervals are wrong; None elsewhere.

    Args:
        known: repeats of features; None where these are not known.
        answers: of the model about each candidate.
        label: the class of each, or its true value.
        member: who was trained on.
    """
    pairs = hash_rows(np.column_stack([answers.code, (label + 0.0).view(np.uint64)]))
    codes = np.unique(pairs, return_inverse=True)[1]
    # of a class that stands as often in both sets all may answer alike, with 0 and 1 alone
    graded = ~answers.sole if answers.classes > 1 else np.ones(len(codes), bool)
    balanced, even = count_balanced(codes[graded], member[graded])
    if stats.binom.sf(balanced - 1, even, 0.5) < BY_CHANCE:
        text = (
            f"{balanced:,} of {even:,} different rows that repeat stand as often among members as "
            "among non-members, where chance splits about half of them at most. One set holds "
            "records of the other, or numbers were given within each set, as ranks are."
        )
        return Check(TWICE, Verdict.WARNING, text)
    sets = {"members": codes[member], "non-members": codes[~member]}
    times = {name: find_common_factor(rows) for name, rows in sets.items()}
    if max(times.values()) > 1:
        cause = " and ".join(
            f"every row of the {name} stands there {_describe_times(count)}"
            for name, count in times.items()
            if count > 1
        )
        grown = sum(times[name] / len(rows) for name, rows in sets.items())
        return warn(cause.capitalize(), grown / sum(1 / len(rows) for rows in sets.values()))
    if known is None:
        known = _count_fine_repeats(answers, codes, member)
    if known.effect <= LARGEST_EFFECT:
        return None
    cause = (
        f"{known.members:,} of {int(member.sum()):,} members and {known.nonmembers:,} of "
        f"{int((~member).sum()):,} non-members repeat another row of their set"
    )
    return warn(cause, known.effect)


def find_common_factor(codes: Codes) -> int:
    """The greatest common divisor of how often rows stand in a set; 1 for too few different rows.

    However coarse answers are, it is 1 but for one set of a million. Counts of rows that are drawn
    by themselves are about Poisson and independent, and one that is not 0 is even with probability
    (1 - exp(-λ)) / 2 < 1/2, a multiple of a larger prime less often. All of `DISTINCT` counts are
    even with probability below 2^-20.
    """
    counts = np.unique(codes, return_counts=True)[1]
    return int(np.gcd.reduce(counts)) if len(counts) >= DISTINCT else 1


def count_balanced(codes: Codes, member: Bool[np.ndarray, " rows"]) -> tuple[int, int]:
    """Different rows that stand equally often in both sets, and those that stand 2, 4, ... times.

    However coarse answers are, and whatever leaks: records that are drawn by themselves and answer
    alike are members independently. Of n = 2k of them exactly k are with probability
    C(2k, k) / 4^k at most, which is 1/2 for a pair and less for more; where both sets have n
    records, n / (2n - 1) for a pair.
    """
    most = int(codes.max(initial=0)) + 1
    sides = [np.bincount(codes[mask], minlength=most) for mask in (member, ~member)]
    total = sides[0] + sides[1]
    even = (total > 0) & (total % 2 == 0)
    return int((sides[0][even] == sides[1][even]).sum()), int(even.sum())


def _count_fine_repeats(
    answers: SeenAnswers,
    codes: Codes,
    member: Bool[np.ndarray, " rows"],
) -> Repeats:
    """Repeats of answers that no other record could have; none where such cannot be told."""
    none, alone = Repeats(0, 0, 1.0), answers.code
    shared = np.isin(alone, np.intersect1d(alone[member], alone[~member]))
    certain = answers.top >= CERTAIN if answers.classes > 1 else shared & False
    if shared.mean() > SHARED or certain.all():
        return none
    others = np.flatnonzero(~certain)
    if is_coarse(answers.read(others[:: max(1, len(others) // _LOOKED_AT[0])])):
        return none
    own = np.where(certain, codes.max() + 1 + np.arange(len(codes)), codes)
    repeated = sum(int((np.bincount(own[mask]) > 1).sum()) for mask in (member, ~member))
    return count_repeats(own[member], own[~member]) if repeated >= DISTINCT else none


def is_coarse(answers: Float64[np.ndarray, "records columns"]) -> bool:
    """Whether most answers are votes of at most 2000 trees or neighbours, or rounded to 5 places.

    Probabilities that were rounded and then divided by their sum are a whole number of times one
    share still, one of about a power of ten.

    Examples:
        >>> is_coarse(np.array([[0.37, 0.41, 0.22]]))
        True
        >>> is_coarse(np.array([[0.4142135624, 0.3247179572, 0.2610684804]]))
        False
    """
    rows, columns = _LOOKED_AT
    some = answers[:: max(1, len(answers) // rows)]
    some = -np.sort(-some, axis=1)[:, :columns]
    around = np.arange(-10, 11)
    grids = np.concatenate([np.arange(1, FINEST_GRID + 1), 10**4 + around, 10**5 + around])
    # float32 holds a probability to 6e-8 of itself; chance is as near to some grid in two rows of
    # three at most, where there are two classes, and in far fewer where there are more
    error = 1e-7 if answers.shape[1] > 1 else 1e-12
    on_grid = np.ones((len(some), len(grids)), bool)
    for column in some.T:
        scaled = column[:, None] * grids
        on_grid &= np.abs(scaled - np.rint(scaled)) <= error * np.maximum(1, np.abs(scaled))
    return bool(on_grid.any(axis=1).mean() >= _COARSE)


def _describe_times(times: int) -> str:
    return f"{'twice' if times == 2 else f'{times} times'}, or a multiple of that"


def warn(cause: str, effect: float) -> Check:
    """The warning for what was seen, which raises variances by this factor."""
    text = (
        f"{cause}: standard errors, which take each row for a record of its own, are too small by "
        f"a factor of about {np.sqrt(effect):.2g}."
    )
    return Check(NAME, Verdict.WARNING, text)
