"""What would fewer questions have shown? For whoever pays for answers, or limits their rate."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from divulge._util.random import stream
from divulge.core import Estimate
from divulge.metrics import membership
from divulge.metrics.intervals import CONFIDENCE, wilson
from divulge.metrics.max_test import LEVEL, max_test
from divulge.metrics.membership import Member

MOST_PARTS = 20
"""The largest number of parts of one size that are looked at."""

FEWEST = 5
"""Members, and non-members, of a part below which nothing is asked of it."""


class QuestionsRow(NamedTuple):
    """What audits of so many candidates would have shown."""

    candidates: int
    """The number of candidates that the model is asked about."""
    parts: int
    """The number of parts of this size that were looked at; they share no candidate."""
    found: Estimate
    """The share of parts in which the test of the verdict finds a leak, with Wilson's interval."""
    auc: float
    """The lower limit of the highest AUC, the mean over parts; it holds for all attacks at once."""


def leak_by_questions(
    scores: Float[np.ndarray, "attacks records"], member: Member, seed: int = 0
) -> tuple[QuestionsRow, ...]:
    """What audits of 10, 30, 100, 300, ... candidates, and of all, would have shown.

    The candidates are split at random into parts of one size, with members and non-members in the
    proportion in which they are. Each part is tested as a whole audit is: by the permutation test
    of all attacks, at 5 %. Parts share no candidate, so that they are as many independent trials.

    The scores are those of the whole audit: attacks that learn from other candidates' answers
    would know less in a part.

    Args:
        scores: one row an attack, one score a candidate.
        member: which candidates are members.
        seed: of the split.

    Raises:
        DataError: a score is not finite, or a group is empty.

    Examples:
        >>> member = np.arange(400) < 200
        >>> rows = leak_by_questions(np.stack([3.0 * member + np.arange(400) % 7]), member)
        >>> [(row.candidates, row.parts, row.found.value) for row in rows][-2:]
        [(300, 1, 1.0), (400, 1, 1.0)]
    """
    rng = stream(seed, "leak by questions")
    total = len(member)
    smaller = min(int(member.sum()), int((~member).sum()))
    sizes = [size for power in range(1, 7) for size in (10**power, 3 * 10**power) if size < total]
    rows = [
        _row(scores, member, _parts(member, size, rng))
        for size in (*sizes, total)
        if size * smaller >= FEWEST * total
    ]
    return tuple(rows)


def _parts(
    member: Member, size: int, rng: np.random.Generator
) -> list[Int[np.ndarray, " candidates"]]:
    """Parts of this size, each with its share of members."""
    count = min(MOST_PARTS, len(member) // size)
    inside, outside = (rng.permutation(np.flatnonzero(group)) for group in (member, ~member))
    own = round(size * len(inside) / len(member))
    other = size - own
    return [
        np.concatenate([inside[k * own : (k + 1) * own], outside[k * other : (k + 1) * other]])
        for k in range(count)
    ]


def _row(
    scores: Float[np.ndarray, "attacks records"],
    member: Member,
    parts: list[Int[np.ndarray, " candidates"]],
) -> QuestionsRow:
    # Bonferroni: the highest lower limit is shown
    confidence = 1 - (1 - CONFIDENCE) / len(scores)
    hits = sum(max_test(scores[:, part], member[part]).p_value <= LEVEL for part in parts)
    lows = [
        max(
            float(membership.auc(score[part], member[part], confidence).low or 0)
            for score in scores
        )
        for part in parts
    ]
    detected = Estimate(hits / len(parts), *wilson(hits, len(parts)))
    return QuestionsRow(len(parts[0]), len(parts), detected, float(np.mean(lows)))
