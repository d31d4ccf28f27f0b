"""Rows of features: each shadow in the target's place, and the target itself."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge.attacks.membership.shadow_stack import features
from divulge.attacks.membership.shadow_stack.features import Features
from divulge.attacks.shared.shadow_signals import (
    AttackTrainingSet,
    ShadowSignals,
    mean_over_queries,
    rank_records,
)
from divulge.attacks.shared.shadow_statistics import TEMPERATURES, WEIGHTS

TRAINING_ROWS = 300_000
"""Number of rows that are learned from: more would take time and add nothing."""

TARGET_REPEATS = 8
"""Number of times that the target is scored, each time with another shadow left out."""

Ranks = Int[np.ndarray, " rows"]


class LeaveOneOutRows(NamedTuple):
    """What is learned from: each shadow in the target's place, on some of the records."""

    features: Features
    ratios: Features
    member: Bool[np.ndarray, " rows"]
    place: Ranks
    """Rank of the record that each row is about."""
    shadow: Ranks
    """Number of the shadow in the target's place."""


def leave_one_out_rows(
    signals: ShadowSignals,
    known: AttackTrainingSet,
    usual: features.PooledStatistics,
    folds: int,
) -> LeaveOneOutRows:
    """Leave-one-out features of each shadow, on an equal share of the records that it knows.

    Whatever the order of the records, networks meet the same rows: by record, then by shadow.
    """
    place = rank_records(signals.blocks(known.shadows))
    kept = _choose(signals, known, place, folds)
    rows = _empty_rows(kept)
    first = np.cumsum(kept.sum(axis=1)) - kept.sum(axis=1)
    for block in signals.blocks(known.shadows):
        phi, here = mean_over_queries(block.phi), place[block.rows]
        others = features.leave_one_out_sums(block, inside=signals.shadows.online)
        at = first[here, None] + np.cumsum(kept[here], axis=1) - 1
        for k, chosen in enumerate(kept[here].T):
            own = at[chosen, k]
            rows.features[own, : features.PLAIN], rows.ratios[own] = (
                features.leave_one_out_features(phi[chosen, k], others.column(k, chosen), usual)
            )
            rows.member[own] = block.member[chosen, k]
    y = known.y[np.argsort(place)]
    for k in range(kept.shape[1]):
        own, there = np.flatnonzero(rows.shadow == k), rows.place[rows.shadow == k]
        rows.features[own] = features.add_class_shifts(
            rows.features[own, : features.PLAIN], y[there], there
        )
    return rows


def _choose(
    signals: ShadowSignals, known: AttackTrainingSet, place: Ranks, folds: int
) -> Bool[np.ndarray, "places models"]:
    """Which rows are learned from, by the rank of the record and the number of the shadow."""
    records, models = known.shadows.phi.shape
    step = max(1, -(-records * models // TRAINING_ROWS))
    kept = np.empty((records, models), np.bool_)
    for block in signals.blocks(known.shadows):
        here = place[block.rows]
        sides = [~block.member, *([block.member] if signals.shadows.online else [])]
        asked = [side.sum(axis=1, keepdims=True) > side for side in sides]  # any other shadow
        # shadows take turns, so that each record is kept about as often as any other
        turn = ((here // folds)[:, None] + np.arange(models)) % step == 0
        kept[here] = turn & np.logical_or.reduce(asked)
    return kept


def _empty_rows(kept: Bool[np.ndarray, "places models"]) -> LeaveOneOutRows:
    """Room for all rows: gathered in parts and joined, they would take several times as much."""
    place, shadow = np.nonzero(kept)
    return LeaveOneOutRows(
        np.empty((len(place), features.PLAIN + len(features.COMPARED))),
        np.empty((len(place), len(TEMPERATURES) * len(WEIGHTS))),
        np.empty(len(place), np.bool_),
        place,
        shadow,
    )


def target_in_turn(
    signals: ShadowSignals,
    y: Int[np.ndarray, " records"],
    usual: features.PooledStatistics,
    rng: np.random.Generator,
) -> list[Features]:
    """Features of the target beside all shadows but one, a few times.

    Offline, a shadow is compared with those of the others alone that did not know a record: about
    half. So the target, too, is compared with a random half of them.
    """
    target, place = mean_over_queries(signals.target), rank_records(signals.blocks())
    records, models = signals.shadows.phi.shape
    away = sorted(rng.permutation(models)[:TARGET_REPEATS].tolist())
    choices = [np.arange(models) != k for k in away]
    if not signals.shadows.online:
        choices = [_random_half(others, records, rng)[place] for others in choices]
    parts = []
    for block in signals.blocks():
        here = [chosen if signals.shadows.online else chosen[block.rows] for chosen in choices]
        others = features.sums_over(block, here)
        parts.append([
            features.leave_one_out_features(
                target[block.rows], others.column(turn, slice(None)), usual
            ).learned
            for turn in range(len(choices))
        ])  # fmt: skip
    turns = (np.concatenate(turn) for turn in zip(*parts, strict=True))
    return [features.add_class_shifts(turn, y, place) for turn in turns]


def ratios_by_all_shadows(signals: ShadowSignals, usual: features.PooledStatistics) -> Features:
    """RMIA's ratios of the target beside all shadows."""
    target, everyone = (
        mean_over_queries(signals.target),
        np.ones(signals.shadows.phi.shape[1], np.bool_),
    )
    return np.concatenate([
        features.likelihood_ratios(
            target[block.rows],
            features.sums_over(block, [everyone]).column(0, slice(None)),
            usual,
        )
        for block in signals.blocks()
    ])  # fmt: skip


def _random_half(
    shadows: Bool[np.ndarray, " models"], records: int, rng: np.random.Generator
) -> Bool[np.ndarray, "records models"]:
    """For each record a random half of these shadows, and at least one of them."""
    half = shadows & (rng.random((records, len(shadows))) < 0.5)
    lone = rng.choice(np.flatnonzero(shadows), size=records)
    # a record left without any shadow has no features
    half[np.arange(records), lone] |= ~half.any(axis=1)
    return half
