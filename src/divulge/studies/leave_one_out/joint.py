"""All memberships permuted together, and every target scored again: for the test of all targets."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from divulge._util import atomic
from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.core import MembershipAttack, ModelView, Need
from divulge.metrics.joint_test import DRAWS, Drawn, add_deviations
from divulge.metrics.max_test import STATISTICS
from divulge.metrics.membership import Score

FAST = ("calibrated", "lira", "base", "pmia", "shadow-gap", "residual-lira")
"""Attacks that score a thousand records in milliseconds, and toss no coins."""

LARGEST = 500_000
"""Records times models times targets up to which they are scored again: some ten seconds each."""

FILE, ARRAY = "permuted.npz", "drawn"

Members = Bool[np.ndarray, "models person_records"]
"""Where people are drawn, scores have one number a person, and memberships one a record."""


def permute_together(
    attacks: Sequence[MembershipAttack],
    scores: Sequence[Sequence[Score] | None],
    views: Sequence[ModelView],
    others: Sequence[Sequence[int]],
    member: Members,
    seed: int,
    person: Int[np.ndarray, " person_records"] | None = None,
    track: Track[Any] = track_silently,
) -> Drawn | None:
    """The sums over targets of every statistic, for each joint permutation.

    Args:
        attacks: those that were asked for.
        scores: of each attack those on every target; None if it did not end well on each.
        views: of the attacker on each target.
        others: the models that each target is compared with.
        member: who each model was trained on; the targets come first.
        seed: of the audits.
        person: whose record each is, where people are drawn: all records of a person are permuted
            as one, and attacks score people.
        track: shows progress.

    Returns:
        NaN for attacks that are not scored again; None if there are too many records and models.
    """
    if member.size * len(views) > LARGEST:
        return None
    rng = stream(seed, "joint permutations")
    first = None if person is None else np.unique(person, return_index=True)[1]
    drawn_as = member if first is None else member[:, first]
    drawn = np.full((len(attacks), len(STATISTICS), DRAWS), np.nan)
    for draw in track(range(DRAWS), "Permuting memberships"):
        shuffled = drawn_as[:, rng.permutation(drawn_as.shape[1])]
        by_record = shuffled if person is None else shuffled[:, person]
        member_views = [_with_members(*pair, by_record) for pair in zip(views, others, strict=True)]
        for k, (attack, fixed) in enumerate(zip(attacks, scores, strict=True)):
            if fixed is None:
                continue
            if Need.SHADOWS not in attack.needs:
                again = fixed
            elif attack.name in FAST:
                again = [attack(view, rng).score for view in member_views]
            else:
                continue
            drawn[k, :, draw] = add_deviations(again, list(shuffled[: len(views)]))
    return drawn


def _with_members(view: ModelView, others: Sequence[int], member: Members) -> ModelView:
    assert view.shadows is not None
    return replace(view, shadows=replace(view.shadows, member=member[others].T))


def store(path: Path, drawn: Drawn | None) -> None:
    """Write the draws into the run folder; those of fewer targets or attacks are no longer there.

    Raises:
        StoreError: they cannot be written.
    """
    with atomic.translate_os_errors(path):
        (path / FILE).unlink(missing_ok=True)
    if drawn is not None:
        atomic.write_arrays(path / FILE, {ARRAY: drawn.ravel()})


def load(path: Path, attacks: int) -> Drawn | None:
    """The draws in a run folder; None if it has none.

    Args:
        path: the run folder.
        attacks: how many were asked for.

    Raises:
        StoreError: they are damaged.
    """
    place = path / FILE
    if not place.exists():
        return None
    drawn, shape = atomic.read_arrays(place, ARRAY)[ARRAY], (attacks, len(STATISTICS), DRAWS)
    if len(drawn) != math.prod(shape) or drawn.dtype != np.float64:
        raise atomic.damaged_file_error(place, ValueError(f"{drawn.dtype} of length {len(drawn)}"))
    return drawn.reshape(shape)
