"""Tests whether guesses of who trained on each record beat guesses that know nothing of it."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64, Int

from divulge._util.extras import stats
from divulge.core import NOBODY, Assignment, Collusion
from divulge.metrics import assignment
from divulge.metrics.uninformed.draws import (
    RandomisationTest,
    log_arrangements,
    number_of_draws,
    permute_within_groups,
)

TOPS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of all pairs: among so many pairs with the highest scores the test counts right ones."""

_Contribution = Float64[np.ndarray, "records owners"]
"""What each record adds to a statistic if it is this client's; the last column is for nobody."""


def randomise(
    guesses: Sequence[Assignment | None],
    truth: Assignment,
    known: Collusion,
    label: Int[np.ndarray, " records"],
    rng: np.random.Generator,
) -> RandomisationTest:
    """Draw what guesses achieve if they know nothing of who trained on which record of a class.

    Owners, nobody included, are permuted among the records of a class that the attacker does not
    know: that is valid where the records of a class were dealt to clients and nobody at random.
    Each attack's statistics are its accuracy and, over all pairs of a record and a client under
    attack, the AUC of its scores and the number of right pairs among the highest of them (`TOPS`).

    Args:
        guesses: the guess of each attack; None for an attack that is not done.
        truth: the client of each record.
        known: what the colluding client knows.
        label: the class of each record.
        rng: draws the permutations.
    """
    done = [guess for guess in guesses if guess is not None]
    highest = (int(assigned.client.max(initial=0)) for assigned in [truth, *done])
    clients = 1 + max(known.client or 0, *highest)
    clients = max(
        [clients, *(assigned.score.shape[1] for assigned in done if assigned.score is not None)]
    )
    free = ~known.records
    owner = truth.client[free]
    contributions = {
        (k, name): worth
        for k, guess in enumerate(guesses)
        if guess is not None
        for name, worth in _contributions(guess, truth, known, clients)
    }
    owners = permute_within_groups(owner, label[free], rng, number_of_draws(len(owner)) + 1)
    # one draw at a time, all statistics of a record beside each other: that is how memory is fast
    worth = (
        np.stack(list(contributions.values()), axis=2)
        if contributions
        else np.zeros((len(owner), clients + 1, 0))
    )
    rows = np.arange(len(owner))
    table = np.array([worth[rows, drawn].sum(axis=0) for drawn in owners])
    ways = sum(
        log_arrangements(np.unique(owner[label[free] == each], return_counts=True)[1].tolist())
        for each in np.unique(label[free])
    )
    return RandomisationTest(tuple(contributions), (table,), math.exp(-ways))


def _contributions(
    guess: Assignment, truth: Assignment, known: Collusion, clients: int
) -> Iterator[tuple[str, _Contribution]]:
    """Each statistic of a guess as a sum over the records that the attacker does not know."""
    right = guess.client == truth.client
    free = ~known.records
    owners = np.array([*range(clients), NOBODY])
    hits = (guess.client[free, None] == owners).astype(np.float64)
    yield "accuracy", (hits + right[~free].sum() / max(1, free.sum())) / len(right)
    if guess.score is None or not np.isfinite(guess.score).all():
        return
    score, member = assignment.pairs(guess, truth, known)
    inside = int(member.sum())
    if not 0 < inside < len(member):
        return
    everybody = np.arange(clients)
    under = everybody[everybody != known.client]

    def table(value: Float64[np.ndarray, " pairs"]) -> _Contribution:
        worth = np.zeros((int(free.sum()), clients + 1))
        worth[:, under] = value.reshape(-1, len(under))
        return worth

    ranks = stats.rankdata(score)
    # the rank sum of right pairs, a sum over records: permuted owners pick columns
    yield "auc", table((ranks - (inside + 1) / 2) / (inside * (len(member) - inside)))
    for share in TOPS:
        yield f"top@{share:g}", table(_among_highest(score, max(1, round(share * len(score)))))


def _among_highest(
    score: Float64[np.ndarray, " pairs"], count: int
) -> Float64[np.ndarray, " pairs"]:
    """1 for the highest scores, and what is left shared among those that tie at the edge."""
    edge = np.sort(score)[-count]
    above, at = score > edge, score == edge
    counted: Float64[np.ndarray, " pairs"] = above + at * ((count - above.sum()) / at.sum())
    return counted
