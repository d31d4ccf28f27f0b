"""ShadowStack learns from the shadow models themselves what membership looks like."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.arguments import check_arguments
from divulge._util.digest import digest
from divulge._util.recent import RecentResults
from divulge.attacks.membership.shadow_stack import features, networks
from divulge.attacks.shared.shadow_scores import (
    ShadowSignals,
    check_enough_records,
    check_folds,
    mean_over_queries,
    rank_records,
    scaled_logits,
)
from divulge.core import ModelView, Need, PoolPredictions, Scores, Shadows
from divulge.errors import NotApplicable

FEWEST = 2
"""Fewest shadows: a single one in the target's place has no other to be compared with."""

TRAINING_ROWS = 300_000
"""Number of rows that are learned from: more would take time and add nothing."""

TARGET_REPEATS = 8
"""Number of times that the target is scored, each time with another shadow left out."""

NETWORKS = 2
"""Number of networks that learn from the same rows, and of which the log odds are averaged."""

FARTHEST = 8.0
"""Features further from their mean, in standard deviations, count as being so far."""

_LAST = RecentResults[networks.Networks]()
"""The controls of the attack have the same shadows."""

Features = Float64[np.ndarray, "rows features"]
Ranks = Int[np.ndarray, " rows"]


class _LeaveOneOutRows(NamedTuple):
    """What is learned from: each shadow in the target's place, on some of the records."""

    features: Features
    member: Bool[np.ndarray, " rows"]
    place: Ranks
    """Rank of the record that each row is about."""

    def take(self, rows: np.ndarray) -> "_LeaveOneOutRows":
        """Some of the rows, or all in another order."""
        return _LeaveOneOutRows(*(column[rows] for column in self))


@check_arguments
@dataclass(frozen=True, slots=True)
class ShadowStack:
    """Each shadow takes the target's place in turn; small networks learn to predict its members.

    For a shadow in the target's place, the features of each record come from that shadow's answer
    and from the other shadows; its label is whether that shadow was trained on it, which the
    attacker knows, having trained it. Networks fitted on all shadows' rows then read the target.
    The rows of a record never teach the networks that read this record (cross-fitting). The target
    too is compared with all shadows but one, several times, and its log odds are averaged.

    Offline, where no shadow was trained on a candidate, the rows are about the records that the
    shadows were trained on, and a record is compared with those shadows alone that were not trained
    on it: about half of them. The target is compared with a random half of the shadows, too.

    Shadows must be trained on subsets drawn independently of each other: complementary halves, or
    a design with each record in equally many, are refused.

    Args:
        folds: parts of the candidates; each is read by networks fitted on the others.

    References:
        divulge's own. The stand-in target is that of Shokri et al. (2017); features are those of
        LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024) at three temperatures and two
        weights, and a Student t ratio in place of LiRA's Gaussian one.
    """

    folds: int = 3

    name: ClassVar[str] = "shadow-stack"
    paper: ClassVar[str] = "divulge 2026"

    def __post_init__(self) -> None:
        check_folds(self.folds)

    @property
    def needs(self) -> Need:
        """The model's probabilities, and shadows."""
        return Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """The log odds of membership that the networks give each candidate."""
        assert view.shadows is not None
        said = scaled_logits(view)
        known = view.shadows if view.shadows.online else view.shadows.pool
        self._check_shadows(known)
        assert known is not None
        usual = features.pooled_statistics(said.blocks(known))
        lessons = _leave_one_out_rows(said, known, usual, self.folds)
        turns = _target_in_turn(said, usual, rng)
        if not view.shadows.online:
            everything = np.arange(len(lessons.member))
            return Scores(_read(lessons, [everything], turns, rng)[0])
        place = rank_records(said.blocks())
        parts = [np.flatnonzero(lessons.place % self.folds != fold) for fold in range(self.folds)]
        read = _read(lessons, parts, turns, rng)
        return Scores(read[place % self.folds, np.arange(len(place))])

    def _check_shadows(self, known: Shadows | PoolPredictions | None) -> None:
        if known is None:
            raise NotApplicable(
                "expected shadows trained on random candidates, or asked about the records that "
                "they were trained on, got neither: train shadows with divulge"
            )
        records, models = known.phi.shape
        if models < FEWEST:
            raise NotApplicable(f"expected {FEWEST} or more shadows, got {models}: train more")
        check_enough_records(records, self.folds)
        trained = known.member.sum(axis=1)
        if np.ptp(trained) == 0 and records > 1:
            raise NotApplicable(
                "expected shadows trained on halves that are drawn independently of each other, "
                f"got each record in {trained[0]} of {models}: what the others were trained on "
                "then tells whom a shadow was trained on, and only this would be learned"
            )


def _leave_one_out_rows(
    said: ShadowSignals,
    known: Shadows | PoolPredictions,
    usual: features.PooledStatistics,
    folds: int,
) -> _LeaveOneOutRows:
    """Leave-one-out features of each shadow, on an equal share of the records that it knows."""
    place = rank_records(said.blocks(known))
    records, models = known.phi.shape
    step = max(1, -(-records * models // TRAINING_ROWS))
    parts = []
    for block in said.blocks(known):
        phi, here = mean_over_queries(block.phi), place[block.rows]
        others = features.leave_one_out_sums(block, inside=said.shadows.online)
        for k in range(models):
            chosen = ((here // folds + k) % step == 0) & others.known(k)
            seen = features.leave_one_out_features(phi[chosen, k], others.column(k, chosen), usual)
            order = here[chosen] * models + k
            parts.append((seen, block.member[chosen, k], here[chosen], order))
    seen, member, places, order = map(np.concatenate, zip(*parts, strict=True))
    # whatever the order of the records, the networks meet the same rows
    return _LeaveOneOutRows(seen, member, places).take(np.argsort(order))


def _target_in_turn(
    said: ShadowSignals, usual: features.PooledStatistics, rng: np.random.Generator
) -> list[Features]:
    """Features of the target beside all shadows but one, a few times.

    Offline, a shadow is compared with those of the others alone that did not know a record: about
    half. So the target, too, is compared with a random half of them.
    """
    target = mean_over_queries(said.target)
    records, models = said.shadows.phi.shape
    away = sorted(rng.permutation(models)[:TARGET_REPEATS].tolist())
    choices = [np.arange(models) != k for k in away]
    if not said.shadows.online:
        place = rank_records(said.blocks())
        choices = [_random_half(others, records, rng)[place] for others in choices]
    parts = []
    for block in said.blocks():
        here = [chosen if said.shadows.online else chosen[block.rows] for chosen in choices]
        others = features.sums_over(block, here)
        parts.append([
            features.leave_one_out_features(
                target[block.rows], others.column(turn, slice(None)), usual
            )
            for turn in range(len(choices))
        ])  # fmt: skip
    return [np.concatenate(turn) for turn in zip(*parts, strict=True)]


def _random_half(
    shadows: Bool[np.ndarray, " models"], records: int, rng: np.random.Generator
) -> Bool[np.ndarray, "records models"]:
    """For each record a random half of these shadows, and at least one of them."""
    half = shadows & (rng.random((records, len(shadows))) < 0.5)
    one = rng.choice(np.flatnonzero(shadows), size=records)
    half[np.arange(records), one] |= ~half.any(axis=1)
    return half


def _read(
    lessons: _LeaveOneOutRows,
    parts: list[Int[np.ndarray, " _"]],
    turns: list[Features],
    rng: np.random.Generator,
) -> Float64[np.ndarray, "parts records"]:
    """The log odds of membership, read by what each part of the rows taught."""
    from threadpoolctl import threadpool_limits

    member = lessons.member
    if any(member[part].all() or not member[part].any() for part in parts):
        raise NotApplicable("expected shadows with and without the candidates, got one kind alone")
    usual, spread = lessons.features.mean(axis=0), lessons.features.std(axis=0)

    def scale(rows: Features) -> Features:
        near: Features = np.clip(
            (rows - usual) / np.where(spread, spread, 1.0), -FARTHEST, FARTHEST
        )
        return near

    key = digest(f"{rng.bit_generator.state}", lessons.features, member, *parts)
    with threadpool_limits(1):  # matrices so small only wait for each other
        trained = _LAST.get(
            key, lambda: networks.train(scale(lessons.features), member, parts * NETWORKS, rng)
        )
    seen = [scale(turn) for turn in turns]
    odds = np.array(
        [
            np.mean([trained.log_odds(k, x) for x in seen], axis=0)
            for k in range(len(parts) * NETWORKS)
        ]
    )
    found: Float64[np.ndarray, "parts records"] = odds.reshape(NETWORKS, len(parts), -1).mean(
        axis=0
    )
    return found
