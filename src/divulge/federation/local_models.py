"""Simulate clients that train, alone or together: which of them trained on a record?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge._util.arguments import Count, check_arguments
from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    FederationView,
    Game,
    RecordedUpdates,
    Records,
    Target,
    Trainer,
    UpdateDefence,
)
from divulge.errors import DataError
from divulge.federation.clients import LocalTrainer
from divulge.federation.fedavg import Federation
from divulge.federation.simulation import simulate
from divulge.federation.transcript_updates import TranscriptUpdates
from divulge.targets.recorded import TableTarget
from divulge.training.recipe import Recipe

RELEVANT_SHARE, EXTERNAL_SHARE, CANDIDATE_SHARE = 0.4, 0.7, 0.1
"""Number of relevant members (and of relevant non-members), of external records and of members
among the candidates, each over the number of a client's training records."""

OUTSIDER_RATIO = 1.5
"""Number of candidates that no client trained on, over the number of the others."""

Rows = Int[np.ndarray, " rows"]


class AssignmentGame(NamedTuple):
    """An assignment challenge, and the truth about its relevant records."""

    challenge: Game[FederationView, Assignment]
    relevant: tuple[Bool[np.ndarray, " relevant"], ...]
    """Whether each client trained on each of its relevant records, one array a client."""


class _RowSplit(NamedTuple):
    """Row numbers of the pool by role; a tuple has one array a client."""

    trained: tuple[Rows, ...]
    candidates: Rows
    relevant: tuple[Rows, ...]
    external: tuple[Rows, ...]


@check_arguments
def simulate_local_models(
    pool: Records, trainer: Trainer, sizes: Sequence[int], rng: np.random.Generator
) -> AssignmentGame:
    """Divide records among clients, train one model each, and hide the assignment.

    The last client colludes. Every model is asked about every record of the pool once; in the
    view, a record's only feature is its row number.

    Args:
        pool: records to divide.
        trainer: trainer of each client's model.
        sizes: number of training records of each client.
        rng: random numbers that divide the records and seed the trainer.

    References:
        The composition is that of NIST's challenge as far as its published sizes tell
        (nist-stacking, arXiv 2604.12737, table 3): 40 % of a client's records are relevant, as
        many others beside them, 10 % are candidates. That 60 % are non-members is inferred.

    Raises:
        DataError: the pool is too small.
        TargetError: a model could not be trained.
    """
    dealt = _deal_rows(len(pool), sizes, rng)
    owner = _owners(dealt, len(pool))
    subsets = np.stack([owner == k for k in range(len(sizes))])
    seeds = rng.integers(2**31, size=len(sizes)).tolist()
    targets = tuple(
        TableTarget.record(model, pool.x) for model in trainer.many(pool, subsets, seeds)
    )
    return _hide_owners(dealt, owner, targets, Records(np.arange(len(pool)), pool.y))


@check_arguments
def simulate_federated_models(
    pool: Records,
    recipe: Recipe,
    sizes: Sequence[int],
    rounds: Count,
    rng: np.random.Generator,
    trainer: LocalTrainer | None = None,
    defence: UpdateDefence | None = None,
) -> AssignmentGame:
    """Divide records among clients, train one model together by FedAvg, and hide the assignment.

    The last client colludes. The view has each client's model after the last round, and what the
    server got in every round.

    Args:
        pool: records to divide.
        recipe: local training of a client in one round.
        sizes: number of training records of each client.
        rounds: number of rounds; every client takes part in each.
        rng: random numbers that divide the records and seed the training.
        trainer: trainer of the clients, in place of plain training by the recipe.
        defence: what changes each update before it is sent.

    References:
        As of `simulate_local_models`.

    Raises:
        DataError: the pool is too small.
        TargetError: a model could not be trained.
    """
    dealt = _deal_rows(len(pool), sizes, rng)
    seed = int(rng.integers(2**31))
    together = Federation(
        pool,
        dealt.trained,
        recipe,
        defence=defence or UpdateDefence(),
        trainer=trainer,
        seed=seed,
        workers=1,
    )
    names = tuple(str(k) for k in range(len(sizes)))
    updates = TranscriptUpdates(simulate(together, rounds).rounds, names, recipe.network)
    return _hide_owners(dealt, _owners(dealt, len(pool)), updates.models(), pool, updates)


def _owners(dealt: _RowSplit, records: int) -> Rows:
    owner = np.full(records, NOBODY)
    for k, rows in enumerate(dealt.trained):
        owner[rows] = k
    return owner


def _hide_owners(
    dealt: _RowSplit,
    owner: Rows,
    targets: tuple[Target, ...],
    records: Records,
    updates: RecordedUpdates | None = None,
) -> AssignmentGame:
    """The game in which the last client colludes, and records are seen as these."""
    members = tuple(owner[rows] == k for k, rows in enumerate(dealt.relevant))
    truth, colluder = owner[dealt.candidates], len(targets) - 1
    view = FederationView(
        targets,
        records.take(dealt.candidates),
        tuple(map(records.take, dealt.relevant)),
        tuple(map(records.take, dealt.external)),
        Collusion(colluder, members[-1], truth == colluder),
        updates,
    )
    return AssignmentGame(Game(view, Assignment(truth)), members)


def _deal_rows(records: int, sizes: Sequence[int], rng: np.random.Generator) -> _RowSplit:
    hidden = [int(CANDIDATE_SHARE * size) for size in sizes]
    outsiders = round(OUTSIDER_RATIO * sum(hidden))
    fewest = sum(sizes) + outsiders
    if not sizes or records < fewest + max(sizes) or min(hidden) < 1:
        raise DataError(
            "expected clients of 10 records or more and a pool of "
            f"{fewest + max(sizes, default=0)}, "
            f"got {min(sizes, default=0)} and {records}: give more records"
        )
    order = rng.permutation(records)
    trained = tuple(np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1]))
    of_nobody = order[sum(sizes) : fewest]
    shown = [rows[:n] for rows, n in zip(trained, hidden, strict=True)]
    candidates = rng.permutation(np.concatenate([*shown, of_nobody]))
    relevant, external = [], []
    for rows, n in zip(trained, hidden, strict=True):
        count = int(RELEVANT_SHARE * len(rows))
        suspected = rows[n : n + count]
        # a client's non-members may be members of another: the attacker cannot tell
        others = rng.permutation(np.setdiff1d(order, np.concatenate([rows, candidates])))
        relevant.append(rng.permutation(np.concatenate([suspected, others[:count]])))
        external.append(others[count : count + round(EXTERNAL_SHARE * len(rows))])
    return _RowSplit(trained, candidates, tuple(relevant), tuple(external))
