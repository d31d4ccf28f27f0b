"""Rows of features: each shadow in the target's place, and the target itself."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from divulge.attacks.membership.shadow_stack import features
from divulge.attacks.membership.shadow_stack.features import Features
from divulge.attacks.shared.shadow_signals import (
    AttackTrainingSet,
    RecordBlock,
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


class ComparedModels(NamedTuple):
    """Models in the target's place beside others, and the target."""

    lessons: "LeaveOneOutRows"
    turns: list[Features]
    """Features of the target, once for each turn."""
    ratios: Features
    """RMIA's ratios of the target."""


class LeaveOneOutRows(NamedTuple):
    """What is learned from: each shadow in the target's place, on some of the records."""

    features: Features
    ratios: Features
    member: Bool[np.ndarray, " rows"]
    place: Ranks
    """Rank of the record that each row is about."""
    shadow: Ranks
    """Number of the shadow in the target's place."""


def compare_models(
    signals: ShadowSignals,
    known: AttackTrainingSet,
    y: Int[np.ndarray, " records"],
    folds: int,
    rng: np.random.Generator,
) -> ComparedModels:
    """Each shadow beside the others, and the target beside all but one of them.

    Args:
        signals: of the candidates.
        known: what the shadows answer for records whose membership is known.
        y: the class of each candidate.
        folds: parts of the candidates, each scored by networks fitted to the others.
        rng: draws the shadows that are left out.
    """
    usual = features.pooled_statistics(signals.blocks(known.shadows))
    return ComparedModels(
        leave_one_out_rows(signals, known, usual, folds),
        target_in_turn(signals, y, usual, rng),
        ratios_by_all_shadows(signals, usual),
    )


def compare_pair(
    signals: ShadowSignals, y: Int[np.ndarray, " records"], folds: int
) -> ComparedModels:
    """A single shadow beside the target, and the target beside the shadow.

    Either sees the other as a model whose members are not known, or the two would not compare:
    whom the target was trained on is what is asked.
    """
    place = rank_records(signals.blocks())
    usual = features.pooled_statistics(_pairs(signals))
    blocks: list[tuple[features.RecordFeatures, ...]] = []
    for pair in _pairs(signals):
        others, every = features.leave_one_out_sums(pair), slice(None)
        blocks.append(
            tuple(
                features.leave_one_out_features(pair.phi[0][:, k], others.column(k, every), usual)
                for k in range(2)
            )
        )
    shadow, target = (
        features.RecordFeatures(*map(np.concatenate, zip(*parts, strict=True)))
        for parts in zip(*blocks, strict=True)
    )
    order = np.argsort(place)
    # as many rows as of several shadows, by the rank of the record as there
    order = order[np.arange(len(order)) // folds % -(-len(order) // TRAINING_ROWS) == 0]
    lessons = LeaveOneOutRows(
        features.add_class_shifts(shadow.learned[order], y[order], place[order]),
        shadow.ratios[order],
        np.asarray(signals.shadows.member[:, 0])[order],
        place[order],
        np.zeros(len(order), np.int64),
    )
    turn = features.add_class_shifts(target.learned, y, place)
    return ComparedModels(lessons, [turn], target.ratios)


def _pairs(signals: ShadowSignals) -> Iterator[RecordBlock]:
    """φ under the single shadow and the target, neither said to have been trained on anything."""
    target = mean_over_queries(signals.target)
    for block in signals.blocks():
        both = np.column_stack([mean_over_queries(block.phi), target[block.rows]])
        yield RecordBlock(block.rows, (both,), np.zeros(both.shape, np.bool_))


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
