"""Near copies: augmented images, frames of a film, several records of a person, in one set.

A classifier that learned from one of them recognises the others, and a test that takes each for a
record of its own sees more than there is. They show where a record's nearest neighbours stand in
its own set more often than neighbours further away do. Where nearest neighbours stand in the other
set more often, records were written twice, and non-members were trained on. Two populations that
differ show further away too, and where near copies are spread over both sets at random nothing
shows, as a test of records is right then. Nothing else tells them: with few features a near copy is
no nearer than chance neighbours are. Near copies of a record that are as far from it as other
neighbours are, and less than a tenth of these, are not seen.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.checks import repeats
from divulge.core import Check, Verdict

COMPONENTS = 64
"""Principal components that stand for records with more features."""

REACHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of nearest neighbours among which near copies are looked for."""

RANKS = 2 * REACHES[-1]
"""Neighbours that are looked at; the further half says what is usual."""

DENSE = 0.1
"""Near copies among the nearest neighbours, as a share, below which a trend may explain them."""

SUSPECTED = 2.5
"""Standard deviations of agreement from which one of all near copies alone is looked at. Chance
reaches them in 3 % of audits, which then see less."""

SMOOTH = 5
"""Times the number of terms of the trend, the inverse of its ridge penalty."""

SURE = (0.05, 0.95)
"""Probabilities of a set beyond which the trend may not go."""

SEEN = 3.3
"""Standard deviations from which the check of near copies warns: as one of `REACHES` exceeds them
by chance, in one of 200 audits at most."""

CANDIDATES, LOOKED_AT = 10_000, 4000
"""The most candidates of which near copies are looked for, and of how many of them."""

_AT_ONCE = 500_000
"""Distances in memory together."""

Rows = Int[np.ndarray, " rows"]


class Clumps(NamedTuple):
    """How much more often near neighbours stand in one set than neighbours further away."""

    reach: int
    """How many nearest neighbours may be near copies; 0 where chance explains the agreement."""
    deviation: float
    """The largest agreement of near neighbours, in standard deviations."""
    copies: float
    """Mean number of near copies of a record in its own set, less those in the other one."""
    apart: float
    """By how many standard deviations nearest neighbours stand in different sets too often."""
    neighbours: Int[np.ndarray, "rows ranks"]
    """The neighbours of each record that was looked at, the nearest first."""
    equal: Bool[np.ndarray, "rows ranks"]
    """Which of them are exact copies."""


def check_near_copies(
    x: Float64[np.ndarray, "records columns"], member: Bool[np.ndarray, " records"]
) -> Check | None:
    """A warning where near copies stand in one set, or one in each; None elsewhere.

    In one set they make intervals too short; in both, members are compared with themselves.

    Args:
        x: what describes each candidate, of sets that no classifier tells apart.
        member: who was trained on.
    """
    rng = stream(0, "near copies")
    if len(x) < 2 * RANKS or member.all() or not member.any():
        return None
    order = rng.permutation(len(x))
    clumps = find_clumps(x[order], member[order], np.arange(len(x))[:LOOKED_AT])
    if clumps.apart > SEEN:
        nearest = order[clumps.neighbours[:, 0]]
        across = float((member[order[: len(nearest)]] != member[nearest]).mean())
        text = (
            f"Of {across:.0%} of the records the nearest neighbour is in the other set, far more "
            "than of neighbours further away: records stand among members and non-members, rounded "
            "or otherwise changed a little."
        )
        return Check(repeats.TWICE, Verdict.WARNING, text)
    if clumps.deviation < SEEN or 1 + clumps.copies <= repeats.LARGEST_EFFECT:
        return None
    text = (
        f"A record has about {clumps.copies:.1f} near copies more in its own set than in the other "
        "one, such as augmented images, frames of a film or records of one person"
    )
    return repeats.warn(text, 1 + clumps.copies)


def find_clumps(
    x: Float64[np.ndarray, "records columns"],
    which: Bool[np.ndarray, " records"],
    rows: Rows | None = None,
) -> Clumps:
    """Compare the sets of near neighbours with those of neighbours further away.

    Let w_i have mean 0 and variance 1 and be high in one set and low in the other, and h(k) be the
    mean of w_i w_j, where j is the k-th neighbour of i. If near copies have one score s, the
    variance of Σ w s is 1 + Σ h(k) times that for records of their own, where k runs over near
    copies. A difference of the two populations adds to h as well: w is what a smooth trend leaves
    of the sets, and what neighbours further away agree in is subtracted.

    Args:
        x: what describes each record, in random order: ties go by position.
        which: the set of each record.
        rows: the records whose neighbours are looked at; None looks at all.
    """
    rows = np.arange(len(x)) if rows is None else rows
    ranks = min(RANKS, len(x) // 4)
    # Features have any scale, components have that of the records.
    if x.shape[1] < COMPONENTS:
        x = stats.rankdata(x, axis=0) / len(x)
    neighbours, distance = _find_neighbours(x.astype(np.float32), rows, ranks)
    weight = _subtract_trend(x, which)
    agreement = (weight[rows, None] * weight[neighbours]).mean(axis=0)
    half = ranks // 2
    reaches = np.array([reach for reach in REACHES if reach <= half])
    copies = np.cumsum(agreement)[reaches - 1] - reaches * agreement[half:].mean()
    # a pair counts twice where each is a neighbour of the other
    deviation = copies / np.sqrt(2 / len(rows) * reaches * (1 + reaches / (ranks - half)))
    apart = -float(deviation[0]) if copies[0] < -DENSE else 0.0
    deviation[copies < DENSE * reaches] = 0
    best = int(np.argmax(np.where(deviation > 0, copies, -np.inf)))
    beyond = np.sqrt(2 / len(rows) * np.maximum(0, reaches[best] - reaches))
    nearest = int(np.argmax(copies >= copies[best] - 1.5 * beyond))
    suspected = deviation.max() >= SUSPECTED
    return Clumps(
        int(reaches[nearest]) if suspected else 0,
        float(deviation.max()),
        float(copies[nearest]),
        apart,
        neighbours,
        distance == 0,
    )


def group_near_copies(clumps: Clumps, rng: np.random.Generator) -> Rows:
    """By record, one that stands for it: itself, or an exact copy or a neighbour within the reach.

    No two that stand for themselves are near copies. They are chosen in random order, whatever
    their set.
    """
    near = clumps.equal | (np.arange(clumps.equal.shape[1]) < clumps.reach)
    records = len(near)
    linked: list[list[int]] = [[] for _ in range(records)]
    for row, rank in zip(*np.nonzero(near), strict=True):
        other = int(clumps.neighbours[row, rank])
        linked[row].append(other)
        linked[other].append(int(row))
    group = np.full(records, -1)
    for row in rng.permutation(records):
        if group[row] < 0:
            group[[row, *(other for other in linked[row] if group[other] < 0)]] = row
    return group


def keep_one_of_each(clumps: Clumps, rng: np.random.Generator) -> Rows:
    """Records no two of which are near copies; see `group_near_copies`."""
    group = group_near_copies(clumps, rng)
    return np.flatnonzero(group == np.arange(len(group)))


def _subtract_trend(
    x: Float64[np.ndarray, "records columns"], which: Bool[np.ndarray, " records"]
) -> Float64[np.ndarray, " records"]:
    """Pearson residuals of the sets in a logistic regression on all columns and their squares.

    Where the sets differ, neighbours agree the more, the nearer they are, near copies or not.
    """
    x = (x - x.mean(axis=0)) / (x.std(axis=0).max() or 1.0)
    terms = np.hstack([x, x**2 - (x**2).mean(axis=0)])
    # so many terms fit chance as well: by how much, sets that mean nothing tell
    left, by_chance = (_residuals(terms, sets) for sets in (which, which[::-1]))
    trendless: Float64[np.ndarray, " records"] = left / by_chance.std()
    return trendless


def _residuals(
    terms: Float64[np.ndarray, "records terms"], which: Bool[np.ndarray, " records"]
) -> Float64[np.ndarray, " records"]:
    from sklearn.linear_model import LogisticRegression

    # the more terms, the larger the penalty: else they fit near copies themselves
    model = LogisticRegression(C=SMOOTH / terms.shape[1], max_iter=200).fit(terms, which)
    # a record that is surely of the other set would outweigh all others
    chance = np.clip(model.predict_proba(terms)[:, 1], *SURE)
    return np.asarray((which - chance) / np.sqrt(chance * (1 - chance)))


def _find_neighbours(
    x: Float[np.ndarray, "records columns"], rows: Rows, ranks: int
) -> tuple[Int[np.ndarray, "rows ranks"], Float[np.ndarray, "rows ranks"]]:
    """The nearest other records of each row, and the squares of their distances."""
    x = x - x.mean(axis=0)
    squares = np.einsum("rc,rc->r", x, x)
    neighbours, distance = (
        np.empty((len(rows), ranks), np.int64),
        np.empty((len(rows), ranks), x.dtype),
    )
    step = max(1, _AT_ONCE // len(x))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        away = squares - 2 * (x[rows[some]] @ x.T)  # and the row's own square, alike for all
        away[np.arange(len(away)), rows[some]] = np.inf
        near = np.argpartition(away, ranks - 1, axis=1)[:, :ranks]
        apart = x[near] - x[rows[some], None]  # exactly zero for copies
        exact = np.einsum("rkc,rkc->rk", apart, apart)
        order = np.argsort(exact, axis=1, kind="stable")
        neighbours[some] = np.take_along_axis(near, order, axis=1)
        distance[some] = np.take_along_axis(exact, order, axis=1)
    return neighbours, distance
